//! `thin_disk_superblock`: block 0 of a pool's metadata.

use std::num::NonZeroU64;

use diskfs_block::{BlockRead, Error, Result};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::persistent::{BLOCK_BYTES, Blocks};

/// `THIN_SUPERBLOCK_MAGIC`.
const MAGIC: u64 = 27_022_010;

/// `SUPERBLOCK_CSUM_XOR`.
const XOR: u32 = 160_774;

/// `THIN_METADATA_NEEDS_CHECK_FLAG`.
const NEEDS_CHECK: u32 = 1;

/// Blocks of data are of 64 KiB to 1 GiB, and so many sectors at least
/// (`DATA_DEV_BLOCK_SIZE_MIN_SECTORS`).
const LEAST_SECTORS: u32 = 128;
const MOST_SECTORS: u32 = 2 << 20;

const SECTOR_BYTES: u64 = 512;

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

/// What a pool's metadata begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// The tree of the volumes' trees, by their device numbers.
    pub(super) data_mapping_root: u64,
    /// The tree of what is known of each volume.
    pub(super) device_details_root: u64,
    pub(super) block_bytes: NonZeroU64,
    /// The kernel found it broken, and writes nothing before `thin_check` has seen it.
    pub(crate) needs_check: bool,
}

impl Superblock {
    pub(crate) fn read<D: BlockRead + ?Sized>(blocks: &Blocks<D>) -> Result<Self> {
        let bytes = blocks.superblock("superblock of a thin pool", XOR)?;
        let raw = Raw::ref_from_prefix(&bytes);
        let (raw, _) = raw.map_err(|_| Error::corrupt("has a pool without a superblock"))?;
        if raw.magic.get() != MAGIC || raw.blocknr.get() != 0 {
            return Err(Error::corrupt("has a pool whose metadata is none"));
        }
        let (version, incompatible) = (raw.version.get(), raw.incompat_flags.get());
        if !matches!(version, 1 | 2) || incompatible != 0 {
            return Err(Error::unsupported(format!(
                "has a pool whose metadata is of version {version} with features \
                 {incompatible:#x}, which is not read"
            )));
        }
        let (sectors, of_metadata) = (raw.data_block_size.get(), raw.metadata_block_size.get());
        let metadata_bytes = u64::from(of_metadata).checked_mul(SECTOR_BYTES);
        let block_bytes = u64::from(sectors).checked_mul(SECTOR_BYTES);
        let block_bytes = block_bytes
            .and_then(NonZeroU64::new)
            .filter(|_| (LEAST_SECTORS..=MOST_SECTORS).contains(&sectors))
            .filter(|_| metadata_bytes == u64::try_from(BLOCK_BYTES).ok())
            .ok_or_else(|| {
                let reason = format!(
                    "has a pool with blocks of {sectors} sectors, of {of_metadata} for metadata"
                );
                Error::corrupt(reason)
            })?;
        Ok(Self {
            data_mapping_root: raw.data_mapping_root.get(),
            device_details_root: raw.device_details_root.get(),
            block_bytes,
            needs_check: raw.flags.get() & NEEDS_CHECK != 0,
        })
    }
}
