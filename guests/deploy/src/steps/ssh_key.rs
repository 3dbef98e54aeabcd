//! The step `ssh-key`: public keys in `authorized_keys` (sshd(8)).

use diskfs_etc::authorized_keys::{AuthorizedKeys, Key};
use serde::{Deserialize, Serialize};

use super::super::accounts::{self, User};
use super::super::guest::Guest;
use super::super::stage::above;
use super::sshd::config::Config;
use diskfs_disk::Result;

/// The default file, unless `sshd_config` names another one.
const FILE: &str = ".ssh/authorized_keys";

/// SSH public keys of a user. Other keys stay, unless `exclusive` is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SshKey {
    /// The login name.
    pub user: String,
    /// The public keys to add, in the form of the `.pub` files of `ssh-keygen`. Options before a
    /// key are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The public keys to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// The comments of keys to remove, such as that of a program which manages its own keys.
    #[serde(
        default,
        rename = "remove-comments",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub remove_comments: Vec<String>,
    /// Removes all other keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

impl SshKey {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let user = accounts::known_user(guest, &self.user)?;
        let keys = parse(guest, &self.keys)?;
        let removed = parse(guest, &self.remove)?;
        let path = file_of(guest, &user)?;
        let before = guest.stage.text(&path)?;
        if before.is_none() && keys.is_empty() {
            return Ok(());
        }
        let mut file = AuthorizedKeys::new(before.unwrap_or_default());
        let is_of =
            |keys: &[(&str, Key<'_>)], blob: &[u8]| keys.iter().any(|(_, key)| key.blob == blob);
        file.remove(|key| {
            let is_gone = self.exclusive
                || is_of(&removed, &key.blob)
                || self.remove_comments.iter().any(|it| key.comment == *it);
            is_gone && !is_of(&keys, &key.blob)
        });
        for (line, key) in &keys {
            let is_known = file.keys().any(|(_, known)| known.blob == key.blob);
            if !is_known {
                file.add(line);
            }
        }
        put(guest, &user, &path, file.text())
    }
}

/// Adds public keys for a user.
pub(super) fn add(guest: &mut Guest, user: &str, keys: &[String]) -> Result<()> {
    let step = SshKey {
        user: user.to_owned(),
        keys: keys.to_vec(),
        remove: Vec::new(),
        remove_comments: Vec::new(),
        exclusive: false,
    };
    step.apply(guest)
}

/// Parses texts into keys and their lines. Each text can be the contents of a whole file.
fn parse<'t>(guest: &Guest, texts: &'t [String]) -> Result<Vec<(&'t str, Key<'t>)>> {
    let mut keys = Vec::new();
    for text in texts {
        let before = keys.len();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let shown: String = line.chars().take(40).collect();
            let no_key = || {
                guest.invalid(format!(
                    "invalid SSH public key `{}...`",
                    shown.escape_debug()
                ))
            };
            keys.push((line, Key::parse(line).ok_or_else(no_key)?));
        }
        if keys.len() == before {
            return Err(guest.invalid("missing SSH public key: the text is empty"));
        }
    }
    Ok(keys)
}

/// Returns the file of the user's keys in the home directory.
fn file_of(guest: &mut Guest, user: &User) -> Result<String> {
    let home = user.home.trim_end_matches('/');
    if !user.home.starts_with('/') || !guest.stage.is_dir(&user.home)? {
        let reason = format!(
            "missing home directory of `{}`: {} is not a directory",
            user.name, user.home
        );
        let hint = "set one with the step `user` and its key `home` first";
        return Err(guest.invalid(reason).with_hint(hint));
    }
    let config = Config::read(guest)?;
    let values = config
        .as_ref()
        .map(|config| config.values("AuthorizedKeysFile"));
    let first = values.as_ref().and_then(|values| values.first());
    let first = first.copied().unwrap_or(FILE);
    if let Some(name) = in_home(first) {
        return Ok(format!("{home}/{name}"));
    }
    let path = format!("{home}/{FILE}");
    let name = &user.name;
    guest.note(format!(
        "the keys of `{name}` were written to {path}, but sshd reads keys from {first}"
    ));
    Ok(path)
}

/// Returns the path below the home directory, or `None` if the file is elsewhere or contains other
/// tokens.
fn in_home(name: &str) -> Option<&str> {
    let name = name.strip_prefix("%h/").unwrap_or(name);
    let is_elsewhere = name.starts_with('/') || name == "none" || name.contains(['%', '"', '\\']);
    let is_odd = name.split('/').any(|part| matches!(part, "" | "." | ".."));
    (!is_elsewhere && !is_odd).then_some(name)
}

/// Writes the file with the owner and mode that sshd's `StrictModes` requires: nobody else may
/// write to it.
fn put(guest: &mut Guest, user: &User, path: &str, text: &str) -> Result<()> {
    let dir = above(path);
    if dir != user.home.trim_end_matches('/') {
        guest.stage.make_dirs(dir, 0o700)?;
        guest.stage.set_permissions(dir, 0o700)?;
        guest.stage.set_owner(dir, user.uid, user.gid)?;
    }
    guest.stage.write_text(path, text)?;
    guest.stage.set_permissions(path, 0o600)?;
    guest.stage.set_owner(path, user.uid, user.gid)
}

#[cfg(test)]
mod tests;
