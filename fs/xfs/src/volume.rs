//! The parts of an opened filesystem that all modules read from: device, superblock, caches.

use std::sync::Arc;

use diskfs_block::BlockRead;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::bytes::{index, len_u64};
use crate::error::{Result, device_failed};
use crate::extent::Extent;
use crate::inode::{ForkKind, Inode};
use crate::metadata_cache::{self, MetadataCache};
use crate::superblock::Superblock;

/// The memory for all caches: the metadata of a system's tree of some 20,000 files.
const CACHE_BYTES: u64 = 16 << 20;

/// Everything that is needed for reading. It has no lock of its own: the caches are sharded, and
/// all other fields are constant while the filesystem is open.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) device: Arc<dyn BlockRead>,
    pub(crate) superblock: Superblock,
    pub(crate) metadata: MetadataCache,
    /// The extents of forks whose map is a tree; `None` if they are too many for a list.
    pub(crate) maps: Cache<(u64, ForkKind), Option<Arc<[Extent]>>, MapBytes>,
    pub(crate) inodes: Cache<u64, Arc<Inode>, InodeBytes>,
}

/// The weight of a list of extents: its memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MapBytes;

impl Weighter<(u64, ForkKind), Option<Arc<[Extent]>>> for MapBytes {
    fn weight(&self, _: &(u64, ForkKind), list: &Option<Arc<[Extent]>>) -> u64 {
        /// The memory for an entry besides its extents.
        const ENTRY_BYTES: u64 = 64;
        let extents = list.as_deref().unwrap_or_default();
        len_u64(size_of_val(extents)).saturating_add(ENTRY_BYTES)
    }
}

/// The weight of a parsed inode: its memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InodeBytes;

impl Weighter<u64, Arc<Inode>> for InodeBytes {
    fn weight(&self, _: &u64, inode: &Arc<Inode>) -> u64 {
        inode.memory_bytes()
    }
}

impl Volume {
    /// Returns a volume of which nothing has been read yet.
    pub(crate) fn new(device: Arc<dyn BlockRead>, superblock: Superblock) -> Self {
        /// The average memory of a parsed inode.
        const INODE_BYTES: u64 = 384;
        /// The average memory of a list of extents.
        const LIST_BYTES: u64 = 1024;
        // Five eighths for blocks, a quarter for parsed inodes, an eighth for lists of extents.
        let eighth = CACHE_BYTES.wrapping_div(8);
        let quarter = eighth.saturating_mul(2);
        let items = |budget: u64, item: u64| index(budget.checked_div(item).unwrap_or(0));
        Self {
            device,
            superblock,
            metadata: MetadataCache::new(eighth.saturating_mul(5), metadata_cache::TYPICAL_BYTES),
            maps: Cache::with_weighter(items(eighth, LIST_BYTES), eighth, MapBytes),
            inodes: Cache::with_weighter(items(quarter, INODE_BYTES), quarter, InodeBytes),
        }
    }

    /// Reads bytes from the device.
    pub(crate) fn read_device(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buf).map_err(device_failed)
    }

    /// Reads `len` bytes from the device. The caller bounds `len`.
    pub(crate) fn read_bytes(&self, offset: u64, len: usize) -> Result<Arc<[u8]>> {
        let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, len).collect();
        // No other thread has it yet.
        if let Some(bytes) = Arc::get_mut(&mut bytes) {
            self.read_device(offset, bytes)?;
        }
        Ok(bytes)
    }
}
