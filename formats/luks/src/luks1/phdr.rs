//! The partition header of LUKS1. LUKS1 on-disk format 1.2.3, figure 3.

use diskfs_block::{Error, Result};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::details::Luks1Details;
use super::keyblock::RawKeyblock;
use super::{PHDR_BYTES, SECTOR_BYTES};
use crate::cipher_spec::CipherSpec;
use crate::digest::Digest;
use crate::hash::Hash;
use crate::header::{Encrypted, Header, MAGIC, Version, text};
use crate::kdf::Pbkdf2;
use crate::problem::Problem;
use crate::segment::Segment;

/// The on-disk structure of the header.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPhdr {
    magic: [u8; 6],
    version: U16,
    cipher_name: [u8; 32],
    cipher_mode: [u8; 32],
    hash_spec: [u8; 32],
    payload_offset: U32,
    key_bytes: U32,
    mk_digest: [u8; 20],
    mk_digest_salt: [u8; 32],
    mk_digest_iterations: U32,
    uuid: [u8; 40],
    keyblocks: [RawKeyblock; 8],
}

const _: () = assert!(size_of::<RawPhdr>() == PHDR_BYTES);

/// The header fields that apply to all its key slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Common {
    pub(super) cipher: CipherSpec,
    pub(super) hash: Hash,
    pub(super) key_bytes: usize,
    /// The offset of the data; zero if the data is on another device.
    pub(super) payload_offset_bytes: u64,
}

/// Parses the header in the first bytes of a device, whose magic and version were checked before.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Header> {
    let Ok((raw, _)) = RawPhdr::ref_from_prefix(bytes) else {
        return Err(Error::corrupt("the device ends within the LUKS header").at(0));
    };
    debug_assert!(raw.magic == MAGIC && raw.version.get() == 1);
    let encryption = format!("{}-{}", text(&raw.cipher_name), text(&raw.cipher_mode));
    let common = common(raw, &encryption);
    let keyslots = (0..)
        .zip(&raw.keyblocks)
        .filter_map(|(id, keyblock)| keyblock.state(id, common.as_ref()))
        .collect();
    Ok(Header {
        version: Version::Luks1,
        uuid: text(&raw.uuid),
        label: String::new(),
        encryption,
        len_bytes: u64::try_from(PHDR_BYTES).unwrap_or(u64::MAX),
        encrypted: common.and_then(|common| encrypted(raw, &common)),
        keyslots,
        warnings: Vec::new(),
    })
}

/// Returns the fields as they are stored; `None` if the bytes are not a header of LUKS1.
pub(super) fn details(bytes: &[u8]) -> Option<Luks1Details> {
    let (raw, _) = RawPhdr::ref_from_prefix(bytes).ok()?;
    (raw.magic == MAGIC && raw.version.get() == 1).then(|| Luks1Details {
        cipher: text(&raw.cipher_name),
        mode: text(&raw.cipher_mode),
        hash: text(&raw.hash_spec),
        key_bytes: raw.key_bytes.get(),
        uuid: text(&raw.uuid),
        payload_offset_bytes: u64::from(raw.payload_offset.get()).saturating_mul(SECTOR_BYTES),
        digest_iterations: raw.mk_digest_iterations.get(),
        slots: raw.keyblocks.iter().map(RawKeyblock::details).collect(),
    })
}

fn common(raw: &RawPhdr, encryption: &str) -> std::result::Result<Common, Problem> {
    let cipher = CipherSpec::parse(encryption)?;
    Ok(Common {
        key_bytes: cipher.check_key_bytes(raw.key_bytes.get().into())?,
        cipher,
        hash: Hash::parse(&text(&raw.hash_spec))?,
        payload_offset_bytes: u64::from(raw.payload_offset.get()).saturating_mul(SECTOR_BYTES),
    })
}

fn encrypted(raw: &RawPhdr, common: &Common) -> std::result::Result<Encrypted, Problem> {
    let iterations = raw.mk_digest_iterations.get();
    if iterations == 0 {
        return Err(Problem::corrupt(
            "invalid volume key digest: PBKDF2 has no iterations",
        ));
    }
    Ok(Encrypted {
        segment: Segment {
            offset_bytes: common.payload_offset_bytes,
            len_bytes: None,
            sector_bytes: 512,
            iv_tweak: 0,
            cipher: common.cipher,
            allows_discards: false,
        },
        digest: Digest {
            pbkdf2: Pbkdf2 {
                hash: common.hash,
                iterations,
                salt: raw.mk_digest_salt.to_vec(),
            },
            value: raw.mk_digest.to_vec(),
        },
    })
}
