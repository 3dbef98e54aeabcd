//! The pool of metadata blocks of a filesystem that is opened for writing: their current contents,
//! whether or not those are on the device yet.
//!
//! A block of metadata stays in the pool from its first change by a transaction until its newest
//! content is at its final place on the device ("home"). Other blocks are cached within a budget.
//! Contents are shared and never changed while somebody reads them: a change makes a copy if a
//! reader, or a commit that writes to the journal, still holds the old content.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::block::FsBlock;
use crate::bytes::index;
use crate::hashing::HashMap;
use crate::metadata_cache::Key;

/// A transaction's number within this process: 1, 2, 3 and so on, without end. The journal's own
/// sequence numbers have 32 bits and wrap around.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TransactionId(pub(crate) u64);

/// A block that a transaction changed, with its content at the end of the transaction.
#[derive(Debug, Clone)]
pub(crate) struct ChangedBlock {
    pub(crate) block: FsBlock,
    pub(crate) bytes: Arc<[u8]>,
    /// True if it is a block of a directory.
    pub(crate) has_names: bool,
}

/// The number of shards: enough that threads seldom meet, few enough that each has some blocks.
const SHARDS: usize = 64;

/// The pool of blocks. See the [module](self).
#[derive(Debug)]
pub(crate) struct BlockPool {
    shards: Box<[Mutex<Shard>]>,
    /// The number of blocks per shard that are cached although they need not be kept.
    spare_blocks: usize,
    /// The last transaction whose changed blocks are all at their final places.
    checkpointed: AtomicU64,
    /// The number of dropped blocks that had ever been changed. If this increases during a read of
    /// the device, the read may have returned bytes that have been overwritten since.
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    blocks: HashMap<FsBlock, Buffer>,
    /// The blocks in the order in which they are considered for dropping (a clock's hand goes along
    /// it). It may contain blocks that are no longer in the pool.
    hand: VecDeque<FsBlock>,
}

#[derive(Debug)]
struct Buffer {
    bytes: Arc<[u8]>,
    /// The key under which the content was checked.
    checked: Option<Key>,
    /// The last transaction that changed it; 0 if there is none.
    changed_by: TransactionId,
    /// True if it was used since the hand passed it.
    recent: bool,
}

/// A point in time, taken before a read of the device and passed to [`BlockPool::cache`] with the
/// bytes that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceEpoch(u64);

impl BlockPool {
    /// Returns an empty pool that caches about `budget_bytes` besides what must be kept.
    pub(crate) fn new(budget_bytes: u64, block_bytes: u32) -> Self {
        let blocks = budget_bytes
            .checked_div(u64::from(block_bytes))
            .unwrap_or(0);
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            spare_blocks: index(blocks).checked_div(SHARDS).unwrap_or(0).max(4),
            checkpointed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn shard(&self, block: FsBlock) -> MutexGuard<'_, Shard> {
        // Adjacent blocks go to different shards.
        let nth = index(block.0).checked_rem(SHARDS).unwrap_or(0);
        let shard = self.shards.get(nth).or(self.shards.first());
        // There are SHARDS of them; the shards are consistent between any two statements.
        match shard {
            Some(shard) => shard.lock().unwrap_or_else(PoisonError::into_inner),
            None => unreachable!("a pool has shards"),
        }
    }

    /// Returns the current point in time, for [`cache`](Self::cache).
    pub(crate) fn device_epoch(&self) -> DeviceEpoch {
        DeviceEpoch(self.dropped.load(Ordering::SeqCst))
    }

    /// Returns the block's content, and whether it was checked under `key`.
    pub(crate) fn get(&self, key: Key) -> Option<(Arc<[u8]>, bool)> {
        let mut shard = self.shard(key.block);
        let buffer = shard.blocks.get_mut(&key.block)?;
        buffer.recent = true;
        Some((Arc::clone(&buffer.bytes), buffer.checked == Some(key)))
    }

