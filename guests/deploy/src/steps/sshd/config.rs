//! `sshd_config(5)` with the files that it includes.

use diskfs_vfs::glob::{Case, Pattern as Glob};

use super::super::super::guest::Guest;
use super::super::super::text::with_line;
use super::ROOT_LOGIN;
use diskfs_disk::Result;

/// Where it is, and where SUSE has that of the distribution.
pub(super) const ETC_MAIN: &str = "/etc/ssh/sshd_config";
const USR_MAIN: &str = "/usr/etc/ssh/sshd_config";

/// What relative names of included files are below.
const DIR: &str = "/etc/ssh";

/// The file of these settings, and the name that comes before those of others.
const DROP_IN_DIR: &str = "/etc/ssh/sshd_config.d";
const DROP_IN_NAME: &str = "00-diskfs.conf";
pub(super) const DROP_IN: &str = "/etc/ssh/sshd_config.d/00-diskfs.conf";

/// How deep files include others: `SERVCONF_MAX_DEPTH` of OpenSSH; and more of them than anybody has.
const MAX_DEPTH: usize = 16;
const MAX_FILES: usize = 1000;
const MAX_BYTES: usize = 1 << 20;

/// All settings outside of `Match`, in the order in which they count.
#[derive(Debug)]
pub(in super::super) struct Config {
    main: String,
    settings: Vec<Setting>,
    /// How many settings come before the first line that includes the file of these settings.
    drop_in_at: Option<usize>,
    files: usize,
    bytes: usize,
}

/// One of them.
#[derive(Debug)]
pub(in super::super) struct Setting {
    pub(super) file: String,
    /// In lower case.
    key: String,
    pub(super) value: String,
}

impl Setting {
    /// Whether it has a value already. Names of users and files are not the same in capitals.
    pub(super) fn is(&self, value: &str) -> bool {
        if ROOT_LOGIN.contains(&value) {
            return self.value.eq_ignore_ascii_case(value);
        }
        self.value == value.trim().trim_matches('"')
    }
}

impl Config {
    /// That of the guest; `None` without sshd.
    pub(in super::super) fn read(guest: &Guest) -> Result<Option<Self>> {
        let (path, main) = match guest.stage.text(ETC_MAIN)? {
            Some(text) => (ETC_MAIN, text),
            None => match guest.stage.text(USR_MAIN)? {
                Some(text) => (USR_MAIN, text),
                None => return Ok(None),
            },
        };
        let mut config = Self {
            main,
            settings: Vec::new(),
            drop_in_at: None,
            files: 0,
            bytes: 0,
        };
        let text = config.main.clone();
        // Settings of the main file are where they are written, whichever was read.
        let path = if path == USR_MAIN { ETC_MAIN } else { path };
        config.add(guest, path, &text, 0)?;
        Ok(Some(config))
    }

    /// The main file's text.
    pub(super) fn main(&self) -> &str {
        &self.main
    }

    /// All that set a key.
    pub(in super::super) fn of(&self, key: &str) -> impl Iterator<Item = &Setting> {
        let settings = self.settings.iter();
        settings.filter(move |setting| setting.key.eq_ignore_ascii_case(key))
    }

    /// The values that a key has, the one that counts first.
    pub(in super::super) fn values(&self, key: &str) -> Vec<&str> {
        self.of(key).map(|setting| setting.value.as_str()).collect()
    }

    /// Whether a key has a value already. Of ports all count.
    pub(super) fn is_so(&self, key: &str, value: &str) -> bool {
        let mut all = self.of(key);
        let first = all.next().is_some_and(|setting| setting.is(value));
        first && (!key.eq_ignore_ascii_case("Port") || all.all(|setting| setting.is(value)))
    }

    /// Whether the main file itself sets a key.
    pub(super) fn main_sets(&self, key: &str) -> bool {
        self.of(key).any(|setting| setting.file == ETC_MAIN)
    }

    /// Whether the file of these settings is read before the main file sets a key.
    pub(super) fn drop_in_counts(&self, key: &str) -> bool {
        let Some(at) = self.drop_in_at else {
            return false;
        };
        let mut before = self.settings.iter().take(at);
        !before.any(|setting| setting.file == ETC_MAIN && setting.key.eq_ignore_ascii_case(key))
    }

