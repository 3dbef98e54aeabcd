//! Blocks of metadata of a filesystem that is being written: what they are now, whether or not
//! that is on the device yet.
//!
//! Every block of metadata is in here while a transaction has changed it and its newest content is
//! not at its place on the device ("home"). Others are kept within a budget. Contents are shared,
//! never changed under a reader's hands: a change makes a copy when somebody still holds the old
//! content, be it a reader or a commit that is writing it to the journal.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::block::FsBlock;
use crate::bytes::index;
use crate::hashing::HashMap;
use crate::metadata_cache::Key;

/// A transaction's number within this process: 1, 2, 3 and so on, without an end. The journal's
/// own numbers have 32 bits and wrap around.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TransactionId(pub(crate) u64);

/// A block that a transaction changed, as it left it.
#[derive(Debug, Clone)]
pub(crate) struct ChangedBlock {
    pub(crate) block: FsBlock,
    pub(crate) bytes: Arc<[u8]>,
    /// It is a block of a directory.
    pub(crate) has_names: bool,
}

/// Shards: enough that threads seldom meet, few enough that each has some blocks.
const SHARDS: usize = 64;

/// The blocks. See the [module](self).
#[derive(Debug)]
pub(crate) struct BlockPool {
    shards: Box<[Mutex<Shard>]>,
    /// How many blocks a shard keeps that need not be kept.
    spare_blocks: usize,
    /// What transactions up to this one changed is home.
    home: AtomicU64,
    /// How many blocks that had ever been changed were let go. Whoever reads the device while this
    /// rises may have read what has been overwritten since.
    let_go: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    blocks: HashMap<FsBlock, Buffer>,
    /// The blocks in the order in which they are considered for being let go (a clock's hand goes
    /// along it). May name blocks that are gone.
    hand: VecDeque<FsBlock>,
}

#[derive(Debug)]
struct Buffer {
    bytes: Arc<[u8]>,
    /// As what the content was found right.
    checked: Option<Key>,
    /// The last transaction that changed it; 0 for none.
    changed_by: TransactionId,
    /// Used since the hand came by.
    recent: bool,
}

/// What the pool says of the device's state at one moment: to be shown when something that was
/// read from the device then is put in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceEpoch(u64);

