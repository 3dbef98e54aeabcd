//! The JSON area of a LUKS2 header. LUKS2 on-disk format 1.1, section 3.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::binary_header::BinaryFields;
use super::keyslot::{self, RawPbkdf2, parse, type_of, unknown};
use super::objects::{Objects, bytes, number};
use crate::cipher_spec::CipherSpec;
use crate::digest::Digest;
use crate::header::{Encrypted, Header, Version};
use crate::problem::Problem;
use crate::segment::Segment;

#[derive(Deserialize)]
struct RawMetadata {
    #[serde(default)]
    keyslots: Objects,
    #[serde(default)]
    segments: Objects,
    #[serde(default)]
    digests: Objects,
    config: RawConfig,
}

#[derive(Deserialize)]
struct RawConfig {
    #[serde(deserialize_with = "number")]
    keyslots_size: u64,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    requirements: RawRequirements,
}

#[derive(Deserialize, Default)]
struct RawRequirements {
    #[serde(default)]
    mandatory: Vec<String>,
}

#[derive(Deserialize)]
struct RawSegment {
    #[serde(deserialize_with = "number")]
    offset: u64,
    size: String,
    #[serde(deserialize_with = "number")]
    iv_tweak: u64,
    encryption: String,
    sector_size: u32,
    integrity: Option<RawIntegrity>,
}

#[derive(Deserialize)]
struct RawIntegrity {
    #[serde(default)]
    r#type: String,
}

#[derive(Deserialize)]
struct RawDigest {
    r#type: String,
    keyslots: Vec<String>,
    segments: Vec<String>,
    #[serde(deserialize_with = "bytes")]
    digest: Vec<u8>,
}

/// The ranges in which key slots' areas may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyslotAreaBounds {
    start_bytes: u64,
    len_bytes: u64,
}

impl KeyslotAreaBounds {
    pub(super) fn check(&self, offset: u64, len_bytes: u64) -> Result<(), Problem> {
        let within = offset.checked_sub(self.start_bytes);
        let end = within.and_then(|at| at.checked_add(len_bytes));
        if end.is_some_and(|end| end <= self.len_bytes) {
            return Ok(());
        }
        let reason = format!(
            "the key slot's {len_bytes} bytes at byte {offset} do not lie within the area for \
             key slots"
        );
        Err(Problem::corrupt(reason))
    }
}

/// Parses the header from its JSON. The error is the reason why this copy cannot be used.
pub(super) fn header(json: &[u8], fields: BinaryFields) -> Result<Header, String> {
    let raw: RawMetadata =
        serde_json::from_slice(json).map_err(|e| format!("has invalid metadata ({e})"))?;
    let bounds = KeyslotAreaBounds {
        start_bytes: fields.copies_bytes,
        len_bytes: raw.config.keyslots_size,
    };
    let bound = raw
        .segments
        .iter()
        .next()
        .and_then(|(id, _)| digest_of(&raw, id));
    let slots_of_digest = bound.as_ref().map_or(&[][..], |(slots, _)| slots);
    let keyslots = raw
        .keyslots
        .iter()
        .filter(|(id, _)| slots_of_digest.contains(id))
        .map(|(id, keyslot)| keyslot::entry(id, keyslot, &bounds))
        .collect();
    Ok(Header {
        version: Version::Luks2,
        uuid: fields.uuid,
        label: fields.label,
        encryption: encryption(&raw),
        len_bytes: fields.copies_bytes,
        encrypted: encrypted(&raw, bound.map(|(_, digest)| digest)),
        keyslots,
        warnings: Vec::new(),
    })
}

/// Returns the cipher of the first encrypted segment, supported or not.
fn encryption(raw: &RawMetadata) -> String {
    let mut parsed = raw
        .segments
        .iter()
        .filter_map(|(_, segment)| parse::<RawSegment>(segment, "segment").ok());
    parsed
        .next()
        .map(|segment| segment.encryption)
        .unwrap_or_default()
}

