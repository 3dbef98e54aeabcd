//! Passwords in a plan where it has been said whose they are.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::super::super::guest::Guest;
use super::{Password, words};
use diskfs_disk::Result;

/// A password without its user: the password as bare text, or the keys of [`Password`]. As bare text the words of the
/// options (`random`, `locked`, `unlock`, `disabled`, `password:...`, `file:...`, `hash:...`), hashes of crypt(5) and empty
/// text are refused: write `{random: true}` and so on, or `{text: random}` for a password that looks so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Selector {
    /// The password; no selector word, no hash, not empty.
    Text(String),
    /// The password in detail.
    Detailed(Password),
}

impl Selector {
    /// Sets the password of a user who is there.
    pub(in super::super) fn set(&self, guest: &mut Guest, user: &str) -> Result<()> {
        match self {
            Self::Text(text) => {
                let password = Password {
                    text: Some(text.clone()),
                    ..Password::default()
                };
                password.set(guest, user)
            }
            Self::Detailed(password) if password.user.is_some() => {
                Err(guest.invalid("whose password it is has been said: `user` is too much"))
            }
            Self::Detailed(password) => password.set(guest, user),
        }
    }

    /// Whether it is one that is made up.
    pub(in super::super) fn is_random(&self) -> bool {
        matches!(self, Self::Detailed(password) if password.random)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Parser)
    }
}

/// Takes no numbers: `0123` has lost its first digit when it gets here.
struct Parser;

impl<'de> Visitor<'de> for Parser {
    type Value = Selector;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .write_str("a password: a text, between quotes where it looks like a number, or a map")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Selector, E> {
        match words::refusal(text) {
            Some(reason) => Err(E::custom(reason)),
            None => Ok(Selector::Text(text.to_owned())),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<Selector, A::Error> {
        Password::deserialize(MapAccessDeserializer::new(map)).map(Selector::Detailed)
    }
}

/// Reads a password whose key is there: without a value (`password:` alone, as of a variable that is not set) it is refused,
/// not taken as if the key were missing.
pub(in super::super) fn given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Selector>, D::Error> {
    Selector::deserialize(deserializer).map(Some)
}
