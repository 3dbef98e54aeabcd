//! Passwords in plans where the user is already known.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::super::super::guest::Guest;
use super::{Password, words};
use diskfs_disk::Result;

/// A password: bare text, or a map with the keys of the step `password` except `user`. Bare text is
/// refused if it is empty, if it is a hash of crypt(5), or if it is a word of the options
/// (`random`, `locked`, `unlock`, `disabled`, `password:...`, `file:...`, `hash:...`). Write
/// `{random: true}` and so on, or `{text: random}` for a password that looks like one of these
/// words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Selector {
    /// The password as bare text: not a selector word, not a hash, not empty.
    Text(String),
    /// The password as a map.
    Detailed(Password),
}

impl Selector {
    /// Sets the password of an existing user.
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
                Err(guest.invalid("unexpected key `user`: the step already determines the user"))
            }
            Self::Detailed(password) => password.set(guest, user),
        }
    }

    /// Returns true if the password is a random one.
    pub(in super::super) fn is_random(&self) -> bool {
        matches!(self, Self::Detailed(password) if password.random)
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Parser)
    }
}

/// The deserializer of [`Selector`]. It refuses numbers: `0123` would already have lost its first
/// digit.
struct Parser;

impl<'de> Visitor<'de> for Parser {
    type Value = Selector;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a password: text (quoted if it looks like a number) or a map")
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

/// Deserializes a password whose key is present. A key without a value (`password:` alone, as from
/// an unset variable) is refused, not treated as a missing key.
pub(in super::super) fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Selector>, D::Error> {
    Selector::deserialize(deserializer).map(Some)
}