    fn add(&mut self, guest: &Guest, file: &str, text: &str, depth: usize) -> Result<()> {
        for line in text.lines() {
            let Some((key, value)) = setting(line) else {
                continue;
            };
            match key.to_ascii_lowercase().as_str() {
                "match" => break,
                "include" => {
                    for pattern in value.split_whitespace() {
                        self.include(guest, pattern.trim_matches('"'), depth)?;
                    }
                }
                key => self.settings.push(Setting {
                    file: file.to_owned(),
                    key: key.to_owned(),
                    value: value.to_owned(),
                }),
            }
        }
        Ok(())
    }

    fn include(&mut self, guest: &Guest, pattern: &str, depth: usize) -> Result<()> {
        let pattern = if pattern.starts_with('/') {
            pattern.to_owned()
        } else {
            format!("{DIR}/{pattern}")
        };
        let Some((dir, last)) = pattern.rsplit_once('/') else {
            return Ok(());
        };
        let Ok(glob) = Glob::new(last, Case::Sensitive) else {
            return Ok(());
        };
        if dir == DROP_IN_DIR && glob.matches(DROP_IN_NAME) && self.drop_in_at.is_none() {
            self.drop_in_at = Some(self.settings.len());
        }
        if depth > MAX_DEPTH || !guest.stage.is_dir(dir)? {
            return Ok(());
        }
        for name in guest.stage.names(dir)? {
            let path = format!("{dir}/{name}");
            if !glob.matches(&name) || !guest.stage.is_file(&path)? {
                continue;
            }
            let text = guest.stage.text(&path)?.unwrap_or_default();
            self.files = self.files.saturating_add(1);
            self.bytes = self.bytes.saturating_add(text.len());
            if self.files > MAX_FILES || self.bytes > MAX_BYTES {
                return Err(guest.invalid("sshd_config includes more than can be"));
            }
            self.add(guest, &path, &text, depth.saturating_add(1))?;
        }
        Ok(())
    }
}

/// The keyword of a line and what follows: `Key value`, `Key=value`.
fn setting(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.starts_with('#') || line.is_empty() {
        return None;
    }
    let end = line.find(|char: char| char.is_whitespace() || char == '=')?;
    let (key, rest) = line.split_at_checked(end)?;
    let rest = rest.trim_start();
    let value = rest.strip_prefix('=').unwrap_or(rest).trim();
    Some((key, value.trim_matches('"')))
}

/// The text with a key set outside of `Match`: in the first line that does, or in one more. Of ports, which add up, no
/// other stays.
pub(super) fn with_setting(text: &str, key: &str, value: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_of = |line: &&str, key: &str| {
        setting(line).is_some_and(|(known, _)| known.eq_ignore_ascii_case(key))
    };
    let blocks = lines.iter().position(|line| is_of(line, "match"));
    let (global, blocks) = lines.split_at(blocks.unwrap_or(lines.len()));
    let mut out = String::new();
    let mut is_set = false;
    for line in global {
        if !is_of(line, key) {
            out.push_str(line);
        } else if !is_set {
            let end = line.trim_end_matches(['\n', '\r']).len();
            let end = line.get(end..).unwrap_or_default();
            out.extend([key, " ", value, end]);
            is_set = true;
        } else if !key.eq_ignore_ascii_case("Port") {
            out.push_str(line);
        }
    }
    if !is_set {
        out = with_line(out, &format!("{key} {value}"));
    }
    out + &blocks.concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::testing::guest;
    use super::*;

    fn line() -> impl Strategy<Value = String> {
        "(#|  )?(Port|port|Banner|Match|Include|x)?[ =\t\"]{0,2}(/etc/ssh/\\*|sshd_config|22|no|a)?[\r ]?"
    }

    proptest! {
        #[test]
        fn what_is_set_counts(lines in prop::collection::vec(line(), 0..12), end in "\n?") {
            let text = lines.join("\n") + &end;
            for (key, value) in [("Port", "2022"), ("Banner", "\"/a b\"")] {
                let set = with_setting(&text, key, value);
                prop_assert_eq!(with_setting(&set, key, value), set.clone());
                let mut guest = guest("-- /etc/ssh/moduli --\n");
                guest.stage.write_text(ETC_MAIN, &set).unwrap();
                // Files that include themselves twice end in an error.
                if let Ok(config) = Config::read(&guest) {
                    let is_so = config.unwrap().is_so(key, value);
                    prop_assert!(is_so || set.contains("Include"), "{set}");
                }
            }
        }
    }
}
