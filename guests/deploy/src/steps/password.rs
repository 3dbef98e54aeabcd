//! Passwords of users.

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
pub(super) use selector::given;
pub use words::{PasswordWords, first_line};

/// Longer than any hash.
const MAX_HASH_BYTES: usize = 1024;

/// A user's password. One of `text`, `file`, `hash`, `random`, `locked`, `unlock` and `disabled`; `expire` alone, or beside
/// one of the first four.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of a plan")]
pub struct Password {
    /// The user's name; none where the place in the plan says whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The password itself, whatever it looks like: `{text: random}` sets the word `random`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A file of this machine whose first line is the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The hash of the password, as crypt(5) has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Generates a random password each time, and reports it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub random: bool,
    /// Locks the password: the hash is kept, and login with it is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
    /// Unlocks a locked password.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlock: bool,
    /// Disables password login (an unmatchable hash).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Whether the user must change the password at the next login.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expire: bool,
}

/// The password of root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct RootPassword(pub Selector);

/// What becomes of the hash.
enum Wanted<'p> {
    Text(Cow<'p, str>),
    Hash(&'p str),
    Random,
    Locked,
    Unlocked,
    Disabled,
    /// It stays.
    Same,
}

impl Password {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let Some(user) = &self.user else {
            return Err(guest.invalid("a password is some user's: `user` is missing"));
        };
        self.set(guest, user)
    }

    /// Sets the password of a user who is there.
    fn set(&self, guest: &mut Guest, user: &str) -> Result<()> {
        accounts::refuse_bsd(guest)?;
        let mut tables = Tables::read(guest)?;
        if accounts::user_in(guest, tables.passwd.as_deref(), user)?.is_none() {
            return Err(guest.invalid(format!("the guest has no user `{user}`")));
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

    fn wanted(&self, guest: &Guest) -> Result<Wanted<'_>> {
        let from_file = self.file.as_deref().map(first_line).transpose()?;
        let all = [
            self.text.as_deref().map(Cow::Borrowed).map(Wanted::Text),
            from_file.map(Cow::Owned).map(Wanted::Text),
            self.hash.as_deref().map(Wanted::Hash),
            self.random.then_some(Wanted::Random),
            self.locked.then_some(Wanted::Locked),
            self.unlock.then_some(Wanted::Unlocked),
            self.disabled.then_some(Wanted::Disabled),
        ];
        let mut all = all.into_iter().flatten();
        match (all.next(), all.next()) {
            (Some(wanted), None) => Ok(wanted),
            (None, _) if self.expire => Ok(Wanted::Same),
            _ => Err(guest.invalid(
                "a password is one of text, file, hash, random, locked, unlock and disabled",
            )),
        }
    }
}

impl RootPassword {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        self.0.set(guest, "root")
    }
}

/// Whether a user has a password that can let him in.
pub(super) fn has_password(guest: &Guest, user: &str) -> Result<bool> {
    let stored = Tables::read(guest)?.stored(user);
    Ok(crypt::is_hash(&stored))
}

/// The files that have hashes, each read once for a change.
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

    /// Returns the hash of a user, where the guest has it: in shadow(5), or with none in passwd(5).
    fn stored(&self, user: &str) -> String {
        let field = match (&self.shadow, &self.passwd) {
            (Some(shadow), _) => shadow.field(user, HASH),
            (None, Some(passwd)) => passwd.field(user, PASSWORD),
            (None, None) => None,
        };
        field.unwrap_or_default().to_owned()
    }

    /// Puts a hash where it belongs.
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
            None => guest.note("without /etc/shadow no password expires"),
        }
    }
}

/// The hash as it is to be.
fn after(guest: &mut Guest, user: &str, wanted: &Wanted<'_>, before: &str) -> Result<String> {
    match wanted {
        Wanted::Text(text) => hash_of(guest, text, before),
        Wanted::Hash(hash) => {
            if !crypt::is_hash(hash) || hash.len() > MAX_HASH_BYTES {
                return Err(guest.invalid("that is no hash of crypt(3)"));
            }
            Ok((*hash).to_owned())
        }
        Wanted::Random => {
            let text = random::password(guest)?;
            let hash = hash_of(guest, &text, before)?;
            guest.tell_secret(user, text);
            Ok(hash)
        }
        Wanted::Locked if before.starts_with('!') => Ok(before.to_owned()),
        Wanted::Locked => Ok(format!("!{before}")),
        Wanted::Unlocked => {
            let hash = before.trim_start_matches('!');
            if hash.is_empty() && !before.is_empty() {
                let reason = format!("`{user}` has no password that could be unlocked");
                return Err(guest.invalid(reason).with_hint("give him one with `text`"));
            }
            Ok(hash.to_owned())
        }
        Wanted::Disabled => Ok("*".to_owned()),
        Wanted::Same => Ok(before.to_owned()),
    }
}

/// The hash that is stored when it is of this password already, or a new one.
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