    /// Returns the block's content, without checking what it is.
    pub(crate) fn content(&self, block: FsBlock) -> Option<Arc<[u8]>> {
        let shard = self.shard(block);
        shard
            .blocks
            .get(&block)
            .map(|buffer| Arc::clone(&buffer.bytes))
    }

    /// Returns the block's content, and whether it is a block of a directory.
    pub(crate) fn changed_block(&self, block: FsBlock) -> Option<ChangedBlock> {
        let shard = self.shard(block);
        let buffer = shard.blocks.get(&block)?;
        Some(ChangedBlock {
            block,
            bytes: Arc::clone(&buffer.bytes),
            has_names: buffer.checked.is_some_and(Key::is_directory_block),
        })
    }

    /// Returns true if the block is in the pool.
    pub(crate) fn contains(&self, block: FsBlock) -> bool {
        self.shard(block).blocks.contains_key(&block)
    }

    /// Notes that `bytes`, which came from [`get`](Self::get), were checked under `key`.
    pub(crate) fn note_checked(&self, key: Key, bytes: &Arc<[u8]>) {
        let mut shard = self.shard(key.block);
        if let Some(buffer) = shard.blocks.get_mut(&key.block)
            && Arc::ptr_eq(&buffer.bytes, bytes)
        {
            buffer.checked = Some(key);
        }
    }

    /// Caches a block that was read from the device since `epoch`, unless the block is already in
    /// the pool or the read may be out of date. The caller calls [`get`](Self::get) again
    /// afterwards.
    pub(crate) fn cache(&self, block: FsBlock, bytes: Arc<[u8]>, epoch: DeviceEpoch) {
        let mut shard = self.shard(block);
        if self.device_epoch() != epoch || shard.blocks.contains_key(&block) {
            return;
        }
        self.insert(
            &mut shard,
            block,
            Buffer {
                bytes,
                checked: None,
                changed_by: TransactionId(0),
                recent: true,
            },
        );
    }

