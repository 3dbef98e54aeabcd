//! The filesystem opened for writing, as everybody else sees it.

mod read;
mod write;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use diskfs_block::BlockWrite;
use diskfs_vfs::{Holds, Remains};

use crate::allocator::Allocator;
use crate::error::Result;
use crate::ext4::Ext4;
use crate::features::{Compatible, Incompatible};
use crate::locks::InodeLocks;
use crate::pool::TransactionId;
use crate::recovery::{RecoveredForWriting, recover_for_writing};
use crate::superblock::Superblock;
use crate::writer::{
    self, Core, DelayedFiles, Durable, Ended, Orphans, Touched, Transactions, Written,
};
use crate::xattr::SharedAttributes;

/// How a filesystem is opened for writing.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// How much memory the caches of metadata may take, in bytes, besides what a commit needs.
    pub cache_bytes: u64,
    /// How long a change may wait until it is made durable without anybody asking. `None`: until
    /// somebody asks, the journal has no room for more, or the filesystem is closed; so all that
    /// fits into one transaction is there after a crash, or nothing of it.
    pub commit_interval: Option<Duration>,
    /// Whether all changes until the filesystem is closed belong together.
    pub together: Together,
    /// Whether blocks are given out that the filesystem has reserved for root.
    pub root_reserve: RootReserve,
}

/// Whether all changes until a filesystem is closed belong together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Together {
    /// Each operation stands for itself: what fails takes nothing else with it.
    #[default]
    No,
    /// Closing commits all of them, or none when writing something back fails. What exceeds one
    /// transaction is committed earlier.
    UntilClosed,
    /// The same, and an operation that exceeds the one transaction fails with `NoSpace`. So does one
    /// that needs blocks which only the commit of another change gives back.
    InOneTransaction,
}

/// Whether blocks are given out that a filesystem has reserved for root (`s_r_blocks_count`). Who
/// writes is not told to the filesystem, so it is one answer for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RootReserve {
    /// They stay free, as for ordinary users.
    #[default]
    Keep,
    /// They are given out, as to root.
    Use,
}

impl Default for WriteOptions {
    /// 16 MiB; 5 seconds, as Linux has it; root's blocks stay free.
    fn default() -> Self {
        Self {
            cache_bytes: 16 << 20,
            commit_interval: Some(Duration::from_secs(5)),
            together: Together::default(),
            root_reserve: RootReserve::default(),
        }
    }
}

/// An ext2, ext3 or ext4 filesystem, opened for writing.
#[derive(Debug)]
pub struct WritableExt4 {
    pub(crate) core: Arc<Core>,
    /// Those that commit and write back; none when writing has ended.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The transaction that was running when it had been opened.
    first: TransactionId,
}

impl WritableExt4 {
    /// Opens the filesystem.
    ///
    /// # Errors
    /// As [`Ext4::open`].
    pub fn open(device: Arc<dyn BlockWrite>, options: &WriteOptions) -> Result<Self> {
        let below: Arc<dyn diskfs_block::BlockRead> = device.clone();
        let superblock = Superblock::read(&*below)?;
        let was_clean = !superblock.features.has(Incompatible::NEEDS_RECOVERY);
        let recovered = recover_for_writing(&device, superblock)?;
        let RecoveredForWriting {
            superblock,
            log,
            with_fast_commits,
            notes,
        } = recovered;
        let holds = Arc::new(Holds::default());
        let reader = Ext4::for_writing(below, superblock, options.cache_bytes, Arc::clone(&holds))
            .with_notes(notes);
        let orphans = Orphans::open(reader.volume())?;
        let allocator = Allocator::open(reader.volume(), options.root_reserve)?;
        let core = Arc::new(Core {
            reader,
            device,
            transactions: Transactions::new(0),
            log: Mutex::new(log),
            allocator,
            locks: InodeLocks::new(),
            touched: Touched::default(),
            orphans,
            delayed: DelayedFiles::default(),
            shared_attributes: SharedAttributes::default(),
            holds,
            renames: Mutex::default(),
            written: Written::default(),
            commit_interval: options.commit_interval,
            together: options.together,
            durable: Durable::new(was_clean),
        });
        core.limit_transactions()?;
        if let Some(after) = with_fast_commits {
            core.bring_home(&after)?;
        }
        core.mark_mounted()?;
        let mut opened = Self {
            threads: Mutex::new(vec![writer::start_committing(&core)?]),
            core,
            first: TransactionId::default(),
        };
        if let Some(interval) = options.commit_interval {
            opened.start_writing_back(interval)?;
        }
        opened.core.finish_orphans()?;
        if options.together != Together::No {
            opened.core.begin_together()?;
        }
        opened.first = opened.core.transactions.running();
        Ok(opened)
    }

    fn start_writing_back(&mut self, interval: Duration) -> Result<()> {
        let thread = writer::start_writing_back(&self.core, interval)?;
        let threads = self.threads.get_mut();
        threads.unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Ends writing as a crash does: the running transaction is dropped, and what was committed before is in the log
    /// or home. No error is noted, for there was none of the filesystem's.
    fn give_up(&self) -> Remains {
        let threads = self.take_threads();
        if !threads.is_empty() {
            self.drop_changes(threads);
        }
        self.core.remains()
    }

    fn drop_changes(&self, threads: Vec<JoinHandle<()>>) {
        let ended = Ended::Aborted("the changes were given up".to_owned());
        self.core.transactions.finish(ended);
        for thread in threads {
            // They end because writing has.
            let _ = thread.join();
        }
        self.core.forget_all_delayed();
    }

    /// Whether something was committed, or there is no journal to commit all at once.
    fn is_in_parts(&self) -> bool {
        let features = self.core.volume().superblock.features;
        !features.has(Compatible::HAS_JOURNAL) || self.core.transactions.running() > self.first
    }

    fn take_threads(&self) -> Vec<JoinHandle<()>> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *threads)
    }

    /// Ends writing in good order.
    fn finish(&self) -> Result<()> {
        let threads = self.take_threads();
        if threads.is_empty() {
            return Ok(());
        }
        // Nobody holds a file of a filesystem that is closed: those without a name go.
        self.core.holds.end_all();
        // What fails here is told by `close`, or harms nobody.
        let written = self.core.finish_orphans().and_then(|()| self.core.sync());
        if written.is_err() && self.core.together != Together::No {
            self.drop_changes(threads);
            return written;
        }
        self.core.transactions.finish(Ended::Closed);
        // They end because writing has; if one panicked, that is an abort, or nothing was lost.
        for thread in threads {
            let _ = thread.join();
        }
        self.core.forget_all_delayed();
        if written.is_ok() {
            self.core.durable.note_all();
        }
        self.core.close().and(written)
    }
}

impl Drop for WritableExt4 {
    fn drop(&mut self) {
        if let Err(e) = self.finish() {
            tracing::error!("the filesystem could not be closed: {e}");
        }
    }
}
