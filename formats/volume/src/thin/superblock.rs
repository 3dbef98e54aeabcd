//! The superblock of a thin pool, `thin_disk_superblock`: block 0 of its metadata.

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::persistent::Blocks;
use crate::persistent::superblock::{block_bytes, check_magic, check_version};

/// The magic number, `THIN_SUPERBLOCK_MAGIC`.
const MAGIC: u64 = 27_022_010;

/// The checksum's constant, `SUPERBLOCK_CSUM_XOR`.
const XOR: u32 = 160_774;

/// The flag `THIN_METADATA_NEEDS_CHECK_FLAG`.
const NEEDS_CHECK: u32 = 1;

/// The smallest data block in sectors, 64 KiB (`DATA_DEV_BLOCK_SIZE_MIN_SECTORS`). The largest has
/// 1 GiB.
const LEAST_SECTORS: u32 = 128;
const MOST_SECTORS: u32 = 2 << 20;

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    csum: U32,
    flags: U32,
    blocknr: U64,
    uuid: [u8; 16],
    magic: U64,
    version: U32,
    time: U32,
    trans_id: U64,
    held_root: U64,
    data_space_map_root: [u8; 128],
    metadata_space_map_root: [u8; 128],
    data_mapping_root: U64,
    device_details_root: U64,
    data_block_size: U32,
    metadata_block_size: U32,
    metadata_nr_blocks: U64,
    compat_flags: U32,
    compat_ro_flags: U32,
    incompat_flags: U32,
}

const _: () = assert!(size_of::<Raw>() == 364);

/// The superblock of a pool's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// The root of the tree of the volumes' mapping trees, by their device ids.
    pub(super) data_mapping_root: u64,
    /// The root of the tree of the volumes' details.
    pub(super) device_details_root: u64,
    pub(super) block_bytes: NonZeroU64,
    /// True if the kernel found the metadata broken, and refuses to write before `thin_check` ran.
    pub(crate) needs_check: bool,
}

impl Superblock {
    pub(crate) fn read<D: BlockRead + ?Sized>(blocks: &Blocks<D>) -> Result<Self> {
        let bytes = blocks.superblock("superblock of a thin pool", XOR)?;
        let raw = Raw::ref_from_prefix(&bytes);
        let (raw, _) =
            raw.map_err(|_| Error::corrupt("has a thin pool with a missing superblock"))?;
        check_magic("pool", raw.magic.get(), MAGIC, raw.blocknr.get())?;
        check_version("pool", raw.version.get(), raw.incompat_flags.get())?;
        let (sectors, of_metadata) = (raw.data_block_size.get(), raw.metadata_block_size.get());
        let limits = (LEAST_SECTORS..=MOST_SECTORS, 1);
        let block_bytes = block_bytes("pool", sectors, limits, of_metadata)?;
        Ok(Self {
            data_mapping_root: raw.data_mapping_root.get(),
            device_details_root: raw.device_details_root.get(),
            block_bytes,
            needs_check: raw.flags.get() & NEEDS_CHECK != 0,
        })
    }
}
