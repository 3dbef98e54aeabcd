//! The AGI: the inodes of an allocation group, `struct xfs_agi`.
//!
//! Source: "XFS Algorithms & Data Structures", section "AG Inode Management".

use diskfs_block::BlockRead;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::error::{Result, corrupt};
use crate::superblock::Superblock;

use super::{Header, check_place, read_header, sector_byte};

/// The number of lists of unlinked inodes, `XFS_AGI_UNLINKED_BUCKETS`.
const UNLINKED_BUCKETS: usize = 64;

/// The bytes of an AGI.
#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawAgi {
    agi_magicnum: U32,
    agi_versionnum: U32,
    agi_seqno: U32,
    agi_length: U32,
    agi_count: U32,
    agi_root: U32,
    agi_level: U32,
    agi_freecount: U32,
    agi_newino: U32,
    agi_dirino: U32,
    agi_unlinked: [U32; UNLINKED_BUCKETS],
    agi_uuid: [u8; 16],
    agi_crc: [u8; 4],
    agi_pad32: U32,
    agi_lsn: U64,
    agi_free_root: U32,
    agi_free_level: U32,
}

const _: () = assert!(size_of::<RawAgi>() == 336);

const HEADER: Header = Header {
    name: "AGI",
    sector: 2,
    magic: *b"XAGI",
    crc_offset: 312,
    uuid_offset: 296,
};

/// A valid AGI.
#[derive(Debug, Clone)]
pub(crate) struct Agi {
    /// The number of allocated inodes.
    pub(crate) count: u32,
    /// The number of allocated inodes that are free.
    pub(crate) free_count: u32,
    /// The root block of the tree of inode chunks (inobt), and its levels.
    pub(crate) tree: (u32, u32),
}

impl Agi {
    /// Reads and checks the AGI of allocation group `ag`.
    ///
    /// # Errors
    /// `Corrupt`; `Io`.
    pub(crate) fn read(device: &dyn BlockRead, superblock: &Superblock, ag: u32) -> Result<Self> {
        let at = sector_byte(superblock, ag, HEADER.sector);
        let bytes = read_header(device, superblock, ag, &HEADER)?;
        let (raw, _) = RawAgi::read_from_prefix(&bytes)
            .map_err(|_| corrupt("invalid AGI: the sector is too short", at))?;
        check_place(
            superblock,
            ag,
            (raw.agi_seqno.get(), raw.agi_length.get()),
            at,
        )?;
        Ok(Self {
            count: raw.agi_count.get(),
            free_count: raw.agi_freecount.get(),
            tree: (raw.agi_root.get(), raw.agi_level.get()),
        })
    }
}
