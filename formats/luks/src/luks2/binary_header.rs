//! The binary part of a copy of the header. LUKS2 on-disk format 1.1, section 2.1.

use diskfs_block::{BlockRead, Result, read_within};
use zerocopy::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{BINARY_HEADER_BYTES, COPY_BYTES, metadata};
use crate::hash::Hash;
use crate::header::{Header, MAGIC, text};

/// The magic number of the secondary copy.
const SECONDARY_MAGIC: [u8; 6] = *b"SKUL\xba\xbe";

/// The hash of the checksum in new headers.
const CHECKSUM_HASH: &str = "sha256";

const CHECKSUM_OFFSET: usize = 448;
const CHECKSUM_BYTES: usize = 64;

/// The on-disk structure of the binary header, without the padding after it.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBinaryHeader {
    magic: [u8; 6],
    version: U16,
    hdr_size: U64,
    seqid: U64,
    label: [u8; 48],
    checksum_alg: [u8; 32],
    salt: [u8; 64],
    uuid: [u8; 40],
    subsystem: [u8; 48],
    hdr_offset: U64,
    padding: [u8; 184],
    csum: [u8; CHECKSUM_BYTES],
}

const _: () = assert!(size_of::<RawBinaryHeader>() == CHECKSUM_OFFSET + CHECKSUM_BYTES);

/// A copy of a new header.
#[derive(Debug)]
pub(super) struct NewCopy<'a> {
    pub(super) uuid: &'a str,
    pub(super) label: &'a str,
    pub(super) salt: [u8; 64],
    pub(super) json: &'a [u8],
    pub(super) size_bytes: u64,
}

impl NewCopy<'_> {
    /// Returns the bytes of the copy, with its checksum.
    pub(super) fn bytes(&self, role: Role) -> Option<Vec<u8>> {
        let (magic, offset) = match role {
            Role::Primary => (MAGIC, 0),
            Role::Secondary => (SECONDARY_MAGIC, self.size_bytes),
        };
        let mut raw = RawBinaryHeader {
            magic,
            version: U16::new(2),
            hdr_size: U64::new(self.size_bytes),
            seqid: U64::new(1),
            label: padded(self.label)?,
            checksum_alg: padded(CHECKSUM_HASH)?,
            salt: self.salt,
            uuid: padded(self.uuid)?,
            subsystem: [0; 48],
            hdr_offset: U64::new(offset),
            padding: [0; 184],
            csum: [0; CHECKSUM_BYTES],
        };
        let mut bytes = vec![0; usize::try_from(self.size_bytes).ok()?];
        let json = bytes.get_mut(BINARY_HEADER_BYTES..)?;
        // A zero byte ends the text.
        let json = json.get_mut(..self.json.len().checked_add(1)?)?;
        json.get_mut(..self.json.len())?.copy_from_slice(self.json);
        raw.write_to_prefix(&mut bytes).ok()?;
        let sum = checksum(Hash::parse(CHECKSUM_HASH).ok()?, &bytes).ok()?;
        raw.csum.get_mut(..sum.len())?.copy_from_slice(&sum);
        raw.write_to_prefix(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// Returns a text with a zero byte after it; `None` if it is too long.
fn padded<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let used = bytes.get_mut(..text.len()).filter(|_| text.len() < N)?;
    used.copy_from_slice(text.as_bytes());
    Some(bytes)
}

/// The role of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Primary,
    Secondary,
}

/// A valid copy of the header.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) sequence: u64,
    pub(super) header: Header,
    size_bytes: u64,
}

/// The fields of the binary header that interpreting the JSON needs.
#[derive(Debug, Clone)]
pub(super) struct BinaryFields {
    pub(super) uuid: String,
    pub(super) label: String,
    /// The length of both copies, where the area of the key slots begins.
    pub(super) copies_bytes: u64,
}

impl Copy {
    /// Reads the copy at `offset`. Returns `None` if there is no header, and an inner error for an
    /// invalid copy. The outer error is the device's.
    pub(super) fn read(
        device: &dyn BlockRead,
        offset: u64,
        role: Role,
    ) -> Result<Option<std::result::Result<Self, String>>> {
        let Some(start) = read_within(device, offset, BINARY_HEADER_BYTES)? else {
            return Ok(None);
        };
        let Ok((raw, _)) = RawBinaryHeader::ref_from_prefix(&start) else {
            return Ok(None);
        };
        let magic = match role {
            Role::Primary => MAGIC,
            Role::Secondary => SECONDARY_MAGIC,
        };
        if raw.magic != magic || raw.version.get() != 2 {
            return Ok(None);
        }
        let size_bytes = raw.hdr_size.get();
        if !COPY_BYTES.contains(&size_bytes) {
            return Ok(Some(Err(format!("gives its size as {size_bytes} bytes"))));
        }
        if raw.hdr_offset.get() != offset {
            let says = raw.hdr_offset.get();
            return Ok(Some(Err(format!("says that it is at byte {says}"))));
        }
        let len = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        Ok(match read_within(device, offset, len)? {
            Some(bytes) => Some(Self::from_bytes(raw, &bytes)),
            None => Some(Err("ends past the end of the device".to_owned())),
        })
    }

    fn from_bytes(raw: &RawBinaryHeader, bytes: &[u8]) -> std::result::Result<Self, String> {
        let hash = Hash::parse(&text(&raw.checksum_alg))
            .map_err(|problem| format!("has a checksum that cannot be computed: {problem}"))?;
        if checksum(hash, bytes)? != raw.csum.get(..hash.len_bytes()).unwrap_or_default() {
            return Err("has a wrong checksum".to_owned());
        }
        let json = bytes.get(BINARY_HEADER_BYTES..).unwrap_or_default();
        let json = json.split(|byte| *byte == 0).next().unwrap_or_default();
        let size_bytes = raw.hdr_size.get();
        let fields = BinaryFields {
            uuid: text(&raw.uuid),
            label: text(&raw.label),
            copies_bytes: size_bytes.saturating_mul(2),
        };
        Ok(Self {
            sequence: raw.seqid.get(),
            header: metadata::header(json, fields)?,
            size_bytes,
        })
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

/// Computes the hash of the whole copy, with zeroes in place of the checksum.
fn checksum(hash: Hash, bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let parts = bytes
        .split_at_checked(CHECKSUM_OFFSET)
        .and_then(|(before, rest)| {
            let after = rest.get(CHECKSUM_BYTES..)?;
            Some(hash.digest(&[before, &[0; CHECKSUM_BYTES], after]).to_vec())
        });
    parts.ok_or_else(|| "is too short".to_owned())
}
