//! The step `user`: creates accounts as useradd(8) does, and changes them.

mod create;
mod expiry;
mod home;

use diskfs_etc::passwd::{COMMENT, HOME, SHELL};
use serde::{Deserialize, Serialize};

use super::super::accounts::ids::Purpose;
use super::super::accounts::table::Table;
use super::super::accounts::{self, PASSWD, User as Account, groups};
use super::super::guest::Guest;
use super::password::{self, Selector};
use super::{ssh_key, sudoers};
use diskfs_disk::Result;

/// The shell that all guests have.
const SH: &str = "/bin/sh";

/// A user account. A missing user is created as by useradd(8), with the settings of the guest's
/// login.defs(5), `/etc/default/useradd` and `/etc/skel`. Of an existing user, only the given keys
/// are changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct User {
    /// The login name.
    pub name: String,
    /// The password. `random` generates one only for a user who has no password yet.
    #[serde(
        default,
        deserialize_with = "password::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    pub password: Option<Selector>,
    /// Supplementary groups to add the user to. They must exist in the guest; other memberships
    /// stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The user ID; default: the next free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The ID of the primary group. If the guest has no such group, one with the user's name is
    /// created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// The home directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The login shell. If the guest does not have this shell, `/bin/sh` is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// The full name or comment (the GECOS field).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Creates a system account: with a user ID from the range for system accounts, and without a
    /// home directory unless `home` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<bool>,
    /// The right to run all commands as root with sudo: `true` (with the user's password),
    /// `nopasswd` or `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sudo: Option<Sudo>,
    /// SSH public keys that the user can log in with, in addition to existing keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_keys: Vec<String>,
    /// Lets neither the account nor its password expire: what `/etc/shadow` says about that is
    /// removed. Default: it stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_expires: bool,
    /// Creates a missing user (default). With `false`, a missing user is an error.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub create: bool,
}

/// The right of a user to run all commands as root: none, with the user's password, or without a
/// password. In a plan `false`, `true` or `nopasswd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "SudoText", into = "SudoText")]
pub enum Sudo {
    /// No rights from diskfs; rights from other sources stay.
    No,
    /// All rights, with the user's password.
    Password,
    /// All rights, without a password.
    NoPassword,
}

/// The form of [`Sudo`] in a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum SudoText {
    Flag(bool),
    Text(String),
}

impl TryFrom<SudoText> for Sudo {
    type Error = String;

    fn try_from(text: SudoText) -> std::result::Result<Self, String> {
        match text {
            SudoText::Flag(true) => Ok(Self::Password),
            SudoText::Flag(false) => Ok(Self::No),
            SudoText::Text(text) if text == "nopasswd" => Ok(Self::NoPassword),
            SudoText::Text(text) => Err(format!(
                "invalid value `{text}` of sudo: expected true, false or nopasswd"
            )),
        }
    }
}

impl From<Sudo> for SudoText {
    fn from(sudo: Sudo) -> Self {
        match sudo {
            Sudo::No => Self::Flag(false),
            Sudo::Password => Self::Flag(true),
            Sudo::NoPassword => Self::Text("nopasswd".to_owned()),
        }
    }
}

impl User {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        self.check(guest)?;
        match accounts::well_formed_user(guest, &self.name)? {
            Some(known) => self.change(guest, &known)?,
            None if self.create => self.create(guest)?,
            None => {
                let reason = format!("no such user: `{}`", self.name);
                return Err(guest.invalid(reason));
            }
        }
        for group in &self.groups {
            self.join(guest, group)?;
        }
        self.set_password(guest)?;
        if self.never_expires {
            expiry::remove(guest, &self.name)?;
        }
        if let Some(sudo) = self.sudo {
            sudoers::set(guest, &self.name, sudo)?;
        }
        if !self.ssh_keys.is_empty() {
            ssh_key::add(guest, &self.name, &self.ssh_keys)?;
        }
        Ok(())
    }

    /// Checks that no value breaks the lines of `/etc/passwd` that it becomes part of.
    fn check(&self, guest: &Guest) -> Result<()> {
        let texts = [&self.home, &self.shell, &self.comment];
        for text in texts.into_iter().flatten() {
            if !accounts::is_field(text) {
                let reason = format!(
                    "invalid value `{}`: it contains a colon or a line break",
                    text.escape_debug()
                );
                return Err(guest.invalid(reason));
            }
        }
        for path in [&self.home, &self.shell].into_iter().flatten() {
            if !path.starts_with('/') {
                let reason =
                    format!("invalid path `{path}`: expected an absolute path in the guest");
                return Err(guest.invalid(reason));
            }
        }
        if self.uid == Some(u32::MAX) || self.gid == Some(u32::MAX) {
            return Err(guest.invalid("invalid user or group ID 4294967295: it is reserved"));
        }
        Ok(())
    }

    fn change(&self, guest: &mut Guest, known: &Account) -> Result<()> {
        let numbers = [
            ("user ID", self.uid, known.uid),
            ("primary group", self.gid, known.gid),
        ];
        for (what, wanted, is) in numbers {
            if let Some(wanted) = wanted.filter(|wanted| *wanted != is) {
                let reason = format!("the {what} of `{}` is {is}, not {wanted}", self.name);
                let hint =
                    "with another ID, the user would lose existing files; remove the user first";
                return Err(guest.invalid(reason).with_hint(hint));
            }
        }
        let shell = match &self.shell {
            Some(shell) => Some(shell_of(guest, shell)?),
            None => None,
        };
        let fields = [
            (COMMENT, self.comment.as_deref()),
            (HOME, self.home.as_deref()),
            (SHELL, shell.as_deref()),
        ];
        if let Some(mut passwd) = Table::read(&guest.stage, PASSWD)? {
            for (field, value) in fields {
                if let Some(value) =
                    value.filter(|it| passwd.field(&known.name, field) != Some(*it))
                {
                    passwd.set(&known.name, field, value);
                }
            }
            passwd.write(&mut guest.stage)?;
        }
        if let Some(path) = &self.home {
            home::make(guest, path, known.uid, known.gid)?;
        }
        Ok(())
    }

    fn join(&self, guest: &mut Guest, group: &str) -> Result<()> {
        if accounts::gid_of(&guest.stage, group)?.is_none() {
            return Err(guest.invalid(format!("no such group: `{group}`")));
        }
        groups::add_member(guest, group, &self.name)
    }

    fn set_password(&self, guest: &mut Guest) -> Result<()> {
        let Some(selector) = &self.password else {
            return Ok(());
        };
        if selector.is_random() && password::has_password(guest, &self.name)? {
            guest.note(format!("`{}` keeps the existing password", self.name));
            return Ok(());
        }
        selector.set(guest, &self.name)
    }

    fn purpose(&self) -> Purpose {
        if self.system == Some(true) {
            Purpose::System
        } else {
            Purpose::Person
        }
    }
}

/// Returns the shell, or `/bin/sh` with a note if the guest does not have this shell.
fn shell_of(guest: &mut Guest, shell: &str) -> Result<String> {
    if guest.stage.exists(shell)? || shell == SH {
        return Ok(shell.to_owned());
    }
    guest.note(format!(
        "{shell} is not installed in the guest: {SH} is used instead"
    ));
    Ok(SH.to_owned())
}

fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_yes(flag: &bool) -> bool {
    *flag
}

#[cfg(test)]
mod tests;
