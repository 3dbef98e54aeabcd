//! `sshd_config(5)` of a guest, with the files that it includes.

use diskfs_etc::Files;
use diskfs_etc::sshd_config::{self, PLACES, Setting, arguments};
use diskfs_vfs::glob::{Case, Pattern as Glob};

use super::super::super::guest::Guest;
use super::super::super::stage::Stage;
use super::ROOT_LOGIN;
use diskfs_disk::{Error, Result};

/// Where it is.
pub(super) const ETC_MAIN: &str = PLACES[0];

/// The file of these settings, and the name that comes before those of others.
const DROP_IN_DIR: &str = "/etc/ssh/sshd_config.d";
const DROP_IN_NAME: &str = "00-diskfs.conf";
pub(super) const DROP_IN: &str = "/etc/ssh/sshd_config.d/00-diskfs.conf";

/// The main file, and all settings for everybody.
#[derive(Debug)]
pub(in super::super) struct Config {
    main: String,
    all: sshd_config::Config,
}

impl Config {
    /// That of the guest; `None` without sshd.
    pub(in super::super) fn read(guest: &Guest) -> Result<Option<Self>> {
        for place in PLACES {
            if let Some(main) = guest.stage.text(place)? {
                // Settings of the main file are where they are written, whichever was read.
                let all = sshd_config::Config::of(&guest.stage, ETC_MAIN, &main)?;
                if all.is_cut {
                    let reason = "sshd_config includes more than 1000 files or 1 MiB";
                    return Err(guest.invalid(reason));
                }
                return Ok(Some(Self { main, all }));
            }
        }
        Ok(None)
    }

    /// The main file's text.
    pub(super) fn main(&self) -> &str {
        &self.main
    }

    /// All that set a key.
    pub(super) fn of(&self, key: &str) -> impl Iterator<Item = &Setting> {
        self.all.of_keyword(key)
    }

    /// The first arguments of a key, the one that counts first.
    pub(in super::super) fn values(&self, key: &str) -> Vec<&str> {
        let firsts = self.of(key).filter_map(|setting| setting.arguments.first());
        firsts.map(String::as_str).collect()
    }

    /// Whether a key has a value already. Of ports all count.
    pub(super) fn is_so(&self, key: &str, value: &str) -> bool {
        let mut all = self.of(key);
        let first = all.next().is_some_and(|setting| is(setting, value));
        first && (!key.eq_ignore_ascii_case("Port") || all.all(|setting| is(setting, value)))
    }

    /// Whether the main file itself sets a key.
    pub(super) fn main_sets(&self, key: &str) -> bool {
        self.of(key).any(|setting| &*setting.file == ETC_MAIN)
    }

    /// Whether the file of these settings is read before the main file sets a key.
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

/// Whether a setting has a value already. Names of users and files are not the same in capitals.
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
