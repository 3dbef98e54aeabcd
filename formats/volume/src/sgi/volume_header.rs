//! `struct volume_header` (`sys/dvh.h` of IRIX).

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The on-disk structure of the sector.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawVolumeHeader {
    magic: U32,
    rootpt: U16,
    swappt: U16,
    bootfile: [u8; 16],
    dp: [u8; 48],
    vd: [u8; 240],
    pt: [RawPartition; 16],
    csum: U32,
    fill: U32,
}

/// The on-disk structure of an entry, `struct partition_table`.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPartition {
    nblks: U32,
    firstlbn: U32,
    type_number: U32,
}

const _: () = assert!(size_of::<RawVolumeHeader>() == 512);

const MAGIC: u32 = 0x0be5_a941;

/// A header with a correct checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeHeader {
    pub(super) partitions: [Entry; 16],
}

/// An entry; it is unused if it has no blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) start_blocks: u32,
    pub(super) len_blocks: u32,
    pub(super) type_number: u32,
}

impl VolumeHeader {
    /// Parses the header in a disk's first sector; returns `None` if there is none.
    pub(super) fn from_sector(sector: &[u8]) -> Option<Self> {
        let (raw, _) = RawVolumeHeader::ref_from_prefix(sector).ok()?;
        let words = sector.get(..512)?.chunks_exact(4);
        let checksum = words.fold(0_u32, |sum, word| {
            let word = word
                .first_chunk()
                .map_or(0, |word| u32::from_be_bytes(*word));
            sum.wrapping_add(word)
        });
        if raw.magic.get() != MAGIC || checksum != 0 {
            return None;
        }
        let partitions = raw.pt.each_ref().map(|partition| Entry {
            start_blocks: partition.firstlbn.get(),
            len_blocks: partition.nblks.get(),
            type_number: partition.type_number.get(),
        });
        Some(Self { partitions })
    }
}