fn encrypted(
    raw: &RawMetadata,
    digest: Option<Result<Digest, Problem>>,
) -> Result<Encrypted, Problem> {
    check_requirements(raw)?;
    let mut segments = raw.segments.iter();
    let segment = match (segments.next(), segments.next()) {
        (Some((_, segment)), None) => self::segment(segment, &raw.config)?,
        (None, _) => {
            return Err(Problem::corrupt(
                "missing segment: the header describes no data",
            ));
        }
        _ => {
            return Err(Problem::unsupported(
                "data in several segments is not supported",
            ));
        }
    };
    let digest = digest.ok_or_else(|| {
        Problem::corrupt("missing digest: no digest belongs to the data segment")
    })??;
    Ok(Encrypted { segment, digest })
}

/// Fails for requirements that we do not support. A header lists by name what a program must know
/// before it accesses the data.
fn check_requirements(raw: &RawMetadata) -> Result<(), Problem> {
    let reencrypts = raw
        .keyslots
        .iter()
        .any(|(_, slot)| type_of(slot) == "reencrypt");
    let mandatory = &raw.config.requirements.mandatory;
    if reencrypts || mandatory.iter().any(|name| name.contains("reencrypt")) {
        return Err(Problem::unsupported(
            "a reencryption of the volume is unfinished (end it with `cryptsetup reencrypt \
             --resume-only`)",
        ));
    }
    match mandatory.first() {
        Some(name) => Err(unknown("requirement", name)),
        None => Ok(()),
    }
}

fn segment(raw: &RawValue, config: &RawConfig) -> Result<Segment, Problem> {
    let kind = type_of(raw);
    if kind != "crypt" {
        return Err(unknown("segment type", &kind));
    }
    let raw: RawSegment = parse(raw, "segment")?;
    if let Some(integrity) = raw.integrity {
        let name = integrity.r#type.escape_debug();
        let reason = format!("authenticated encryption is not supported (integrity `{name}`)");
        return Err(Problem::unsupported(reason));
    }
    if !matches!(raw.sector_size, 512 | 1024 | 2048 | 4096) {
        let reason = format!(
            "invalid segment: sectors have {} bytes, expected 512, 1024, 2048 or 4096",
            raw.sector_size
        );
        return Err(Problem::corrupt(reason));
    }
    if !raw.offset.is_multiple_of(512) {
        let reason = format!(
            "invalid segment: the data begins within a sector (at byte {})",
            raw.offset
        );
        return Err(Problem::corrupt(reason));
    }
    let cipher = CipherSpec::parse(&raw.encryption)?;
    Ok(Segment {
        offset_bytes: raw.offset,
        len_bytes: len_bytes(&raw.size)?,
        sector_bytes: raw.sector_size,
        iv_tweak: raw.iv_tweak,
        cipher,
        allows_discards: config.flags.iter().any(|flag| flag == "allow-discards"),
    })
}

fn len_bytes(size: &str) -> Result<Option<u64>, Problem> {
    if size == "dynamic" {
        return Ok(None);
    }
    let len = size.parse().map_err(|_| {
        Problem::corrupt("invalid segment: expected a number of bytes or `dynamic` as size")
    })?;
    Ok(Some(len))
}

/// Returns the digest of a segment's key, and the key slots that hold that key.
fn digest_of(raw: &RawMetadata, segment: u32) -> Option<(Vec<u32>, Result<Digest, Problem>)> {
    let ids = |names: &[String]| -> Vec<u32> {
        names.iter().filter_map(|name| name.parse().ok()).collect()
    };
    raw.digests.iter().find_map(|(_, value)| {
        let parsed: RawDigest = parse(value, "digest").ok()?;
        ids(&parsed.segments)
            .contains(&segment)
            .then(|| (ids(&parsed.keyslots), digest(parsed, value)))
    })
}

fn digest(raw: RawDigest, value: &RawValue) -> Result<Digest, Problem> {
    if raw.r#type != "pbkdf2" {
        return Err(unknown("digest", &raw.r#type));
    }
    // A short digest would match wrong keys; no hash is longer than 64 bytes.
    if !(16..=64).contains(&raw.digest.len()) {
        let reason = format!(
            "invalid digest: the volume key's digest has {} bytes, expected 16 to 64",
            raw.digest.len()
        );
        return Err(Problem::corrupt(reason));
    }
    Ok(Digest {
        pbkdf2: keyslot::pbkdf2(parse::<RawPbkdf2>(value, "digest")?)?,
        value: raw.digest,
    })
}
