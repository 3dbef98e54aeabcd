//! The opened filesystem as its own parts see it: device, superblock, caches.

use std::sync::Arc;

use diskfs_block::BlockRead;
use quick_cache::sync::Cache;

use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::{Result, device_failed};
use crate::inode::Inode;
use crate::journal::FastCommits;
use crate::journal::JournalView;
use crate::metadata_cache::{Key, MetadataCache, zeroed};
use crate::pool::BlockPool;
use crate::run::FileMaps;
use crate::superblock::Superblock;

/// What every part needs to read anything. No lock of its own: the caches are sharded, all else is
/// fixed once it is open.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) device: Arc<dyn BlockRead>,
    /// The device, if it is one where blocks are read out of the journal.
    pub(crate) journal_view: Option<Arc<JournalView>>,
    pub(crate) superblock: Superblock,
    pub(crate) metadata: MetadataCache,
    /// The blocks of metadata as they are now, when the filesystem is being written; it takes the
    /// place of `metadata` then.
    pub(crate) pool: Option<BlockPool>,
    pub(crate) maps: FileMaps,
    /// Changes that are not in the device's blocks.
    pub(crate) fast_commits: Option<FastCommits>,
    pub(crate) inodes: Cache<u32, Arc<Inode>>,
    /// By group.
    pub(crate) inode_tables: Cache<u32, FsBlock>,
}

impl Volume {
    /// A filesystem of which nothing is read yet.
    pub(crate) fn new(
        device: Arc<dyn BlockRead>,
        superblock: Superblock,
        cache_bytes: u64,
    ) -> Self {
        /// What a parsed inode takes, with its attributes and the cache's own.
        const INODE_BYTES: u64 = 512;
        /// How many groups' tables are known without their descriptors: of 128 GiB, as a rule.
        const INODE_TABLES: usize = 1024;
        // Three quarters for blocks, an eighth each for parsed inodes and for maps of files.
        let eighth = cache_bytes.wrapping_div(8);
        Self {
            device,
            journal_view: None,
            superblock,
            metadata: MetadataCache::new(cache_bytes.saturating_sub(eighth.saturating_mul(2))),
            maps: FileMaps::new(eighth),
            fast_commits: None,
            pool: None,
            inodes: Cache::new(index(eighth.wrapping_div(INODE_BYTES)).max(16)),
            inode_tables: Cache::new(INODE_TABLES),
        }
    }

    /// The same for a filesystem that will be written.
    pub(crate) fn writable(
        device: Arc<dyn BlockRead>,
        superblock: Superblock,
        cache_bytes: u64,
    ) -> Self {
        let pool = BlockPool::new(cache_bytes, superblock.block_size.bytes());
        Self {
            pool: Some(pool),
            ..Self::new(device, superblock, cache_bytes)
        }
    }

    /// Returns the blocks of metadata as they are now, in a filesystem that is being written.
    ///
    /// # Panics
    /// If the filesystem is open for reading only.
    pub(crate) fn writable_pool(&self) -> &BlockPool {
        match &self.pool {
            Some(pool) => pool,
            None => unreachable!("a volume that is written has a pool"),
        }
    }

    /// Takes notice of an inode that has changed: it is this now, or not in use. Who was reading it
    /// from the table meanwhile does not keep what it read.
    pub(crate) fn note_inode(&self, number: u32, inode: Option<Inode>) {
        match inode {
            Some(inode) => self.inodes.insert(number, Arc::new(inode)),
            None => drop(self.inodes.remove(&number)),
        }
    }

    /// One block of metadata that has nothing to be checked as a whole.
    pub(crate) fn block(&self, key: Key) -> Result<Arc<[u8]>> {
        self.checked_block(key, |_| Ok(()))
    }

    /// One block of metadata that `check` finds right. It is not called for a block that it found
    /// right before.
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
                pool.passed(key, &bytes);
            }
            return Ok(bytes);
        }
        self.metadata.get_or_read(key, || {
            let bytes = self.read_blocks(key.block, 1)?;
            checked(&bytes)?;
            Ok(bytes)
        })
    }

    /// Whether what `key` names is in memory.
    pub(crate) fn has_block(&self, key: Key) -> bool {
        match &self.pool {
            Some(pool) => pool.contains(key.block),
            None => self.metadata.contains(key),
        }
    }

    /// What the pool has, and whether it was found right as `key`.
    fn pooled(&self, pool: &BlockPool, key: Key) -> Result<(Arc<[u8]>, bool)> {
        loop {
            if let Some(found) = pool.get(key) {
                return Ok(found);
            }
            // Kept unless something was written meanwhile; then it is read anew.
            self.fill_pool(pool, key.block, 1)?;
        }
    }

    /// Has blocks of metadata in the pool as far as they are not, by one read.
    pub(crate) fn fill_pool(&self, pool: &BlockPool, first: FsBlock, len: u32) -> Result<()> {
        let epoch = pool.device_epoch();
        let bytes = self.read_device_blocks(first, len)?;
        if len == 1 {
            pool.keep(first, bytes, epoch);
            return Ok(());
        }
        let blocks = bytes.chunks(self.superblock.block_size.len());
        for (block, bytes) in (first.0..).zip(blocks) {
            pool.keep(FsBlock(block), Arc::from(bytes), epoch);
        }
        Ok(())
    }

    /// `len_blocks` blocks as they are now, past the cache.
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
        // Nobody else has it yet.
        if let Some(bytes) = Arc::get_mut(&mut bytes) {
            self.read_device(size.byte_of(first), bytes)?;
        }
        Ok(bytes)
    }

    /// Bytes from the device.
    pub(crate) fn read_device(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buf).map_err(device_failed)
    }

    /// Says that these blocks will be read soon.
    pub(crate) fn will_need_blocks(&self, first: FsBlock, len_blocks: u64) {
        let size = self.superblock.block_size;
        self.device
            .will_need(size.byte_of(first), size.bytes_of(len_blocks));
    }
}
