//! Deserialisation of LUKS2's JSON objects: keys are numbers, and numbers are strings.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The largest number of objects of a kind; no tool writes more (`LUKS2_KEYSLOTS_MAX` and the like
/// of `cryptsetup`).
const MAX_OBJECTS: usize = 32;

/// Objects by their number, not yet parsed, so that one invalid object does not affect the others.
#[derive(Debug, Default)]
pub(super) struct Objects(Vec<(u32, Box<RawValue>)>);

impl Objects {
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &RawValue)> {
        self.0.iter().map(|(id, value)| (*id, &**value))
    }
}

impl<'de> Deserialize<'de> for Objects {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;

        impl<'de> Visitor<'de> for Visit {
            type Value = Objects;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {MAX_OBJECTS} objects named by numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Objects, A::Error> {
                let mut objects: Vec<(u32, Box<RawValue>)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    let id = name
                        .parse()
                        .map_err(|_| A::Error::custom("invalid object name: expected a number"))?;
                    if objects.len() >= MAX_OBJECTS || objects.iter().any(|(other, _)| *other == id)
                    {
                        return Err(A::Error::custom(
                            "too many objects, or two of the same name",
                        ));
                    }
                    objects.push((id, value));
                }
                objects.sort_unstable_by_key(|(id, _)| *id);
                Ok(Objects(objects))
            }
        }

        deserializer.deserialize_map(Visit)
    }
}

/// Deserialises a 64-bit number from a string; JSON's own numbers have fewer bits.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|_| D::Error::custom("invalid number: expected a string of digits"))
}

/// Deserialises bytes from base64.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    use base64ct::{Base64, Encoding as _};
    let text = String::deserialize(deserializer)?;
    Base64::decode_vec(&text).map_err(|_| D::Error::custom("not valid base64"))
}
