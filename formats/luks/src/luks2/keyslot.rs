//! Key slots and their key derivation. LUKS2 on-disk format 1.1, sections 3.2 to 3.4.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::metadata::KeyslotAreaBounds;
use super::objects::{bytes, number};
use crate::af::AntiForensic;
use crate::cipher_spec::CipherSpec;
use crate::hash::Hash;
use crate::header::KeyslotEntry;
use crate::kdf::{Kdf, Pbkdf2, Variant};
use crate::keyslot::{Area, Keyslot, Priority};
use crate::problem::Problem;

#[derive(Deserialize)]
struct RawKeyslot {
    key_size: u64,
    priority: Option<u64>,
    af: RawAf,
    area: RawArea,
    kdf: Box<RawValue>,
}

#[derive(Deserialize)]
struct RawAf {
    r#type: String,
    stripes: u32,
    hash: String,
}

#[derive(Deserialize)]
struct RawArea {
    r#type: String,
    #[serde(deserialize_with = "number")]
    offset: u64,
    #[serde(deserialize_with = "number")]
    size: u64,
    encryption: String,
    key_size: u64,
}

#[derive(Deserialize)]
pub(super) struct RawPbkdf2 {
    pub(super) hash: String,
    pub(super) iterations: u32,
    #[serde(deserialize_with = "bytes")]
    pub(super) salt: Vec<u8>,
}

#[derive(Deserialize)]
struct RawArgon2 {
    time: u32,
    memory: u32,
    cpus: u32,
    #[serde(deserialize_with = "bytes")]
    salt: Vec<u8>,
}

/// The key that every object of the metadata has.
#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

/// Returns an object's type, or an empty string.
pub(super) fn type_of(raw: &RawValue) -> String {
    let typed: Result<Typed, _> = serde_json::from_str(raw.get());
    typed.map(|typed| typed.r#type).unwrap_or_default()
}

/// Parses an object of the metadata; `what` names it in errors.
pub(super) fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue, what: &str) -> Result<T, Problem> {
    serde_json::from_str(raw.get()).map_err(|e| Problem::corrupt(format!("invalid {what}: {e}")))
}

pub(super) fn entry(id: u32, raw: &RawValue, bounds: &KeyslotAreaBounds) -> KeyslotEntry {
    let mut entry = KeyslotEntry {
        id,
        priority: Priority::Normal,
        kdf: String::new(),
        keyslot: Err(Problem::corrupt("")),
    };
    entry.keyslot = keyslot(raw, bounds, &mut entry);
    entry
}

fn keyslot(
    raw: &RawValue,
    bounds: &KeyslotAreaBounds,
    entry: &mut KeyslotEntry,
) -> Result<Keyslot, Problem> {
    let kind = type_of(raw);
    if kind != "luks2" {
        return Err(unknown("key slot type", &kind));
    }
    let raw: RawKeyslot = parse(raw, "key slot")?;
    entry.priority = match raw.priority {
        Some(0) => Priority::Ignored,
        Some(2) => Priority::High,
        _ => Priority::Normal,
    };
    entry.kdf = type_of(&raw.kdf);
    if raw.af.r#type != "luks1" {
        return Err(unknown("anti-forensic splitter", &raw.af.r#type));
    }
    if raw.area.r#type != "raw" {
        return Err(unknown("key slot area type", &raw.area.r#type));
    }
    let key_bytes = key_bytes(raw.key_size)?;
    let cipher = CipherSpec::parse(&raw.area.encryption)?;
    let keyslot = Keyslot {
        kdf: kdf(&raw.kdf)?,
        anti_forensic: AntiForensic::new(key_bytes, raw.af.stripes, Hash::parse(&raw.af.hash)?)?,
        area: Area {
            offset_bytes: raw.area.offset,
            key_bytes: cipher.check_key_bytes(raw.area.key_size)?,
            cipher,
        },
    };
    let needed = u64::try_from(keyslot.area_bytes()).unwrap_or(u64::MAX);
    if needed > raw.area.size {
        let reason = format!(
            "the key slot's area has {} bytes, and its key needs {needed}",
            raw.area.size
        );
        return Err(Problem::corrupt(reason));
    }
    bounds.check(raw.area.offset, raw.area.size)?;
    Ok(keyslot)
}

/// Checks the length of a volume key. Whether a cipher supports it is checked with the segment.
fn key_bytes(len: u64) -> Result<usize, Problem> {
    usize::try_from(len)
        .ok()
        .filter(|len| (1..=64).contains(len))
        .ok_or_else(|| {
            Problem::corrupt(format!(
                "invalid key length: no cipher has a key of {len} bytes"
            ))
        })
}

fn kdf(raw: &RawValue) -> Result<Kdf, Problem> {
    let variant = match type_of(raw).as_str() {
        "pbkdf2" => return Ok(Kdf::Pbkdf2(pbkdf2(parse(raw, "key derivation")?)?)),
        "argon2i" => Variant::I,
        "argon2id" => Variant::Id,
        other => return Err(unknown("key derivation", other)),
    };
    let raw: RawArgon2 = parse(raw, "key derivation")?;
    if raw.time == 0 || raw.memory == 0 || raw.cpus == 0 {
        return Err(Problem::corrupt(
            "invalid key derivation: time, memory and cpus of Argon2 must not be 0",
        ));
    }
    Ok(Kdf::Argon2 {
        variant,
        passes: raw.time,
        memory_kib: raw.memory,
        lanes: raw.cpus,
        salt: raw.salt,
    })
}

pub(super) fn pbkdf2(raw: RawPbkdf2) -> Result<Pbkdf2, Problem> {
    if raw.iterations == 0 {
        return Err(Problem::corrupt(
            "invalid key derivation: PBKDF2 has no iterations",
        ));
    }
    Ok(Pbkdf2 {
        hash: Hash::parse(&raw.hash)?,
        iterations: raw.iterations,
        salt: raw.salt,
    })
}

pub(super) fn unknown(what: &str, name: &str) -> Problem {
    Problem::unsupported(format!("unsupported {what} `{}`", name.escape_debug()))
}
