//! The `sshd_config(5)` of a guest with the files that it includes.

use diskfs_etc::Files;
use diskfs_etc::sshd_config::{self, PLACES, Setting, arguments};
use diskfs_vfs::glob::{Case, Pattern as Glob};

use super::super::super::guest::Guest;
use super::super::super::stage::Stage;
use super::ROOT_LOGIN;
use diskfs_disk::{Error, Result};

/// The path of the main file.
pub(super) const ETC_MAIN: &str = PLACES[0];

/// The directory and name of our drop-in file. The name sorts before those of other files.
const DROP_IN_DIR: &str = "/etc/ssh/sshd_config.d";
const DROP_IN_NAME: &str = "00-diskfs.conf";
pub(super) const DROP_IN: &str = "/etc/ssh/sshd_config.d/00-diskfs.conf";

/// The main file, and all settings outside `Match` blocks.
#[derive(Debug)]
pub(in super::super) struct Config {
    main: String,
    all: sshd_config::Config,
}

impl Config {
    /// Reads the guest's configuration; `None` if the guest has no sshd.
    pub(in super::super) fn read(guest: &Guest) -> Result<Option<Self>> {
        for place in PLACES {
            if let Some(main) = guest.stage.text(place)? {
                // Settings of the main file are attributed to the path in /etc, whichever file was
                // read.
                let all = sshd_config::Config::of(&guest.stage, ETC_MAIN, &main)?;
                if all.is_truncated {
                    let reason = "sshd_config includes more than 1000 files or 1 MiB";
                    return Err(guest.invalid(reason));
                }
                return Ok(Some(Self { main, all }));
            }
        }
        Ok(None)
    }

    /// Returns the text of the main file.
    pub(super) fn main(&self) -> &str {
        &self.main
    }

    /// Returns all settings of a keyword.
    pub(super) fn of(&self, key: &str) -> impl Iterator<Item = &Setting> {
        self.all.of_keyword(key)
    }

    /// Returns the first arguments of all settings of a keyword. The first one takes effect.
    pub(in super::super) fn values(&self, key: &str) -> Vec<&str> {
        let firsts = self.of(key).filter_map(|setting| setting.arguments.first());
        firsts.map(String::as_str).collect()
    }

    /// Returns true if a keyword already has the value. For `Port`, all settings count.
    pub(super) fn has_value(&self, key: &str, value: &str) -> bool {
        let mut all = self.of(key);
        let first = all.next().is_some_and(|setting| is(setting, value));
        first && (!key.eq_ignore_ascii_case("Port") || all.all(|setting| is(setting, value)))
    }

    /// Returns true if the main file itself sets the keyword.
    pub(super) fn main_sets(&self, key: &str) -> bool {
        self.of(key).any(|setting| &*setting.file == ETC_MAIN)
    }

    /// Returns true if our drop-in file is read before the main file sets the keyword.
    pub(super) fn drop_in_counts(&self, key: &str) -> bool {
        let includes = &self.all.includes;
        let Some(include) = includes.iter().find(|it| includes_drop_in(&it.pattern)) else {
            return false;
        };
        let mut before = self.all.settings.iter().take(include.at);
        !before.any(|it| &*it.file == ETC_MAIN && it.keyword.eq_ignore_ascii_case(key))
    }
}

fn includes_drop_in(pattern: &str) -> bool {
    let Some((DROP_IN_DIR, name)) = pattern.rsplit_once('/') else {
        return false;
    };
    Glob::new(name, Case::Sensitive).is_ok_and(|glob| glob.matches(DROP_IN_NAME))
}

/// Returns true if a setting already has the value. Names of users and files are case-sensitive.
pub(super) fn is(setting: &Setting, value: &str) -> bool {
    if ROOT_LOGIN.contains(&value) {
        return matches!(&setting.arguments[..], [it] if it.eq_ignore_ascii_case(value));
    }
    setting.arguments == arguments(value)
}

impl Files for Stage {
    type Error = Error;

    fn text(&self, path: &str) -> Result<Option<String>> {
        if self.is_file(path)? {
            return Stage::text(self, path);
        }
        Ok(None)
    }

    fn names(&self, dir: &str) -> Result<Vec<String>> {
        if self.is_dir(dir)? {
            return Stage::names(self, dir);
        }
        Ok(Vec::new())
    }

    fn expand(&self, pattern: &str) -> Result<Vec<String>> {
        Stage::expand(self, pattern)
    }
}
