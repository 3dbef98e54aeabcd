//! The SSH server: host keys, authorized keys, and settings (sshd(8), `sshd_config(5)`).

mod public_key;

use diskfs_etc::authorized_keys::{AuthorizedKeys, Key};
use diskfs_etc::sshd_config::{Config, PLACES};
use serde::Serialize;

pub use public_key::PublicKey;

use super::accounts::User;
use super::files::Files;

/// The directory of the host keys.
const DIR: &str = "/etc/ssh";

/// The default files of authorized keys.
const AUTHORIZED: [&str; 2] = [".ssh/authorized_keys", ".ssh/authorized_keys2"];

/// The limit on keys, each of which costs a hash.
const MAX_KEYS: usize = 10_000;

/// The limit on files of authorized keys per user in the server's settings.
const MAX_PATTERNS: usize = 8;

/// The guest's SSH server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Ssh {
    /// The host keys.
    pub host_keys: Vec<PublicKey>,
    /// The authorized keys of users.
    pub authorized_keys: Vec<AuthorizedKey>,
    /// The value of `PermitRootLogin`, if it is set.
    pub permit_root_login: Option<String>,
    /// The value of `PasswordAuthentication`, if it is set.
    pub password_authentication: Option<String>,
}

/// An authorized key of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AuthorizedKey {
    /// The user name.
    pub user: String,
    /// The file with the key.
    pub file: String,
    /// The line number, from 1.
    pub line: usize,
    /// The options that restrict its use: `no-pty,command="..."`.
    pub options: Option<String>,
    /// The public key.
    #[serde(flatten)]
    pub key: PublicKey,
}

/// Reads the keys and settings.
pub(super) fn of(files: &Files<'_>, users: &[User]) -> Ssh {
    let Ok(config) = Config::read(files);
    let config = config.unwrap_or_default();
    if config.is_truncated {
        files.add_problem(
            PLACES[0],
            "includes more than 1000 files or 1 MiB; the rest is not read",
        );
    }
    let patterns = match config.first("AuthorizedKeysFile") {
        Some(setting) => setting.arguments.clone(),
        None => AUTHORIZED.map(str::to_owned).to_vec(),
    };
    let value = |keyword| {
        config
            .first(keyword)
            .map(|setting| setting.arguments.join(" "))
    };
    let mut authorized_keys = Vec::new();
    for user in users {
        for pattern in patterns.iter().take(MAX_PATTERNS) {
            let path = keys_file(pattern, user);
            let room = MAX_KEYS.saturating_sub(authorized_keys.len());
            authorized_keys.extend(authorized(files, user, &path).into_iter().take(room));
        }
    }
    Ssh {
        host_keys: host_keys(files),
        authorized_keys,
        permit_root_login: value("PermitRootLogin"),
        password_authentication: value("PasswordAuthentication"),
    }
}

fn host_keys(files: &Files<'_>) -> Vec<PublicKey> {
    let names = files.names(DIR);
    let is_one = |name: &&String| name.starts_with("ssh_host_") && name.ends_with("_key.pub");
    let key = |name: &String| {
        let path = format!("{DIR}/{name}");
        let text = files.text(&path)?;
        let line = text.lines().next().unwrap_or_default();
        let key = Key::without_options(line).map(|key| PublicKey::of(&key));
        match &key {
            Some(_) => files.add_source("ssh", &path, Some(1)),
            None => files.add_problem(&path, "missing public key"),
        }
        key
    };
    names.iter().filter(is_one).filter_map(key).collect()
}

/// Expands a pattern of `AuthorizedKeysFile`: `%h` is the home directory, `%u` the name, and a
/// relative path starts at the home directory.
fn keys_file(pattern: &str, user: &User) -> String {
    let path = pattern
        .replace("%h", &user.home)
        .replace("%u", &user.name)
        .replace("%U", &user.uid.to_string())
        .replace("%%", "%");
    if path.starts_with('/') {
        path
    } else {
        format!("{}/{path}", user.home.trim_end_matches('/'))
    }
}

