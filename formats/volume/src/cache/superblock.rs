//! The superblock of a cache, `cache_disk_superblock`: block 0 of its metadata.

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::persistent::Blocks;
use crate::persistent::superblock::{block_bytes, check_magic, check_version};

/// The magic number, `CACHE_SUPERBLOCK_MAGIC`, which the kernel spells in octal.
const MAGIC: u64 = 0o6_142_003;

/// The checksum's constant, `SUPERBLOCK_CSUM_XOR`.
const XOR: u32 = 9_031_977;

/// The flag for a clean shutdown, `CLEAN_SHUTDOWN`.
const CLEAN_SHUTDOWN: u32 = 1;

/// The step of block sizes, 32 KiB. Blocks have 32 KiB to 1 GiB.
const STEP_SECTORS: u32 = 64;
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
    policy_name: [u8; 16],
    policy_hint_size: U32,
    metadata_space_map_root: [u8; 128],
    mapping_root: U64,
    hint_root: U64,
    discard_root: U64,
    discard_block_size: U64,
    discard_nr_blocks: U64,
    data_block_size: U32,
    metadata_block_size: U32,
    cache_blocks: U32,
    compat_flags: U32,
    compat_ro_flags: U32,
    incompat_flags: U32,
    read_hits: U32,
    read_misses: U32,
    write_hits: U32,
    write_misses: U32,
    policy_version: [U32; 3],
    dirty_root: U64,
}

const _: () = assert!(size_of::<Raw>() == 292);

/// The superblock of a cache's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) mapping_root: u64,
    /// The root of the dirty bits; version 1 has them in the mappings.
    pub(super) dirty_root: Option<u64>,
    pub(super) block_bytes: NonZeroU64,
    pub(super) cache_blocks: u64,
    /// True if the dirty bits are valid.
    pub(super) is_clean_shutdown: bool,
}

impl Superblock {
    pub(super) fn read<D: BlockRead + ?Sized>(blocks: &Blocks<D>) -> Result<Self> {
        let bytes = blocks.superblock("superblock of a cache", XOR)?;
        let raw = Raw::ref_from_prefix(&bytes);
        let (raw, _) = raw.map_err(|_| Error::corrupt("has a cache with a missing superblock"))?;
        check_magic("cache", raw.magic.get(), MAGIC, raw.blocknr.get())?;
        let version = raw.version.get();
        check_version("cache", version, raw.incompat_flags.get())?;
        let (sectors, of_metadata) = (raw.data_block_size.get(), raw.metadata_block_size.get());
        let limits = (0..=MOST_SECTORS, STEP_SECTORS);
        let block_bytes = block_bytes("cache", sectors, limits, of_metadata)?;
        Ok(Self {
            mapping_root: raw.mapping_root.get(),
            dirty_root: (version == 2).then_some(raw.dirty_root.get()),
            block_bytes,
            cache_blocks: u64::from(raw.cache_blocks.get()),
            is_clean_shutdown: raw.flags.get() & CLEAN_SHUTDOWN != 0,
        })
    }
}
