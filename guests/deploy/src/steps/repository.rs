//! The step `repository`: package repositories.

mod apt;
mod key;
mod lists;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use diskfs_disk::Result;
use key::Key;

/// A repository for the package manager of the guest: apt, zypper, dnf (or yum), apk or pacman.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Repository {
    /// The name of the repository and of its file.
    pub name: String,
    /// The URL of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// For apt: the suites (releases), or a single path that ends with `/`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<String>,
    /// For apt: the components of the suites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// For apt: the architectures; default: those of the guest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// The public key of the repository's signatures, in ASCII-armored form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A local file with the public key, instead of `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Trusts the repository without a signature.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsigned: bool,
    /// Removes the repository and its key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove: bool,
}

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manager {
    Apt,
    Zypper,
    Dnf,
    Apk,
    Pacman,
}

impl Manager {
    /// Returns the guest's package manager, judged by its configuration files.
    pub(super) fn of(guest: &Guest) -> Result<Option<Self>> {
        for (path, manager) in [
            ("/etc/apt", Self::Apt),
            ("/etc/zypp", Self::Zypper),
            ("/etc/yum.repos.d", Self::Dnf),
            ("/etc/dnf", Self::Dnf),
            ("/etc/apk", Self::Apk),
            ("/etc/pacman.conf", Self::Pacman),
        ] {
            if guest.stage.exists(path)? {
                return Ok(Some(manager));
            }
        }
        Ok(None)
    }
}

impl Repository {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        self.check(guest)?;
        let Some(manager) = Manager::of(guest)? else {
            let reason = "no known package manager is installed in the guest; known: apt, zypper, \
                 dnf, apk, pacman";
            return Err(guest.invalid(reason));
        };
        if self.remove {
            return match manager {
                Manager::Apt => apt::remove(guest, &self.name),
                Manager::Zypper => lists::remove_ini(guest, lists::ZYPP, &self.name),
                Manager::Dnf => lists::remove_ini(guest, lists::YUM, &self.name),
                Manager::Apk => lists::remove_apk(guest, &self.name),
                Manager::Pacman => lists::remove_pacman(guest, &self.name),
            };
        }
        let Some(url) = &self.url else {
            return Err(guest.invalid(format!("missing key `url` of the repository {}", self.name)));
        };
        let has_apts = [&self.suites, &self.components, &self.architectures];
        if manager != Manager::Apt && has_apts.iter().any(|it| !it.is_empty()) {
            guest.note("suites, components and architectures were ignored: only apt uses them");
        }
        let key = Key::read(guest, self)?;
        match manager {
            Manager::Apt => apt::put(guest, self, url, key.as_ref()),
            Manager::Zypper => lists::put_ini(guest, lists::ZYPP, self, url, key.as_ref()),
            Manager::Dnf => lists::put_ini(guest, lists::YUM, self, url, key.as_ref()),
            Manager::Apk => lists::put_apk(guest, self, url, key.as_ref()),
            Manager::Pacman => lists::put_pacman(guest, self, url, key.as_ref()),
        }
    }

    /// Checks that each value is a single word, as the generated files require.
    fn check(&self, guest: &Guest) -> Result<()> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let name = &self.name;
        if name.is_empty() || name.starts_with(['.', '-']) || !name.bytes().all(is_good) {
            let reason = format!(
                "invalid repository name `{}`: expected letters, digits and `-_.`, starting \
                 with a letter, digit or `_`",
                name.escape_debug()
            );
            return Err(guest.invalid(reason));
        }
        let is_url = |url: &String| url.contains("://") || url.starts_with('/');
        let words = [&self.suites, &self.components, &self.architectures];
        let words = words.into_iter().flatten();
        let is_word = |word: &String| {
            !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        for word in words.chain(&self.url) {
            if !is_word(word) || word.contains(['[', ']', '#']) {
                let reason = format!(
                    "invalid value `{}` in a repository: expected one word without `[`, `]` and \
                     `#`",
                    word.escape_debug()
                );
                return Err(guest.invalid(reason));
            }
        }
        if !self.url.iter().all(is_url) {
            return Err(guest.invalid(format!(
                "invalid URL of {name}: expected SCHEME://... or an absolute path"
            )));
        }
        Ok(())
    }
}
