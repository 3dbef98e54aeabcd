//! The bytes of a new header. LUKS2 on-disk format 1.1, sections 2 and 3.

use base64ct::{Base64, Encoding as _};
use serde_json::{Value, json};

use super::BINARY_HEADER_BYTES;
use super::binary_header::{NewCopy, Role};
use crate::digest::Digest;
use crate::kdf::{Kdf, Variant};

/// The size of each copy, the default of `cryptsetup`.
const COPY_BYTES: u64 = 0x4000;

/// The offset of the only key slot's area, after both copies.
pub(crate) const AREA_OFFSET_BYTES: u64 = 2 * COPY_BYTES;

/// The size of a key slot's area: 4000 stripes of 64 bytes in whole blocks of 4096 bytes.
pub(crate) const AREA_BYTES: u64 = 258_048;

/// The offset of the data, the default of `cryptsetup`.
pub(crate) const DATA_OFFSET_BYTES: u64 = 16 << 20;

/// The number of stripes of a key, the default of `cryptsetup`.
pub(crate) const STRIPES: u32 = 4000;

/// The cipher of the data and of the key slot.
pub(crate) const CIPHER: &str = "aes-xts-plain64";

/// The hash of the splitter, of the digest, and of PBKDF2.
pub(crate) const HASH: &str = "sha256";

/// The contents of a new header with one key slot and one segment.
#[derive(Debug)]
pub(crate) struct NewHeader<'a> {
    pub(crate) uuid: &'a str,
    pub(crate) label: &'a str,
    pub(crate) salts: [[u8; 64]; 2],
    pub(crate) key_bytes: usize,
    pub(crate) sector_bytes: u32,
    pub(crate) kdf: &'a Kdf,
    pub(crate) digest: &'a Digest,
}

impl NewHeader<'_> {
    /// Returns both copies; `None` if a text is too long.
    pub(crate) fn copies(&self) -> Option<[(u64, Vec<u8>); 2]> {
        let json = self.metadata().to_string();
        let copy = |salt, role| {
            let copy = NewCopy {
                uuid: self.uuid,
                label: self.label,
                salt,
                json: json.as_bytes(),
                size_bytes: COPY_BYTES,
            };
            copy.bytes(role)
        };
        let [first, second] = self.salts;
        Some([
            (0, copy(first, Role::Primary)?),
            (COPY_BYTES, copy(second, Role::Secondary)?),
        ])
    }

    fn metadata(&self) -> Value {
        let json_bytes = COPY_BYTES.saturating_sub(BINARY_HEADER_BYTES.try_into().unwrap_or(0));
        json!({
            "keyslots": { "0": {
                "type": "luks2",
                "key_size": self.key_bytes,
                "af": { "type": "luks1", "stripes": STRIPES, "hash": HASH },
                "area": {
                    "type": "raw",
                    "offset": AREA_OFFSET_BYTES.to_string(),
                    "size": AREA_BYTES.to_string(),
                    "encryption": CIPHER,
                    "key_size": self.key_bytes,
                },
                "kdf": kdf(self.kdf),
            } },
            "tokens": {},
            "segments": { "0": {
                "type": "crypt",
                "offset": DATA_OFFSET_BYTES.to_string(),
                "size": "dynamic",
                "iv_tweak": "0",
                "encryption": CIPHER,
                "sector_size": self.sector_bytes,
            } },
            "digests": { "0": {
                "type": "pbkdf2",
                "keyslots": ["0"],
                "segments": ["0"],
                "hash": HASH,
                "iterations": self.digest.pbkdf2.iterations,
                "salt": Base64::encode_string(&self.digest.pbkdf2.salt),
                "digest": Base64::encode_string(&self.digest.value),
            } },
            "config": {
                "json_size": json_bytes.to_string(),
                "keyslots_size": DATA_OFFSET_BYTES.saturating_sub(AREA_OFFSET_BYTES).to_string(),
            },
        })
    }
}

fn kdf(kdf: &Kdf) -> Value {
    match kdf {
        Kdf::Pbkdf2(pbkdf2) => json!({
            "type": "pbkdf2",
            "hash": HASH,
            "iterations": pbkdf2.iterations,
            "salt": Base64::encode_string(&pbkdf2.salt),
        }),
        Kdf::Argon2 {
            variant,
            passes,
            memory_kib,
            lanes,
            salt,
        } => json!({
            "type": match variant {
                Variant::I => "argon2i",
                Variant::Id => "argon2id",
            },
            "time": passes,
            "memory": memory_kib,
            "cpus": lanes,
            "salt": Base64::encode_string(salt),
        }),
    }
}
