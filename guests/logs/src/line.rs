//! A record of a text log.

use std::sync::Arc;

use super::timestamp;
use super::zone::Zone;

/// The size limit of a record: further lines become records of their own, and a longer line is cut.
/// For comparison, journald limits a line to 48 KiB (`LineMax=`, journald.conf(5)).
pub(super) const MAX_RECORD_BYTES: usize = 256 << 10;

/// A line of a text log, with the following lines that have no time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// The time in microseconds since 1970. A time without a zone is interpreted in the guest's
    /// zone.
    pub realtime_us: u64,
    /// The file's path in the guest.
    pub file: Arc<str>,
    /// The host name in the line.
    pub hostname: Option<Vec<u8>>,
    /// The program name in the line, or else the name of the log.
    pub identifier: Vec<u8>,
    /// The process ID in the line.
    pub pid: Option<Vec<u8>>,
    /// The text of the line, without the fields above.
    pub message: Vec<u8>,
}

/// The facts about a text log that are needed to parse its lines.
#[derive(Debug, Clone)]
pub(super) struct Style {
    pub(super) file: Arc<str>,
    /// The name of the log without the suffixes of rotation, and without `.log`.
    pub(super) stem: Arc<str>,
    /// The modification time of the file, in microseconds since 1970.
    pub(super) written_us: u64,
    /// The zone of its times.
    pub(super) zone: Arc<Zone>,
}

/// Logs of programs that write neither a host name nor their own name.
const PLAIN: [&str; 7] = [
    "alternatives",
    "boot",
    "dnf",
    "dnf.librepo",
    "dnf.rpm",
    "dpkg",
    "yum",
];

impl Style {
    /// Returns the record that starts with this line, if the line has a time.
    pub(super) fn begin(&self, line: &[u8]) -> Option<Line> {
        let (realtime_us, rest) = timestamp::parse(line, self.written_us, &self.zone)?;
        if !PLAIN.contains(&&*self.stem)
            && let Some(line) = self.syslog(realtime_us, rest)
        {
            return Some(line);
        }
        Some(self.plain(realtime_us, rest))
    }

    /// Returns a record of lines that have no time.
    pub(super) fn plain(&self, realtime_us: u64, text: &[u8]) -> Line {
        Line {
            realtime_us,
            file: Arc::clone(&self.file),
            hostname: None,
            identifier: self.stem.as_bytes().to_vec(),
            pid: None,
            message: text.to_vec(),
        }
    }

    /// Parses `host prog[pid]: text` (RFC 3164, section 4.1).
    fn syslog(&self, realtime_us: u64, rest: &[u8]) -> Option<Line> {
        let blank = rest.iter().position(|byte| *byte == b' ')?;
        let (hostname, rest) = (&rest[..blank], &rest[blank + 1..]);
        let colon = rest.iter().position(|byte| matches!(byte, b':' | b' '))?;
        let (tag, rest) = (&rest[..colon], &rest[colon..]);
        let text = rest.strip_prefix(b":")?;
        let (identifier, pid) = match tag.iter().position(|byte| *byte == b'[') {
            Some(bracket) => (&tag[..bracket], tag[bracket + 1..].strip_suffix(b"]")),
            None => (tag, None),
        };
        (!identifier.is_empty() && !hostname.is_empty()).then(|| Line {
            realtime_us,
            file: Arc::clone(&self.file),
            hostname: Some(hostname.to_vec()),
            identifier: identifier.to_vec(),
            pid: pid.map(<[u8]>::to_vec),
            message: text.strip_prefix(b" ").unwrap_or(text).to_vec(),
        })
    }
}

impl Line {
    /// Adds a line that has no time.
    pub(super) fn add(&mut self, text: &[u8]) {
        let room = MAX_RECORD_BYTES.saturating_sub(self.message.len() + 1);
        if room > 0 {
            self.message.push(b'\n');
            self.message
                .extend_from_slice(&text[..text.len().min(room)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(stem: &str) -> Style {
        Style {
            file: format!("/var/log/{stem}").into(),
            stem: stem.into(),
            written_us: 1_707_523_200_000_000,
            zone: Arc::default(),
        }
    }

    #[test]
    fn host_program_and_process_are_taken_apart() {
        let line = style("syslog")
            .begin(b"Feb  9 17:52:58 host sshd[12]: a: b")
            .unwrap();
        assert_eq!(line.hostname.as_deref(), Some(&b"host"[..]));
        assert_eq!(
            (&*line.identifier, line.pid.as_deref()),
            (&b"sshd"[..], Some(&b"12"[..]))
        );
        assert_eq!(line.message, b"a: b");
        let kernel = style("kern")
            .begin(b"2024-02-09T01:02:03.5+00:00 h kernel: [ 0.1] x: y")
            .unwrap();
        assert_eq!((&*kernel.identifier, kernel.pid), (&b"kernel"[..], None));
        assert_eq!(kernel.message, b"[ 0.1] x: y");
    }

    #[test]
    fn what_names_no_program_is_of_its_log() {
        let dpkg = style("dpkg")
            .begin(b"2024-01-01 12:00:00 status installed base:amd64 1")
            .unwrap();
        assert_eq!((&*dpkg.identifier, dpkg.hostname), (&b"dpkg"[..], None));
        let odd = style("syslog")
            .begin(b"Feb  9 17:52:58 last message repeated 2 times")
            .unwrap();
        assert_eq!(
            (&*odd.identifier, &*odd.message),
            (&b"syslog"[..], &b"last message repeated 2 times"[..])
        );
    }

    #[test]
    fn a_record_has_an_end() {
        let mut line = style("syslog").plain(0, b"x");
        let more = vec![b'y'; 64 << 10];
        (0..10).for_each(|_| line.add(&more));
        assert_eq!(line.message.len(), MAX_RECORD_BYTES);
    }
}
