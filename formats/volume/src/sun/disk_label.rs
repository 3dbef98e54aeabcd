//! `struct dk_label` (`sys/dklabel.h` of Solaris), with its table of contents, the VTOC.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The on-disk structure of the sector.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDiskLabel {
    dkl_asciilabel: [u8; 128],
    v_version: U32,
    v_volume: [u8; 8],
    v_nparts: U16,
    v_part: [RawTag; 8],
    padding: [u8; 2],
    v_bootinfo: [u8; 12],
    v_sanity: U32,
    v_reserved: [u8; 40],
    v_timestamp: [u8; 32],
    reinstruct_and_padding: [u8; 156],
    rpm_and_cylinders: [u8; 16],
    dkl_nhead: U16,
    dkl_nsect: U16,
    interleave_and_skew: [u8; 4],
    dkl_map: [RawMap; 8],
    dkl_magic: U16,
    dkl_cksum: U16,
}

/// The on-disk structure with the type of a partition.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTag {
    p_tag: U16,
    p_flag: U16,
}

/// The on-disk structure with the location of a partition.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMap {
    dkl_cylno: U32,
    dkl_nblk: U32,
}

const _: () = assert!(size_of::<RawDiskLabel>() == 512);

const MAGIC: u16 = 0xdabe;
const SANITY: u32 = 0x600d_deee;

/// A label with a correct checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskLabel {
    pub(super) cylinder_sectors: u32,
    pub(super) partitions: [Entry; 8],
}

/// An entry; it is unused if it has no sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) start_cylinder: u32,
    pub(super) len_sectors: u32,
    pub(super) tag: u16,
}

impl DiskLabel {
    /// Parses the label in a disk's first sector; returns `None` if there is none.
    pub(super) fn from_sector(sector: &[u8]) -> Option<Self> {
        let (raw, _) = RawDiskLabel::ref_from_prefix(sector).ok()?;
        let words = sector.get(..512)?.chunks_exact(2);
        let checksum = words.fold(0, |sum, word| {
            sum ^ word
                .first_chunk()
                .map_or(0, |word| u16::from_be_bytes(*word))
        });
        if raw.dkl_magic.get() != MAGIC || checksum != 0 {
            return None;
        }
        let has_tags =
            raw.v_sanity.get() == SANITY && raw.v_version.get() == 1 && raw.v_nparts.get() <= 8;
        let mut tags = raw.v_part.iter().map(|tag| tag.p_tag.get());
        let mut index = 0_u32;
        let partitions = raw.dkl_map.each_ref().map(|map| {
            let tag = tags.next().unwrap_or(0);
            index = index.saturating_add(1);
            Entry {
                start_cylinder: map.dkl_cylno.get(),
                len_sectors: map.dkl_nblk.get(),
                tag: match index {
                    _ if has_tags => tag,
                    3 => super::types::WHOLE_DISK, // by convention, before there were tags
                    _ => 0,
                },
            }
        });
        let heads = u32::from(raw.dkl_nhead.get());
        Some(Self {
            cylinder_sectors: heads.saturating_mul(raw.dkl_nsect.get().into()),
            partitions,
        })
    }
}