    /// Changes a block of the pool within a transaction. Returns `None` if the block is not in the
    /// pool; otherwise the result of `change`, and whether this is the transaction's first change
    /// of it.
    pub(crate) fn change<R>(
        &self,
        key: Key,
        transaction: TransactionId,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<(R, bool)> {
        let mut shard = self.shard(key.block);
        let buffer = shard.blocks.get_mut(&key.block)?;
        let first = buffer.changed_by != transaction;
        buffer.changed_by = transaction;
        buffer.recent = true;
        let result = change(Arc::make_mut(&mut buffer.bytes));
        buffer.checked = Some(key);
        Some((result, first))
    }

    /// Replaces a block's content within a transaction, whatever it was. Returns true if this is
    /// the transaction's first change of it.
    pub(crate) fn replace(&self, key: Key, transaction: TransactionId, bytes: Arc<[u8]>) -> bool {
        let mut shard = self.shard(key.block);
        let first = shard
            .blocks
            .get(&key.block)
            .is_none_or(|buffer| buffer.changed_by != transaction);
        let buffer = Buffer {
            bytes,
            checked: Some(key),
            changed_by: transaction,
            recent: true,
        };
        match shard.blocks.get_mut(&key.block) {
            Some(old) => *old = buffer,
            None => self.insert(&mut shard, key.block, buffer),
        }
        first
    }

    /// Drops a block that no longer contains metadata.
    pub(crate) fn forget(&self, block: FsBlock) {
        let mut shard = self.shard(block);
        if let Some(buffer) = shard.blocks.remove(&block) {
            self.note_dropped(&buffer);
        }
    }

    /// Notes that all blocks changed by transactions up to this one are at their final places.
    pub(crate) fn note_checkpointed(&self, transaction: TransactionId) {
        self.checkpointed.fetch_max(transaction.0, Ordering::SeqCst);
    }

    /// Copies the pool's blocks over `bytes`, which are blocks read from the device, from `first`
    /// on.
    pub(crate) fn patch(&self, first: FsBlock, block_bytes: usize, bytes: &mut [u8]) {
        for (block, place) in (first.0..).zip(bytes.chunks_mut(block_bytes)) {
            if let Some(content) = self.content(FsBlock(block))
                && let Some(content) = content.get(..place.len())
            {
                place.copy_from_slice(content);
            }
        }
    }

    fn note_dropped(&self, buffer: &Buffer) {
        if buffer.changed_by != TransactionId(0) {
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn insert(&self, shard: &mut Shard, block: FsBlock, buffer: Buffer) {
        self.make_room(shard);
        shard.blocks.insert(block, buffer);
        shard.hand.push_back(block);
    }

    /// Drops blocks that were not used recently and are at their final places, if there are too
    /// many. Blocks that are not there yet stay, whatever their number: the journal bounds it.
    fn make_room(&self, shard: &mut Shard) {
        let checkpointed = self.checkpointed.load(Ordering::SeqCst);
        let mut steps = 0;
        // A few steps for each new block: the hand must not go round completely when all blocks are
        // in use.
        while shard.blocks.len() >= self.spare_blocks && steps < 8 {
            steps = u32::saturating_add(steps, 1);
            let Some(block) = shard.hand.pop_front() else {
                return;
            };
            let Some(buffer) = shard.blocks.get_mut(&block) else {
                continue;
            };
            if buffer.changed_by.0 > checkpointed || std::mem::take(&mut buffer.recent) {
                shard.hand.push_back(block);
            } else if let Some(buffer) = shard.blocks.remove(&block) {
                self.note_dropped(&buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> BlockPool {
        BlockPool::new(0, 1024)
    }

    fn key(block: u64) -> Key {
        Key::extent_block(12, FsBlock(block))
    }

    fn bytes(value: u8) -> Arc<[u8]> {
        Arc::from([value; 4].as_slice())
    }

    #[test]
    fn a_reader_keeps_what_it_has() {
        let pool = pool();
        pool.cache(FsBlock(7), bytes(1), pool.device_epoch());
        let (before, checked) = pool.get(key(7)).unwrap();
        assert!(!checked);
        let ((), first) = pool
            .change(key(7), TransactionId(1), |b| b.fill(2))
            .unwrap();
        assert!(first);
        let ((), first) = pool.change(key(7), TransactionId(1), |b| b[0] = 3).unwrap();
        assert!(!first);
        assert_eq!(&*before, [1; 4]);
        let (after, checked) = pool.get(key(7)).unwrap();
        assert_eq!((&*after, checked), (&[3, 2, 2, 2][..], true));
    }

    #[test]
    fn what_is_not_checkpointed_is_kept() {
        let pool = pool();
        pool.replace(key(0), TransactionId(1), bytes(9));
        let shards = u64::try_from(SHARDS).unwrap();
        for n in 1..100 {
            pool.cache(FsBlock(n * shards), bytes(0), pool.device_epoch());
        }
        assert!(pool.contains(FsBlock(0)));
        pool.note_checkpointed(TransactionId(1));
        let epoch = pool.device_epoch();
        for n in 100..200 {
            pool.cache(FsBlock(n * shards), bytes(0), pool.device_epoch());
        }
        assert!(!pool.contains(FsBlock(0)));
        assert_ne!(pool.device_epoch(), epoch);
        // Bytes that were read before the block was dropped may be old.
        pool.cache(FsBlock(0), bytes(1), epoch);
        assert!(!pool.contains(FsBlock(0)));
    }

    #[test]
    fn the_pool_is_newer_than_the_device() {
        let pool = pool();
        pool.replace(key(11), TransactionId(1), bytes(5));
        let mut read = [0; 12];
        pool.patch(FsBlock(10), 4, &mut read);
        assert_eq!(read, [0, 0, 0, 0, 5, 5, 5, 5, 0, 0, 0, 0]);
    }
}
