//! JSON objects as LUKS2 writes them: named by numbers, and with numbers as text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// More objects of a kind than any tool writes (`LUKS2_KEYSLOTS_MAX` and the like of `cryptsetup`).
const MAX_OBJECTS: usize = 32;

/// Objects by their number, still as text: one that cannot be understood does not spoil the others.
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
                        .map_err(|_| A::Error::custom("a name is no number"))?;
                    if objects.len() >= MAX_OBJECTS || objects.iter().any(|(other, _)| *other == id)
                    {
                        return Err(A::Error::custom("too many objects, or two of one name"));
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

/// A number of 64 bits, which JSON's own do not hold: as text.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|_| D::Error::custom("no number in a text"))
}

/// Bytes in base64.
pub(super) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    use base64ct::{Base64, Encoding as _};
    let text = String::deserialize(deserializer)?;
    Base64::decode_vec(&text).map_err(|_| D::Error::custom("no base64"))
}
