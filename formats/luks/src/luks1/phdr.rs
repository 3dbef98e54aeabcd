//! The partition header of LUKS1. LUKS1 on-disk format 1.2.3, figure 3.

use diskfs_block::{Error, Result};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

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
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
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

/// The offset of the first key slot in the header.
pub(super) const KEYBLOCKS_AT: usize = std::mem::offset_of!(RawPhdr, keyblocks);

/// The header fields that apply to all its key slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Common {
    pub(super) cipher: CipherSpec,
    pub(super) hash: Hash,
    pub(super) key_bytes: usize,
    /// The offset of the data; zero if the data is on another device.
    pub(super) payload_offset_bytes: u64,
}

/// The fields of a new header.
pub(super) struct NewPhdr<'a> {
    pub(super) cipher: &'a str,
    pub(super) mode: &'a str,
    pub(super) hash: &'a str,
    pub(super) payload_offset_bytes: u64,
    pub(super) key_bytes: usize,
    pub(super) digest: &'a Digest,
    pub(super) uuid: &'a str,
    pub(super) keyblocks: [RawKeyblock; 8],
}

impl NewPhdr<'_> {
    /// Returns the bytes of the header; `None` if a field has no room for its text or number.
    pub(super) fn bytes(self) -> Option<Vec<u8>> {
        let payload_offset = self.payload_offset_bytes.checked_div(SECTOR_BYTES)?;
        let raw = RawPhdr {
            magic: MAGIC,
            version: 1.into(),
            cipher_name: field(self.cipher)?,
            cipher_mode: field(self.mode)?,
            hash_spec: field(self.hash)?,
            payload_offset: u32::try_from(payload_offset).ok()?.into(),
            key_bytes: u32::try_from(self.key_bytes).ok()?.into(),
            mk_digest: self.digest.value.as_slice().try_into().ok()?,
            mk_digest_salt: self.digest.pbkdf2.salt.as_slice().try_into().ok()?,
            mk_digest_iterations: self.digest.pbkdf2.iterations.into(),
            uuid: field(self.uuid)?,
            keyblocks: self.keyblocks,
        };
        Some(raw.as_bytes().to_vec())
    }
}

/// Returns a text with a NUL at its end; `None` if it is too long.
fn field<const LEN: usize>(text: &str) -> Option<[u8; LEN]> {
    let mut field = [0; LEN];
    let (start, _) = field
        .split_at_mut_checked(text.len())
        .filter(|(_, rest)| !rest.is_empty())?;
    start.copy_from_slice(text.as_bytes());
    Some(field)
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

/// Parses the key slots of a header, and the fields that apply to all of them.
pub(super) fn keyblocks(bytes: &[u8]) -> Result<(Common, [RawKeyblock; 8])> {
    let Ok((raw, _)) = RawPhdr::ref_from_prefix(bytes) else {
        return Err(Error::corrupt("the device ends within the LUKS header").at(0));
    };
    let encryption = format!("{}-{}", text(&raw.cipher_name), text(&raw.cipher_mode));
    let common = common(raw, &encryption).map_err(|problem| problem.to_error())?;
    Ok((common, raw.keyblocks))
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