fn authorized(files: &Files<'_>, user: &User, path: &str) -> Vec<AuthorizedKey> {
    // Missing home directories such as `/nonexistent` are common.
    let Some(text) = files.text(path) else {
        return Vec::new();
    };
    let text = AuthorizedKeys::new(text);
    let key = |(line, key): (usize, Key<'_>)| AuthorizedKey {
        user: user.name.clone(),
        file: path.to_owned(),
        line,
        options: key.options.map(str::to_owned),
        key: PublicKey::of(&key),
    };
    let keys: Vec<_> = text.keys().map(key).take(MAX_KEYS).collect();
    if let Some(first) = keys.first() {
        files.add_source("ssh", path, Some(first.line));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::super::accounts;
    use super::super::testing::guest;
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKtP8K7N0rDmyUdmzQbxRVFvOlEQ3kYT8oN3t0YbYB0t";

    #[test]
    fn keys_of_users_and_of_the_host() {
        let tree = guest(&[
            (
                "/etc/passwd",
                "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n",
            ),
            (
                "/etc/ssh/ssh_host_ed25519_key.pub",
                &format!("{KEY} root@h\n"),
            ),
            ("/etc/ssh/ssh_host_rsa_key.pub", "nonsense\n"),
            (
                "/etc/ssh/sshd_config",
                "Include /etc/ssh/sshd_config.d/*.conf\nPermitRootLogin yes\nPasswordAuthentication no\nMatch User x\nPermitRootLogin x\n",
            ),
            ("/etc/ssh/sshd_config.d/a.conf", "PermitRootLogin no\n"),
            (
                "/home/ann/.ssh/authorized_keys",
                &format!("# c\n\nno-pty,command=\"a b\" {KEY} ann@x y\nssh-rsa broken\n{KEY}\n"),
            ),
        ]);
        let files = Files::new(&tree);
        let found = of(&files, &accounts::users(&files));
        assert_eq!(found.host_keys.len(), 1);
        assert_eq!(found.host_keys[0].comment.as_deref(), Some("root@h"));
        let [first, second] = &found.authorized_keys[..] else {
            panic!("{found:?}")
        };
        assert_eq!((&*first.user, first.line, second.line), ("ann", 3, 5));
        assert_eq!(first.options.as_deref(), Some("no-pty,command=\"a b\""));
        assert_eq!(first.key.comment.as_deref(), Some("ann@x y"));
        assert_eq!(first.key.fingerprint, second.key.fingerprint);
        assert_eq!(found.permit_root_login.as_deref(), Some("no"));
        assert_eq!(found.password_authentication.as_deref(), Some("no"));
        assert_eq!(files.finish().1.len(), 1);
    }
    #[test]
    fn settings_are_found_wherever_sshd_finds_them() {
        let login = |files: &[(&str, &str)]| {
            let tree = guest(files);
            of(&Files::new(&tree), &[])
                .permit_root_login
                .unwrap_or_default()
        };
        let main = "/etc/ssh/sshd_config";
        for text in [
            "PermitRootLogin = no\n",
            "permitrootlogin \"no\" # c\n",
            "PermitRootLogin=no",
        ] {
            assert_eq!(login(&[(main, text)]), "no", "{text}");
        }
        let no = "PermitRootLogin no\n";
        for include in [
            "sshd_config.d/*.conf",
            "/etc/ssh/*.d/a.conf",
            "/etc/ssh/more",
        ] {
            let text = format!("Include {include}\nPermitRootLogin yes\n");
            let tree = [
                (main, &*text),
                ("/etc/ssh/sshd_config.d/a.conf", no),
                (
                    "/etc/ssh/more",
                    "Match User x\nMatch all\nInclude sshd_config.d/*\n",
                ),
            ];
            assert_eq!(login(&tree), "no", "{include}");
        }
        assert_eq!(login(&[("/usr/etc/ssh/sshd_config", no)]), "no");
    }
}
