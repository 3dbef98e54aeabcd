//! The steps `password` and `root-password`.

mod random;
mod selector;
mod words;

use std::borrow::Cow;
use std::path::PathBuf;

use diskfs_etc::passwd::PASSWORD;
use diskfs_etc::shadow::{FIELDS, HASH, LAST_CHANGE};
use serde::{Deserialize, Serialize};

use super::super::accounts::crypt::{self, Method};
use super::super::accounts::table::Table;
use super::super::accounts::{self, PASSWD, SHADOW};
use super::super::guest::Guest;
use diskfs_disk::Result;

pub use selector::Selector;
pub(super) use selector::deserialize_present;
pub use words::{PasswordWords, first_line};

/// The limit on the length of a hash, which is longer than any real one.
const MAX_HASH_BYTES: usize = 1024;

/// The password of a user. Give exactly one of `text`, `file`, `hash`, `random`, `locked`, `unlock`
/// and `disabled`; `expire` can be given alone or with one of the first four.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of a plan")]
pub struct Password {
    /// The login name. It is omitted where the place in the plan already determines the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The password in clear text. It is taken literally: `{text: random}` sets the word `random`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A local file whose first line is the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The password hash, in the form of crypt(5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Generates a random password each time, and reports it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub random: bool,
    /// With `text`: generates a random password instead, and reports it, if the text breaks the
    /// guest's rules for passwords (pwquality.conf, or the options of PAM that replace it).
    #[serde(
        rename = "random-if-weak",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub random_if_weak: bool,
    /// Locks the password: the hash is kept, and login with it is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
    /// Unlocks a locked password.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlock: bool,
    /// Disables password login (an unmatchable hash).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Forces the user to change the password at the next login.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expire: bool,
}

/// The password of root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct RootPassword(pub Selector);

/// The change of the password hash.
enum HashChange<'p> {
    Text(Cow<'p, str>),
    Hash(&'p str),
    Random,
    Locked,
    Unlocked,
    Disabled,
    /// Keeps the hash.
    Same,
}

impl Password {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let Some(user) = &self.user else {
            return Err(guest.invalid("missing key `user` in step `password`"));
        };
        self.set(guest, user)
    }

    /// Sets the password of an existing user.
    fn set(&self, guest: &mut Guest, user: &str) -> Result<()> {
        accounts::refuse_bsd(guest)?;
        let mut tables = Tables::read(guest)?;
        if accounts::user_in(guest, tables.passwd.as_deref(), user)?.is_none() {
            return Err(guest.invalid(format!("no such user: `{user}`")));
        }
        let before = tables.stored(user);
        let wanted = self.wanted(guest)?;
        let after = after(guest, user, &wanted, &before)?;
        tables.store(guest, user, &after, after != before);
        if self.expire {
            tables.expire(guest, user);
        }
        tables.write(guest)
    }

    fn wanted(&self, guest: &Guest) -> Result<HashChange<'_>> {
        let from_file = self.file.as_deref().map(first_line).transpose()?;
        let all = [
            self.text
                .as_deref()
                .map(Cow::Borrowed)
                .map(HashChange::Text),
            from_file.map(Cow::Owned).map(HashChange::Text),
            self.hash.as_deref().map(HashChange::Hash),
            self.random.then_some(HashChange::Random),
            self.locked.then_some(HashChange::Locked),
            self.unlock.then_some(HashChange::Unlocked),
            self.disabled.then_some(HashChange::Disabled),
        ];
        let mut all = all.into_iter().flatten();
        if self.random_if_weak {
            let Some(text) = &self.text else {
                return Err(guest.invalid("`random-if-weak` needs the key `text`"));
            };
            if random::is_refused(guest, text)? {
                return Ok(HashChange::Random);
            }
        }
        match (all.next(), all.next()) {
            (Some(wanted), None) => Ok(wanted),
            (None, _) if self.expire => Ok(HashChange::Same),
            _ => Err(guest.invalid(
                "expected exactly one of text, file, hash, random, locked, unlock and disabled",
            )),
        }
    }
}

impl RootPassword {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        self.0.set(guest, "root")
    }
}

