//! The system's log, as syslog(3) writes to it.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use super::super::show::name::message;

/// The socket of the system's log: of systemd-journald, rsyslogd, syslog-ng or busybox.
const SOCKET: &str = "/dev/log";

/// The facility of system services, `LOG_DAEMON` of syslog(3).
const DAEMON: u8 = 3 << 3;

/// `LOG_ERR` of syslog(3), the severity of lines that are not of the log: errors and panics.
const ERROR: u8 = 3;

/// The longest line; rsyslogd cuts longer messages, too (`maxMessageSize`).
const LINE_MAX: u64 = 8 << 10;

/// The longest time that the system's log may take for a message. It may wait for the mount that
/// the message is about.
const PATIENCE: Duration = Duration::from_secs(1);

/// The system's log of a mount. On a host without one, messages are dropped.
#[derive(Debug)]
pub(in crate::cli) struct SystemLog {
    /// The start of all messages, after their priority.
    tag: String,
    socket: Option<UnixDatagram>,
}

impl SystemLog {
    pub(in crate::cli) fn new(mountpoint: &Path) -> Self {
        let (process, mountpoint) = (std::process::id(), mountpoint.to_string_lossy());
        Self {
            // Without a time (RFC 3164, section 4.1.2), which the receiver takes from its clock: the
            // form with a time has no time zone.
            tag: format!("diskfs[{process}]: {}: ", message(&mountpoint)),
            socket: connect(),
        }
    }

    /// Passes on the lines of a server, until it has ended.
    pub(in crate::cli) fn pass_on(&mut self, lines: impl Read) {
        let mut lines = BufReader::new(lines);
        let mut line = Vec::new();
        while let Ok(1..) = (&mut lines).take(LINE_MAX).read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line);
            let (severity, text) = parse(text.trim_end());
            self.send(severity, text);
            line.clear();
        }
    }

    /// Sends an error.
    pub(in crate::cli) fn error(&mut self, text: &str) {
        self.send(ERROR, text);
    }

    fn send(&mut self, severity: u8, text: &str) {
        let priority = DAEMON | severity;
        let datagram = format!("<{priority}>{}{}", self.tag, message(text));
        let send = |socket: &UnixDatagram| socket.send(datagram.as_bytes()).is_ok();
        if !self.socket.as_ref().is_some_and(send) {
            // The receiver was started again.
            self.socket = connect();
            let _ = self.socket.as_ref().map(send);
        }
    }
}

fn connect() -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_write_timeout(Some(PATIENCE)).ok()?;
    socket.connect(SOCKET).ok()?;
    Some(socket)
}

/// Splits a line of a server into its severity and its text. The server is not trusted with the
/// facility and the name of the sender.
fn parse(line: &str) -> (u8, &str) {
    let split = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    match split.map(|(severity, text)| (severity.parse(), text)) {
        Some((Ok(severity @ 0..8), text)) => (severity, text),
        _ => (ERROR, line.strip_prefix("diskfs: ").unwrap_or(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_chooses_the_severity_alone() {
        assert_eq!(parse("<4>a file"), (4, "a file"));
        assert_eq!(parse("diskfs: no space left"), (3, "no space left"));
        assert_eq!(parse("<38>sshd[1]: hello"), (3, "<38>sshd[1]: hello"));
        assert_eq!(parse("<-1>a"), (3, "<-1>a"));
        assert_eq!(parse("<4"), (3, "<4"));
        assert_eq!(parse(""), (3, ""));
    }
}
