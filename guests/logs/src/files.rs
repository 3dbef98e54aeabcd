//! The log files of a guest.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use diskfs_journal::{Boot, Journal};

use super::line::Style;
use super::origin::{LogFormat, Origin};
use super::packed::Packing;
use super::timestamp::microseconds;
use super::zone::{self, Zone};
use super::{Order, Problem, Records, Window};
use diskfs_disk::{ErrorKind, Filesystem, Result};

/// The directory of text logs.
const TEXT: &str = "/var/log";

/// The directories of journals: each has a subdirectory with journal files per machine ID
/// (systemd-journald(8)).
const JOURNALS: [&str; 2] = ["/var/log/journal", "/run/log/journal"];

/// The names of the text logs that are read, without the suffixes of rotation.
const NAMES: [&str; 22] = [
    "alternatives.log",
    "auth.log",
    "boot.log",
    "cron",
    "cron.log",
    "daemon.log",
    "debug",
    "dnf.librepo.log",
    "dnf.log",
    "dnf.rpm.log",
    "dpkg.log",
    "kern.log",
    "mail.err",
    "mail.info",
    "mail.log",
    "mail.warn",
    "maillog",
    "messages",
    "secure",
    "syslog",
    "user.log",
    "yum.log",
];

/// The limits on files and on directory entries, far above those of any real guest.
const MAX_FILES: usize = 10_000;
const MAX_ENTRIES: usize = 100_000;

/// The logs of a guest.
#[derive(Debug)]
pub struct Logs {
    filesystem: Filesystem,
    origins: Vec<Origin>,
    problems: VecDeque<Problem>,
    /// The time zone of times in text logs; looked up when there is a text log.
    zone: Option<Arc<Zone>>,
}

impl Logs {
    /// Finds the logs of a guest. [`records`](Self::records) reports directories that can't be
    /// read.
    pub fn find(filesystem: &Filesystem) -> Self {
        let mut logs = Self::none(filesystem);
        for directory in JOURNALS {
            for machine in logs.names(directory) {
                logs.find_journals(&format!("{directory}/{machine}"));
            }
        }
        for name in logs.names(TEXT) {
            if is_text_log(&name) {
                logs.add(&format!("{TEXT}/{name}"), LogKind::Text);
            }
        }
        logs
    }

    /// Returns a single file of a guest, whatever its name: a journal file, or a text log.
    ///
    /// # Errors
    /// `NotFound`, and the errors of reading the file.
    pub fn of_file(filesystem: &Filesystem, path: &str) -> Result<Self> {
        let mut magic = [0; 8];
        let len = filesystem.open(path)?.read_at(0, &mut magic)?;
        let mut logs = Self::none(filesystem);
        let is_journal = len == 8 && magic == *b"LPKSHHRH";
        logs.add(
            path,
            if is_journal {
                LogKind::Journal
            } else {
                LogKind::Text
            },
        );
        Ok(logs)
    }

    fn none(filesystem: &Filesystem) -> Self {
        Self {
            filesystem: filesystem.clone(),
            origins: Vec::new(),
            problems: VecDeque::new(),
            zone: None,
        }
    }

    /// Returns true if there are no logs.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Returns the boots that the journal files record, oldest first, and the files that could not
    /// be read.
    pub fn boots(&self) -> (Vec<Boot>, Vec<Problem>) {
        let mut boots: BTreeMap<_, Boot> = BTreeMap::new();
        let mut problems: Vec<Problem> = self.problems.iter().cloned().collect();
        for origin in &self.origins {
            if !matches!(origin.kind, LogFormat::Journal) {
                continue;
            }
            let journal = origin.journal(&self.filesystem);
            let found = journal.and_then(|journal: Journal| Ok(journal.boots()?));
            match found {
                Ok(found) => found.into_iter().for_each(|boot| {
                    let known = boots.entry(boot.id).or_insert(boot);
                    known.first_us = known.first_us.min(boot.first_us);
                    known.last_us = known.last_us.max(boot.last_us);
                }),
                Err(error) => problems.push(Problem::new(&origin.path, error.reason())),
            }
        }
        let mut boots: Vec<Boot> = boots.into_values().collect();
        boots.sort_by_key(|boot| (boot.first_us, boot.id));
        (boots, problems)
    }