impl BlockPool {
    /// An empty one that keeps about `budget_bytes` besides what must be kept.
    pub(crate) fn new(budget_bytes: u64, block_bytes: u32) -> Self {
        let blocks = budget_bytes
            .checked_div(u64::from(block_bytes))
            .unwrap_or(0);
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            spare_blocks: index(blocks).checked_div(SHARDS).unwrap_or(0).max(4),
            home: AtomicU64::new(0),
            let_go: AtomicU64::new(0),
        }
    }

    fn shard(&self, block: FsBlock) -> MutexGuard<'_, Shard> {
        // Neighbours go to different shards.
        let nth = index(block.0).checked_rem(SHARDS).unwrap_or(0);
        let shard = self.shards.get(nth).or(self.shards.first());
        // There are SHARDS of them; the shards hold whole contents between any two statements.
        match shard {
            Some(shard) => shard.lock().unwrap_or_else(PoisonError::into_inner),
            None => unreachable!("a pool has shards"),
        }
    }

    /// Now, for [`keep`](Self::keep).
    pub(crate) fn device_epoch(&self) -> DeviceEpoch {
        DeviceEpoch(self.let_go.load(Ordering::SeqCst))
    }

    /// The block's content, and whether it was found right as `key`.
    pub(crate) fn get(&self, key: Key) -> Option<(Arc<[u8]>, bool)> {
        let mut shard = self.shard(key.block);
        let buffer = shard.blocks.get_mut(&key.block)?;
        buffer.recent = true;
        Some((Arc::clone(&buffer.bytes), buffer.checked == Some(key)))
    }

    /// The block's content, without a claim to what it is.
    pub(crate) fn content(&self, block: FsBlock) -> Option<Arc<[u8]>> {
        let shard = self.shard(block);
        shard
            .blocks
            .get(&block)
            .map(|buffer| Arc::clone(&buffer.bytes))
    }

    /// The block's content, and whether it holds names of a directory.
    pub(crate) fn changed_block(&self, block: FsBlock) -> Option<ChangedBlock> {
        let shard = self.shard(block);
        let buffer = shard.blocks.get(&block)?;
        Some(ChangedBlock {
            block,
            bytes: Arc::clone(&buffer.bytes),
            has_names: buffer.checked.is_some_and(Key::is_directory_block),
        })
    }

    /// Whether the block is in here.
    pub(crate) fn contains(&self, block: FsBlock) -> bool {
        self.shard(block).blocks.contains_key(&block)
    }

    /// Says that `bytes`, which came from [`get`](Self::get), were found right as `key`.
    pub(crate) fn passed(&self, key: Key, bytes: &Arc<[u8]>) {
        let mut shard = self.shard(key.block);
        if let Some(buffer) = shard.blocks.get_mut(&key.block)
            && Arc::ptr_eq(&buffer.bytes, bytes)
        {
            buffer.checked = Some(key);
        }
    }

    /// Keeps what was read from the device since `epoch`, unless the block is in here or what was
    /// read may be out of date. Whoever needs it asks again.
    pub(crate) fn keep(&self, block: FsBlock, bytes: Arc<[u8]>, epoch: DeviceEpoch) {
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

    /// Changes a block that is in here, within a transaction. `None` when it is not; else what
    /// `change` gave, and whether this is the transaction's first change of it.
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

    /// Gives a block a new content, within a transaction, whatever it had. Returns whether this is
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

    /// Forgets a block that holds no metadata any more.
    pub(crate) fn forget(&self, block: FsBlock) {
        let mut shard = self.shard(block);
        if let Some(buffer) = shard.blocks.remove(&block) {
            self.note_let_go(&buffer);
        }
    }

    /// Says that what transactions up to this one changed is home.
    pub(crate) fn came_home(&self, transaction: TransactionId) {
        self.home.fetch_max(transaction.0, Ordering::SeqCst);
    }

    /// Puts what is in here over `bytes`, blocks from `first` on as the device has them.
    pub(crate) fn patch(&self, first: FsBlock, block_bytes: usize, bytes: &mut [u8]) {
        for (block, place) in (first.0..).zip(bytes.chunks_mut(block_bytes)) {
            if let Some(content) = self.content(FsBlock(block))
                && let Some(content) = content.get(..place.len())
            {
                place.copy_from_slice(content);
            }
        }
    }

    fn note_let_go(&self, buffer: &Buffer) {
        if buffer.changed_by != TransactionId(0) {
            self.let_go.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn insert(&self, shard: &mut Shard, block: FsBlock, buffer: Buffer) {
        self.make_room(shard);
        shard.blocks.insert(block, buffer);
        shard.hand.push_back(block);
    }

    /// Lets go of what was not used lately and is home, if there is too much. What is not home
    /// stays, however much it is: the journal bounds that.
    fn make_room(&self, shard: &mut Shard) {
        let home = self.home.load(Ordering::SeqCst);
        let mut steps = 0;
        // A few steps for each block that comes: the hand must not go round whenever all is busy.
        while shard.blocks.len() >= self.spare_blocks && steps < 8 {
            steps = u32::saturating_add(steps, 1);
            let Some(block) = shard.hand.pop_front() else {
                return;
            };
            let Some(buffer) = shard.blocks.get_mut(&block) else {
                continue;
            };
            if buffer.changed_by.0 > home || std::mem::take(&mut buffer.recent) {
                shard.hand.push_back(block);
            } else if let Some(buffer) = shard.blocks.remove(&block) {
                self.note_let_go(&buffer);
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
        pool.keep(FsBlock(7), bytes(1), pool.device_epoch());
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
    fn what_is_not_home_stays() {
        let pool = pool();
        pool.replace(key(0), TransactionId(1), bytes(9));
        let shards = u64::try_from(SHARDS).unwrap();
        for n in 1..100 {
            pool.keep(FsBlock(n * shards), bytes(0), pool.device_epoch());
        }
        assert!(pool.contains(FsBlock(0)));
        pool.came_home(TransactionId(1));
        let epoch = pool.device_epoch();
        for n in 100..200 {
            pool.keep(FsBlock(n * shards), bytes(0), pool.device_epoch());
        }
        assert!(!pool.contains(FsBlock(0)));
        assert_ne!(pool.device_epoch(), epoch);
        // What was read before it was let go may be old.
        pool.keep(FsBlock(0), bytes(1), epoch);
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
