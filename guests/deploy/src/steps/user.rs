//! A user, as useradd(8) makes one.

mod create;
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

/// A user. One who is missing is made as useradd(8) does by the guest's login.defs(5), `/etc/default/useradd` and
/// `/etc/skel`; one who is there is changed only in what is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct User {
    /// The name.
    pub name: String,
    /// The password; a random one is generated only for a user who has none.
    #[serde(
        default,
        deserialize_with = "password::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub password: Option<Selector>,
    /// The groups, which the guest has, that the user is to be a member of besides others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The number; the next free one without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The number of the first group: a group of the guest, or else one with the user's name that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// The home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The shell; `/bin/sh` where the guest hasn't that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Whether a new one is for a service: with a number of those, and without a home unless one is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<bool>,
    /// Whether he may do all as root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sudo: Option<Sudo>,
    /// Keys that let him in, beside those that do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_keys: Vec<String>,
    /// Whether one who is missing is made; else that is an error.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub create: bool,
}

/// Whether a user may do all as root: no, with his password, or without it. In a plan `false`, `true`, `nopasswd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "SudoText", into = "SudoText")]
pub enum Sudo {
    /// Not by this tool.
    No,
    /// With the password.
    Password,
    /// Without.
    NoPassword,
}

/// It as a plan has it.
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
            SudoText::Text(text) => Err(format!("`{text}` is none of true, false and nopasswd")),
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
        match accounts::whole_user(guest, &self.name)? {
            Some(known) => self.change(guest, &known)?,
            None if self.create => self.create(guest)?,
            None => {
                let reason = format!("the guest has no user `{}`", self.name);
                return Err(guest.invalid(reason));
            }
        }
        for group in &self.groups {
            self.join(guest, group)?;
        }
        self.set_password(guest)?;
        if let Some(sudo) = self.sudo {
            sudoers::set(guest, &self.name, sudo)?;
        }
        if !self.ssh_keys.is_empty() {
            ssh_key::add(guest, &self.name, &self.ssh_keys)?;
        }
        Ok(())
    }

    /// That nothing breaks the lines that it gets into.
    fn check(&self, guest: &Guest) -> Result<()> {
        let texts = [&self.home, &self.shell, &self.comment];
        for text in texts.into_iter().flatten() {
            if !accounts::is_field(text) {
                let reason = format!("`{}` has a colon or an end of a line", text.escape_debug());
                return Err(guest.invalid(reason));
            }
        }
        for path in [&self.home, &self.shell].into_iter().flatten() {
            if !path.starts_with('/') {
                let reason = format!("`{path}` is no path from the guest's root");
                return Err(guest.invalid(reason));
            }
        }
        if self.uid == Some(u32::MAX) || self.gid == Some(u32::MAX) {
            return Err(guest.invalid("4294967295 is no number of a user or group"));
        }
        Ok(())
    }

    fn change(&self, guest: &mut Guest, known: &Account) -> Result<()> {
        let numbers = [
            ("number", self.uid, known.uid),
            ("first group", self.gid, known.gid),
        ];
        for (what, wanted, is) in numbers {
            if let Some(wanted) = wanted.filter(|wanted| *wanted != is) {
                let reason = format!("the {what} of `{}` is {is}, not {wanted}", self.name);
                let hint = "with another, files would no longer be his; remove the user first";
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
            return Err(guest.invalid(format!("the guest has no group `{group}`")));
        }
        groups::add_member(guest, group, &self.name)
    }

    fn set_password(&self, guest: &mut Guest) -> Result<()> {
        let Some(selector) = &self.password else {
            return Ok(());
        };
        if selector.is_random() && password::has_password(guest, &self.name)? {
            guest.note(format!("`{}` keeps the password that he has", self.name));
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

/// The shell, or the one that all guests have.
fn shell_of(guest: &mut Guest, shell: &str) -> Result<String> {
    if guest.stage.exists(shell)? || shell == SH {
        return Ok(shell.to_owned());
    }
    guest.note(format!("the guest has no {shell}: {SH} takes its place"));
    Ok(SH.to_owned())
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_yes(flag: &bool) -> bool {
    *flag
}

#[cfg(test)]
mod tests;
