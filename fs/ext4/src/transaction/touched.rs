//! The last transaction that changed each inode, for which fsync waits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_vfs::SyncFile;

use crate::bytes::index;
use crate::hashing::HashMap;
use crate::pool::TransactionId;

const SHARDS: usize = 16;

/// The last changes of one inode that were not known to be durable.
#[derive(Debug, Clone, Copy, Default)]
struct LastChanges {
    /// The last transaction with any change.
    all: TransactionId,
    /// The last transaction with a change that is needed to read the contents.
    data: TransactionId,
}

/// The last changes of all inodes.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    shards: [Mutex<HashMap<u32, LastChanges>>; SHARDS],
}

impl Touched {
    fn shard(&self, inode: u32) -> MutexGuard<'_, HashMap<u32, LastChanges>> {
        let nth = index(inode).checked_rem(SHARDS).unwrap_or(0);
        let [first, ..] = &self.shards;
        let shard = self.shards.get(nth).unwrap_or(first);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that `transaction` changed the inode; `Data` means that its contents can't be read
    /// without the change.
    pub(crate) fn note(&self, inode: u32, transaction: TransactionId, what: SyncFile) {
        let mut shard = self.shard(inode);
        let last = shard.entry(inode).or_default();
        last.all = transaction;
        if what == SyncFile::Data {
            last.data = transaction;
        }
    }

    /// Returns the transaction that must be durable for the inode to be durable.
    pub(crate) fn last(&self, inode: u32, what: SyncFile) -> TransactionId {
        let shard = self.shard(inode);
        let last = shard.get(&inode).copied().unwrap_or_default();
        match what {
            SyncFile::All => last.all,
            SyncFile::Data => last.data,
        }
    }

    /// Drops the entries of durable transactions.
    pub(crate) fn became_durable(&self, transaction: TransactionId) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.retain(|_, last| last.all > transaction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_a_part_of_all() {
        let touched = Touched::default();
        let id = TransactionId;
        touched.note(7, id(3), SyncFile::Data);
        touched.note(7, id(4), SyncFile::All);
        assert_eq!(touched.last(7, SyncFile::Data), id(3));
        assert_eq!(touched.last(7, SyncFile::All), id(4));
        touched.became_durable(id(3));
        assert_eq!(touched.last(7, SyncFile::All), id(4));
        touched.became_durable(id(4));
        assert_eq!(touched.last(7, SyncFile::All), id(0));
    }
}
