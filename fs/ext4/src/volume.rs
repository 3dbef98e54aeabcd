//! The parts of an opened filesystem that all modules read from: device, superblock, caches.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use diskfs_block::BlockRead;
use quick_cache::sync::Cache;

use crate::ambient::Ambient;
use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::{Result, device_failed};
use crate::inode::Inode;
use crate::journal::FastCommits;
use crate::journal::JournalView;
use crate::metadata_cache::{self, Key, MetadataCache, zeroed};
use crate::pool::BlockPool;
use crate::run::FileMaps;
use crate::superblock::Superblock;

/// Everything that is needed for reading. It has no lock of its own: the caches are sharded, and
/// all other fields are constant while the filesystem is open.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) device: Arc<dyn BlockRead>,
    /// The device, if some blocks are read from the journal.
    pub(crate) journal_view: Option<Arc<JournalView>>,
    pub(crate) superblock: Superblock,
    pub(crate) ambient: Ambient,
    pub(crate) metadata: MetadataCache,
    /// The pool of metadata blocks, if the filesystem is opened for writing; it is used instead of
    /// `metadata`.
    pub(crate) pool: Option<BlockPool>,
    pub(crate) maps: FileMaps,
    /// Changes by fast commits, which are not in the device's blocks.
    pub(crate) fast_commits: Option<FastCommits>,
    pub(crate) inodes: Cache<u32, Arc<Inode>>,
    /// The first block of each group's inode table.
    pub(crate) inode_tables: Cache<u32, FsBlock>,
    /// The number of single blocks of inode tables that were read.
    pub(crate) single_table_reads: AtomicU32,
}

impl Volume {
    /// Returns a volume of which nothing has been read yet.
    pub(crate) fn new(
        device: Arc<dyn BlockRead>,
        superblock: Superblock,
        cache_bytes: u64,
    ) -> Self {
        /// The memory for a parsed inode, including its attributes and the cache's overhead.
        const INODE_BYTES: u64 = 512;
        /// The number of groups whose inode tables are cached: usually those of 128 GiB.
        const INODE_TABLES: usize = 1024;
        // Three quarters for blocks, an eighth each for parsed inodes and for lists of runs.
        let eighth = cache_bytes.wrapping_div(8);
        Self {
            device,
            journal_view: None,
            superblock,
            ambient: Ambient::default(),
            metadata: MetadataCache::new(
                cache_bytes.saturating_sub(eighth.saturating_mul(2)),
                metadata_cache::TYPICAL_BYTES,
            ),
            maps: FileMaps::new(eighth),
            fast_commits: None,
            pool: None,
            inodes: Cache::new(index(eighth.wrapping_div(INODE_BYTES)).max(16)),
            inode_tables: Cache::new(INODE_TABLES),
            single_table_reads: AtomicU32::new(0),
        }
    }

    /// Returns a volume for a filesystem that will be written.
    pub(crate) fn writable(
        device: Arc<dyn BlockRead>,
        superblock: Superblock,
        cache_bytes: u64,
        ambient: Ambient,
    ) -> Self {
        let pool = BlockPool::new(cache_bytes, superblock.block_size.bytes());
        Self {
            pool: Some(pool),
            ambient,
            ..Self::new(device, superblock, cache_bytes)
        }
    }

    /// Returns the pool of metadata blocks of a filesystem that is opened for writing.
    ///
    /// # Panics
    /// Panics if the filesystem is open read-only.
    pub(crate) fn writable_pool(&self) -> &BlockPool {
        match &self.pool {
            Some(pool) => pool,
            None => unreachable!("a volume that is written has a pool"),
        }
    }

    /// Updates the cache after a change of an inode; `None` means that it is not in use. A thread
    /// that is reading the inode from the table meanwhile does not cache its result.
    pub(crate) fn note_inode(&self, number: u32, inode: Option<Inode>) {
        match inode {
            Some(inode) => self.inodes.insert(number, Arc::new(inode)),
            None => drop(self.inodes.remove(&number)),
        }
    }

