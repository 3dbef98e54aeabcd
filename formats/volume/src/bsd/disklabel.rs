//! The label of the BSDs: `struct disklabel` (FreeBSD, `sys/disklabel.h`). OpenBSD's and NetBSD's
//! differ only in the number of partitions. The label has the machine's byte order; only that of
//! PCs is supported.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The part of the label before its partitions.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDisklabel {
    d_magic: U32,
    names_and_geometry: [u8; 36],
    d_secsize: U32,
    drive: [u8; 88],
    d_magic2: U32,
    d_checksum: U16,
    d_npartitions: U16,
    d_bbsize: U32,
    d_sbsize: U32,
}

/// An entry of the label: `struct partition`.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPartition {
    size: U32,
    offset: U32,
    fsize: U32,
    fstype: u8,
    frag: u8,
    cpg: U16,
}

const MAGIC: u32 = 0x8256_4557;

/// The largest number of partitions. FreeBSD has room for 8 or 20, NetBSD and OpenBSD for 16.
const MAX_PARTITIONS: usize = 22;

/// The length of a label with all of its partitions, in bytes.
pub(super) const LEN_BYTES: usize =
    size_of::<RawDisklabel>() + MAX_PARTITIONS * size_of::<RawPartition>();

const _: () = assert!(size_of::<RawDisklabel>() == 148);
const _: () = assert!(size_of::<RawPartition>() == 16);

/// A label with a correct checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disklabel {
    /// The partitions `a`, `b` and so on, including unused ones.
    pub(super) partitions: Vec<Entry>,
}

/// A partition, in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) start_sectors: u32,
    pub(super) len_sectors: u32,
    pub(super) fstype: u8,
}

impl Disklabel {
    /// Parses the label at the start of `bytes`; returns `None` if there is none.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (raw, entries) = RawDisklabel::ref_from_prefix(bytes).ok()?;
        let count = usize::from(raw.d_npartitions.get());
        let is_label = raw.d_magic.get() == MAGIC && raw.d_magic2.get() == MAGIC;
        if !is_label || count > MAX_PARTITIONS {
            return None;
        }
        let entries_bytes = count.checked_mul(size_of::<RawPartition>())?;
        let end = size_of::<RawDisklabel>().checked_add(entries_bytes)?;
        let checksum = bytes.get(..end)?.chunks_exact(2).fold(0, |sum, word| {
            sum ^ word
                .first_chunk()
                .map_or(0, |word| u16::from_le_bytes(*word))
        });
        if checksum != 0 {
            return None;
        }
        let entries = entries.get(..entries_bytes)?;
        let entries = entries.chunks_exact(size_of::<RawPartition>());
        let partitions = entries.filter_map(|entry| {
            let raw = RawPartition::ref_from_bytes(entry).ok()?;
            Some(Entry {
                start_sectors: raw.offset.get(),
                len_sectors: raw.size.get(),
                fstype: raw.fstype,
            })
        });
        Some(Self {
            partitions: partitions.collect(),
        })
    }
}

impl Entry {
    /// Returns true if the entry describes a partition.
    pub(super) fn is_used(&self) -> bool {
        self.len_sectors != 0 && self.fstype != 0
    }
}
