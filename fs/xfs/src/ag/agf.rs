//! The AGF: the free space of an allocation group, `struct xfs_agf`.
//!
//! Source: "XFS Algorithms & Data Structures", section "AG Free Space Block".

use diskfs_block::BlockRead;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Result, corrupt};
use crate::superblock::Superblock;

use super::{Header, check_place, read_header, sector_byte};

/// The bytes of an AGF.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawAgf {
    agf_magicnum: U32,
    agf_versionnum: U32,
    agf_seqno: U32,
    agf_length: U32,
    /// The roots of the trees of free space by block, free space by size, and of reverse mappings.
    agf_roots: [U32; 3],
    agf_levels: [U32; 3],
    agf_flfirst: U32,
    agf_fllast: U32,
    agf_flcount: U32,
    agf_freeblks: U32,
    agf_longest: U32,
    agf_btreeblks: U32,
    agf_uuid: [u8; 16],
    agf_rmap_blocks: U32,
    agf_refcount_blocks: U32,
    agf_refcount_root: U32,
    agf_refcount_level: U32,
    agf_spare64: [u8; 112],
    agf_lsn: U64,
    agf_crc: [u8; 4],
    agf_spare2: U32,
}

const _: () = assert!(size_of::<RawAgf>() == 224);

const HEADER: Header = Header {
    name: "AGF",
    sector: 1,
    magic: *b"XAGF",
    crc_offset: 216,
    uuid_offset: 64,
};

/// A valid AGF.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agf {
    /// The root block of the tree of free space by block number (bnobt), and its levels.
    pub(crate) by_block: (u32, u32),
    /// The number of blocks in the list of free blocks (AGFL).
    pub(crate) list_count: u32,
    /// The number of blocks in the tree of free space.
    pub(crate) free_blocks: u32,
    /// The number of blocks of the trees, without their roots.
    pub(crate) tree_blocks: u32,
    /// The number of blocks of the tree of reverse mappings.
    pub(crate) rmap_blocks: u32,
}

impl Agf {
    /// Reads and checks the AGF of allocation group `ag`.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(crate) fn read(device: &dyn BlockRead, superblock: &Superblock, ag: u32) -> Result<Self> {
        let at = sector_byte(superblock, ag, HEADER.sector);
        let bytes = read_header(device, superblock, ag, &HEADER)?;
        let (raw, _) = RawAgf::read_from_prefix(&bytes)
            .map_err(|_| corrupt("invalid AGF: the sector is too short", at))?;
        check_place(
            superblock,
            ag,
            (raw.agf_seqno.get(), raw.agf_length.get()),
            at,
        )?;
        let [by_block, ..] = raw.agf_roots;
        let [by_block_levels, ..] = raw.agf_levels;
        Ok(Self {
            by_block: (by_block.get(), by_block_levels.get()),
            list_count: raw.agf_flcount.get(),
            free_blocks: raw.agf_freeblks.get(),
            tree_blocks: raw.agf_btreeblks.get(),
            rmap_blocks: raw.agf_rmap_blocks.get(),
        })
    }
}
