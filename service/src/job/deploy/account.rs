//! The account that gets the password and the public key.

use diskfs_deploy::{Password, SshKey, Step, Sudo, User};
use diskfs_disk::{Filesystem, Result};

use super::super::Secret;
use super::super::guest::Guest;
use super::Deploy;

/// The user of the cloud's administrators.
const CLOUDROOT: &str = "cloudroot";

/// The comment of keys that the host-deployer manages.
const MANAGED: &str = "@yunioncloudpods";

/// The largest /etc/passwd that is read.
const MAX_BYTES: u64 = 16 << 20;

impl Deploy {
    /// Adds the steps for the account, and returns its name.
    pub(super) fn add_account(
        &self,
        guest: &Guest,
        password: &Secret,
        steps: &mut Vec<Step>,
    ) -> Result<String> {
        let account = self.account(guest)?;
        if !self.login_account.is_empty() && account != "root" {
            steps.push(Step::User(User {
                sudo: Some(Sudo::NoPassword),
                ..user(&account)
            }));
        }
        self.add_user_keys(&account, steps);
        steps.push(Step::Password(Password {
            user: Some(account.clone()),
            text: Some(password.text()),
            random_if_weak: self.is_random_password,
            ..no_password()
        }));
        Ok(account)
    }

    /// Chooses the account: the one of the request; root, if it may log in and the request asks for
    /// it; the user in /home with the shortest name; root.
    fn account(&self, guest: &Guest) -> Result<String> {
        if !self.login_account.is_empty() {
            return Ok(self.login_account.clone());
        }
        let fs = &guest.filesystem;
        let root = || "root".to_owned();
        let permits_root = guest.system.permits_root_login && fs.exists("/root")?;
        if self.default_root_user && permits_root {
            return Ok(root());
        }
        Ok(shortest_home(fs)?.unwrap_or_else(root))
    }

    fn add_user_keys(&self, account: &str, steps: &mut Vec<Step>) {
        let with_comment = |key: &String| managed(key);
        let key = Some(&self.keys.user).filter(|key| !key.trim().is_empty());
        let removed = Some(&self.keys.removed).filter(|key| !key.trim().is_empty());
        if key.is_none() && removed.is_none() {
            return;
        }
        steps.push(Step::SshKey(SshKey {
            user: account.to_owned(),
            keys: key.map(with_comment).into_iter().collect(),
            remove: removed.cloned().into_iter().collect(),
            remove_comments: vec![MANAGED.to_owned()],
            exclusive: false,
        }));
    }

    /// Adds the steps for the user of the cloud's administrators.
    pub(super) fn add_cloudroot(&self, steps: &mut Vec<Step>) {
        let home = format!(
            "{}/{CLOUDROOT}",
            self.policy.cloudroot_dir.trim_end_matches('/')
        );
        steps.push(Step::User(User {
            home: Some(home.clone()),
            shell: Some("/bin/bash".to_owned()),
            system: Some(true),
            sudo: Some(Sudo::NoPassword),
            never_expires: true,
            ..user(CLOUDROOT)
        }));
        let keys = self.keys.of_cloudroot.iter();
        let keys = keys.filter(|key| !key.trim().is_empty());
        let keys: Vec<String> = keys.map(|key| managed(key)).collect();
        if !keys.is_empty() {
            steps.push(Step::SshKey(SshKey {
                user: CLOUDROOT.to_owned(),
                keys,
                remove: Vec::new(),
                remove_comments: Vec::new(),
                exclusive: true,
            }));
        }
    }
}

/// Returns the line of a key with the comment of managed keys.
fn managed(key: &str) -> String {
    let mut words = key.split_whitespace();
    match (words.next(), words.next()) {
        (Some(kind), Some(blob)) => format!("{kind} {blob} {MANAGED}"),
        // The step refuses it with a message.
        _ => key.to_owned(),
    }
}

fn shortest_home(fs: &Filesystem) -> Result<Option<String>> {
    if !fs.exists("/home")? || !fs.exists("/etc/passwd")? {
        return Ok(None);
    }
    let passwd = fs.read_at_most("/etc/passwd", MAX_BYTES)?;
    let passwd = String::from_utf8_lossy(&passwd);
    let is_user = |name: &str| {
        passwd
            .lines()
            .any(|line| line.split(':').next() == Some(name))
    };
    let entries = fs.read_dir("/home")?.into_iter();
    let names = entries.filter_map(|entry| String::from_utf8(entry.name).ok());
    let users = names.filter(|name| name != CLOUDROOT && !name.starts_with('.') && is_user(name));
    Ok(users.min_by(|a, b| (a.len(), a).cmp(&(b.len(), b))))
}

/// Returns a step that creates the user, or keeps the settings of an existing one.
fn user(name: &str) -> User {
    User {
        name: name.to_owned(),
        password: None,
        groups: Vec::new(),
        uid: None,
        gid: None,
        home: None,
        shell: None,
        comment: None,
        system: None,
        sudo: None,
        ssh_keys: Vec::new(),
        never_expires: false,
        create: true,
    }
}

fn no_password() -> Password {
    Password {
        user: None,
        text: None,
        hash: None,
        file: None,
        random: false,
        random_if_weak: false,
        locked: false,
        unlock: false,
        disabled: false,
        expire: false,
    }
}