    /// Returns the records of all files.
    pub fn records(self, order: Order, window: Window) -> Records {
        Records::new(
            self.filesystem,
            self.origins,
            self.problems,
            (order, window),
        )
    }

    fn find_journals(&mut self, directory: &str) {
        for name in self.names(directory) {
            if name.ends_with(".journal") || name.ends_with(".journal~") {
                self.add(&format!("{directory}/{name}"), LogKind::Journal);
            }
        }
    }

    fn add(&mut self, path: &str, found: LogKind) {
        if self.origins.len() >= MAX_FILES {
            let problem = Problem::new(
                path,
                format!("too many logs: those after the first {MAX_FILES} are not read"),
            );
            if self.problems.back() != Some(&problem) {
                self.problems.push_back(problem);
            }
            return;
        }
        let kind = match found {
            LogKind::Journal => Ok(LogFormat::Journal),
            LogKind::Text => self.text(path),
        };
        match kind {
            Ok(kind) => self.origins.push(Origin {
                path: path.into(),
                kind,
            }),
            Err(error) => self.problems.push_back(Problem::new(path, error.reason())),
        }
    }

    fn zone(&mut self) -> Arc<Zone> {
        let zone = self.zone.take().unwrap_or_else(|| {
            let (zone, problem) = zone::of_guest(&self.filesystem);
            self.problems.extend(problem);
            Arc::new(zone)
        });
        Arc::clone(self.zone.insert(zone))
    }

    fn text(&mut self, path: &str) -> Result<LogFormat> {
        let metadata = self.filesystem.metadata(path)?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let (packing, _) = Packing::of(name);
        let bare = without_rotation(name);
        let style = Style {
            file: path.into(),
            stem: bare.strip_suffix(".log").unwrap_or(bare).into(),
            written_us: microseconds(metadata.modified),
            zone: self.zone(),
        };
        Ok(LogFormat::Text(packing, style))
    }

    /// Returns the names in a directory, sorted; empty if it is missing.
    fn names(&mut self, directory: &str) -> Vec<String> {
        let is_absent = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
        match self.filesystem.names_at_most(directory, MAX_ENTRIES) {
            Ok(listed) => return listed.names,
            Err(error) if is_absent(error.kind()) => {}
            Err(error) => {
                let problem = Problem::new(directory, error.reason());
                self.problems.push_back(problem);
            }
        }
        Vec::new()
    }
}

/// The type of a log file, by its name or its first bytes.
#[derive(Debug, Clone, Copy)]
enum LogKind {
    Journal,
    Text,
}

fn is_text_log(name: &str) -> bool {
    NAMES.contains(&without_rotation(name))
}

/// Removes the suffixes of rotation: `syslog` for `syslog.2.gz`, `messages` for
/// `messages-20240101.xz`.
fn without_rotation(name: &str) -> &str {
    let (_, name) = Packing::of(name);
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = bare.strip_suffix(['.', '-']);
    match number {
        Some(bare) if !bare.is_empty() && bare.len() + 1 < name.len() => bare,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_logs_are_known_by_their_names() {
        for name in [
            "syslog",
            "syslog.1",
            "syslog.2.gz",
            "messages-20240101.xz",
            "dpkg.log.12.zst",
            "cron-20240101",
        ] {
            assert!(is_text_log(name), "{name}");
        }
        for name in [
            "syslog.old",
            "lastlog",
            "wtmp",
            "syslog-",
            "Xorg.0.log",
            "btmp.1",
            ".1",
            "1",
        ] {
            assert!(!is_text_log(name), "{name}");
        }
    }
}