    /// Returns a block of metadata that has nothing to be checked as a whole.
    pub(crate) fn block(&self, key: Key) -> Result<Arc<[u8]>> {
        self.checked_block(key, |_| Ok(()))
    }

    /// Returns a block of metadata that `check` accepts. `check` is not called for a block that it
    /// accepted before.
    pub(crate) fn checked_block(
        &self,
        key: Key,
        check: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Arc<[u8]>> {
        let checked = |bytes: &[u8]| {
            check(bytes).map_err(|e| e.at(self.superblock.block_size.byte_of(key.block)))
        };
        if let Some(pool) = &self.pool {
            let (bytes, passed) = self.pooled(pool, key)?;
            if !passed {
                checked(&bytes)?;
                pool.note_checked(key, &bytes);
            }
            return Ok(bytes);
        }
        self.metadata.get_or_make(&key, || -> Result<Arc<[u8]>> {
            let bytes = self.read_blocks(key.block, 1)?;
            checked(&bytes)?;
            Ok(bytes)
        })
    }

    /// Returns true if the block of `key` is in memory.
    pub(crate) fn has_block(&self, key: Key) -> bool {
        match &self.pool {
            Some(pool) => pool.contains(key.block),
            None => self.metadata.contains(&key),
        }
    }

    /// Returns the pool's block, and whether it was checked under `key`.
    fn pooled(&self, pool: &BlockPool, key: Key) -> Result<(Arc<[u8]>, bool)> {
        loop {
            if let Some(found) = pool.get(key) {
                return Ok(found);
            }
            // The block is cached unless something was written meanwhile; then it is read again.
            self.fill_pool(pool, key.block, 1)?;
        }
    }

    /// Reads the blocks that are not in the pool into it, with one read.
    pub(crate) fn fill_pool(&self, pool: &BlockPool, first: FsBlock, len: u32) -> Result<()> {
        let epoch = pool.device_epoch();
        let bytes = self.read_device_blocks(first, len)?;
        if len == 1 {
            pool.cache(first, bytes, epoch);
            return Ok(());
        }
        let blocks = bytes.chunks(self.superblock.block_size.len());
        for (block, bytes) in (first.0..).zip(blocks) {
            pool.cache(FsBlock(block), Arc::from(bytes), epoch);
        }
        Ok(())
    }

    /// Returns the current contents of `len_blocks` blocks, bypassing the cache.
    pub(crate) fn read_blocks(&self, first: FsBlock, len_blocks: u32) -> Result<Arc<[u8]>> {
        let Some(pool) = &self.pool else {
            return self.read_device_blocks(first, len_blocks);
        };
        loop {
            let epoch = pool.device_epoch();
            let mut bytes = self.read_device_blocks(first, len_blocks)?;
            let len = self.superblock.block_size.len();
            pool.patch(first, len, Arc::make_mut(&mut bytes));
            if pool.device_epoch() == epoch {
                return Ok(bytes);
            }
        }
    }

    fn read_device_blocks(&self, first: FsBlock, len_blocks: u32) -> Result<Arc<[u8]>> {
        let size = self.superblock.block_size;
        let mut bytes = zeroed(size.len().saturating_mul(index(len_blocks)));
        // No other thread has it yet.
        if let Some(bytes) = Arc::get_mut(&mut bytes) {
            self.read_device(size.byte_of(first), bytes)?;
        }
        Ok(bytes)
    }

    /// Reads bytes from the device.
    pub(crate) fn read_device(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buf).map_err(device_failed)
    }

    /// Announces that these blocks will be read soon.
    pub(crate) fn will_need_blocks(&self, first: FsBlock, len_blocks: u64) {
        let size = self.superblock.block_size;
        self.device
            .will_need(size.byte_of(first), size.bytes_of(len_blocks));
    }
}