/// Returns true if a user has a password that can be used to log in.
pub(super) fn has_password(guest: &Guest, user: &str) -> Result<bool> {
    let stored = Tables::read(guest)?.stored(user);
    Ok(crypt::is_hash(&stored))
}

/// The files that contain password hashes. Each is read once for a change.
struct Tables {
    passwd: Option<Table>,
    shadow: Option<Table>,
}

impl Tables {
    fn read(guest: &Guest) -> Result<Self> {
        Ok(Self {
            passwd: Table::read(&guest.stage, PASSWD)?,
            shadow: Table::read(&guest.stage, SHADOW)?,
        })
    }

    fn write(&self, guest: &mut Guest) -> Result<()> {
        for table in [&self.passwd, &self.shadow].into_iter().flatten() {
            table.write(&mut guest.stage)?;
        }
        Ok(())
    }

    /// Returns the hash of a user: from shadow(5), or without a line there from passwd(5).
    fn stored(&self, user: &str) -> String {
        let field = match (&self.shadow, &self.passwd) {
            (Some(shadow), _) => shadow.field(user, HASH),
            (None, Some(passwd)) => passwd.field(user, PASSWORD),
            (None, None) => None,
        };
        field.unwrap_or_default().to_owned()
    }

    /// Stores a hash in the file where it belongs.
    fn store(&mut self, guest: &Guest, user: &str, hash: &str, is_new: bool) {
        let Some(shadow) = &mut self.shadow else {
            self.set_in_passwd(user, hash);
            return;
        };
        let today = accounts::today(guest).to_string();
        if shadow.row(user).is_none() {
            let mut fields = [""; FIELDS];
            for (field, value) in fields.iter_mut().zip([user, hash, today.as_str()]) {
                *field = value;
            }
            shadow.add(&fields);
        } else if is_new {
            shadow.set(user, HASH, hash);
            shadow.set(user, LAST_CHANGE, &today);
            shadow.pad(user, FIELDS);
        }
        self.set_in_passwd(user, "x");
    }

    fn set_in_passwd(&mut self, user: &str, value: &str) {
        if let Some(passwd) = &mut self.passwd
            && passwd.field(user, PASSWORD) != Some(value)
        {
            passwd.set(user, PASSWORD, value);
        }
    }

    fn expire(&mut self, guest: &mut Guest, user: &str) {
        match &mut self.shadow {
            Some(shadow) => shadow.set(user, LAST_CHANGE, "0"),
            None => guest.note("cannot expire the password: the guest has no /etc/shadow"),
        }
    }
}

/// Computes the new hash.
fn after(guest: &mut Guest, user: &str, wanted: &HashChange<'_>, before: &str) -> Result<String> {
    match wanted {
        HashChange::Text(text) => hash_of(guest, text, before),
        HashChange::Hash(hash) => {
            if !crypt::is_hash(hash) || hash.len() > MAX_HASH_BYTES {
                return Err(guest.invalid("invalid password hash: expected a hash of crypt(3)"));
            }
            Ok((*hash).to_owned())
        }
        HashChange::Random => {
            let text = random::password(guest)?;
            let hash = hash_of(guest, &text, before)?;
            guest.report_secret(user, text);
            Ok(hash)
        }
        HashChange::Locked if before.starts_with('!') => Ok(before.to_owned()),
        HashChange::Locked => Ok(format!("!{before}")),
        HashChange::Unlocked => {
            let hash = before.trim_start_matches('!');
            if hash.is_empty() && !before.is_empty() {
                let reason = format!("cannot unlock the password of `{user}`: no password is set");
                return Err(guest
                    .invalid(reason)
                    .with_hint("set a password with `text`"));
            }
            Ok(hash.to_owned())
        }
        HashChange::Disabled => Ok("*".to_owned()),
        HashChange::Same => Ok(before.to_owned()),
    }
}

/// Returns the stored hash if it is already a hash of this password, or a new hash.
fn hash_of(guest: &mut Guest, text: &str, before: &str) -> Result<String> {
    crypt::check(guest, text)?;
    let stored = before.trim_start_matches('!');
    if crypt::is_of(stored, text) == Some(true) {
        return Ok(stored.to_owned());
    }
    let method = Method::of(guest)?;
    crypt::hash(guest, method, text)
}

#[cfg(test)]
mod tests;
