//! The header, as QEMU's block/qcow.c documents it.

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const MAGIC: [u8; 4] = *b"QFI\xfb";
/// The cluster sizes of QEMU, as powers of two: 512 bytes to 64 KiB.
const CLUSTER_BITS: std::ops::RangeInclusive<u8> = 9..=16;
/// The sizes of an L2 table in entries, as powers of two: 512 bytes to 64 KiB.
const L2_BITS: std::ops::RangeInclusive<u8> = 6..=13;
/// The longest backing file name in bytes: QEMU's limit.
const NAME_MAX_BYTES: u32 = 1023;

/// The header, with QEMU's names.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 4],
    version: U32,
    backing_file_offset: U64,
    backing_file_size: U32,
    mtime: U32,
    size: U64,
    cluster_bits: u8,
    l2_bits: u8,
    padding: U16,
    crypt_method: U32,
    l1_table_offset: U64,
}

const HEADER_BYTES: usize = size_of::<RawHeader>();
const _: () = assert!(HEADER_BYTES == 48);

/// A header whose fields are in range.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) size_bytes: u64,
    pub(crate) cluster_bits: u32,
    pub(crate) l2_bits: u32,
    pub(crate) l1_at: u64,
    pub(crate) l1_entries: u64,
    pub(crate) backing_name: Option<Vec<u8>>,
}

impl Header {
    /// Reads and checks the header of the image in `file`.
    pub(crate) fn read(file: &dyn BlockRead) -> Result<Self> {
        let start = read_within(file, 0, HEADER_BYTES)?;
        let raw = start.and_then(|start| RawHeader::read_from_bytes(&start).ok());
        let raw = raw.ok_or_else(|| Error::corrupt("truncated qcow header").at(0))?;
        if raw.magic != MAGIC || raw.version.get() != 1 {
            return Err(Error::corrupt("not a qcow image of version 1").at(0));
        }
        if raw.crypt_method.get() != 0 {
            let reason = "unsupported encryption of a qcow image of version 1 (AES-CBC)";
            return Err(Error::unsupported(reason)
                .at(36)
                .with_hint("convert it with `qemu-img convert`, with the passphrase as a secret"));
        }
        let backing_name = raw.backing_name(file)?;
        raw.header(backing_name)
    }
}

impl RawHeader {
    fn backing_name(&self, file: &dyn BlockRead) -> Result<Option<Vec<u8>>> {
        let (at, len) = (self.backing_file_offset.get(), self.backing_file_size.get());
        if at == 0 || len == 0 {
            return Ok(None);
        }
        if len > NAME_MAX_BYTES {
            let reason =
                format!("name of the backing file has {len} bytes, at most {NAME_MAX_BYTES}");
            return Err(Error::corrupt(reason).at(16));
        }
        let name = read_within(file, at, bytes::index(len))?;
        let past_end = || Error::corrupt("name of the backing file is past the end of the file");
        name.map(Some).ok_or_else(|| past_end().at(8))
    }

    fn header(&self, backing_name: Option<Vec<u8>>) -> Result<Header> {
        let (cluster_bits, l2_bits) = (self.cluster_bits, self.l2_bits);
        if !CLUSTER_BITS.contains(&cluster_bits) {
            return Err(Error::corrupt(format!("invalid cluster_bits {cluster_bits}")).at(32));
        }
        if !L2_BITS.contains(&l2_bits) {
            return Err(Error::corrupt(format!("invalid l2_bits {l2_bits}")).at(33));
        }
        let (cluster_bits, l2_bits) = (u32::from(cluster_bits), u32::from(l2_bits));
        let size_bytes = self.size.get();
        // At most 29 bits.
        let l2_bytes = 1_u64.wrapping_shl(cluster_bits.saturating_add(l2_bits));
        Ok(Header {
            size_bytes,
            cluster_bits,
            l2_bits,
            l1_at: self.l1_table_offset.get(),
            l1_entries: size_bytes.div_ceil(l2_bytes),
            backing_name,
        })
    }
}
