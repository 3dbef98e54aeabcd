//! The public type of a filesystem that is opened for writing.

mod extents;
mod read;
mod write;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use diskfs_block::BlockWrite;
use diskfs_vfs::{Holds, Remains};

use crate::allocator::Allocator;
use crate::block::FileBlock;
use crate::delayed::DelayedFiles;
use crate::device_writer::DeviceWriter;
use crate::error::Result;
use crate::ext4::Ext4;
use crate::features::{Compatible, Incompatible};
use crate::file_blocks::runs;
use crate::inode::Inode;
use crate::locks::InodeLocks;
use crate::options::{TransactionGrouping, WriteOptions};
use crate::pool::TransactionId;
use crate::recovery::{RecoveredForWriting, recover_for_writing};
use crate::shared_attributes::SharedAttributes;
use crate::superblock::Superblock;
use crate::transaction::{Changes, StopReason, Touched, Transactions};
use crate::volume::Volume;
use crate::writer::{self, Core, Durable, Log, MountMark, Orphans};

/// An ext2, ext3 or ext4 filesystem, opened for writing.
#[derive(Debug)]
pub struct WritableExt4 {
    pub(crate) core: Arc<Core>,
    /// The threads that commit and write back; empty after writing has stopped.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The transaction that was running when the filesystem had been opened.
    first: TransactionId,
}

impl WritableExt4 {
    /// Opens the filesystem.
    ///
    /// # Errors
    /// Fails like [`Ext4::open`].
    pub fn open(device: Arc<dyn BlockWrite>, options: &WriteOptions) -> Result<Self> {
        Self::open_within(device, options, None)
    }

    /// Opens the filesystem like [`open`](Self::open), but allocates blocks and inodes only within
    /// `smaller`, the filesystem that it will be shrunk to.
    ///
    /// # Errors
    /// Fails like [`Ext4::open`].
    pub(crate) fn open_within(
        device: Arc<dyn BlockWrite>,
        options: &WriteOptions,
        smaller: Option<&Superblock>,
    ) -> Result<Self> {
        let below: Arc<dyn diskfs_block::BlockRead> = device.clone();
        let superblock = Superblock::read(&*below)?;
        let was_clean = !superblock.features.has(Incompatible::NEEDS_RECOVERY);
        let recovered = recover_for_writing(&device, superblock)?;
        let RecoveredForWriting {
            superblock,
            journal,
            with_fast_commits,
            notes,
        } = recovered;
        let block_size = superblock.block_size;
        let holds = Arc::new(Holds::default());
        let reader =
            Ext4::for_writing(below, superblock, options, Arc::clone(&holds)).with_notes(notes);
        let orphans = Orphans::open(reader.volume())?;
        let volume = reader.volume();
        let journal_inode = journal_inode(volume)?;
        let journal_runs = journal_inode
            .iter()
            .flat_map(|inode| runs(volume, inode, FileBlock(0)));
        let mut allocator = Allocator::open(volume, options.root_reserve, journal_runs)?;
        if let Some(smaller) = smaller {
            allocator.limit_to(smaller);
        }
        let core = Arc::new(Core {
            mount_mark: MountMark::new(volume.ambient.now()),
            reader,
            device: DeviceWriter::new(device, block_size),
            transactions: Transactions::new(0),
            log: Mutex::new(Log::new(journal)),
            allocator,
            locks: InodeLocks::new(),
            touched: Touched::default(),
            orphans,
            delayed: DelayedFiles::default(),
            shared_attributes: SharedAttributes::default(),
            holds,
            renames: Mutex::default(),
            commit_interval: options.commit_interval,
            grouping: options.grouping,
            durable: Durable::new(was_clean),
        });
        core.limit_transactions()?;
        if let Some(after) = with_fast_commits {
            core.apply_fast_commits(&after)?;
        }
        if !was_clean && core.mark_mounted(&Changes::default())? {
            core.device.flush()?;
        }
        let mut opened = Self {
            threads: Mutex::new(vec![writer::start_committing(&core)?]),
            core,
            first: TransactionId::default(),
        };
        if let Some(interval) = options.commit_interval {
            opened.start_writing_back(interval)?;
        }
        opened.core.finish_orphans()?;
        if options.grouping != TransactionGrouping::No {
            opened.core.begin_group()?;
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

    /// Stops writing as a crash does: the running transaction is dropped, and earlier commits are
    /// in the log or at their final places. No error is recorded, because the filesystem has none.
    fn abandon_changes(&self) -> Remains {
        let threads = self.take_threads();
        if !threads.is_empty() {
            self.drop_changes(threads);
        }
        self.core.remains()
    }

    fn drop_changes(&self, threads: Vec<JoinHandle<()>>) {
        let ended = StopReason::Aborted("the changes were abandoned".to_owned());
        self.core.transactions.finish(ended);
        for thread in threads {
            // The threads end because writing has stopped.
            let _ = thread.join();
        }
        self.core.forget_all_delayed();
    }

    /// Returns true if anything was committed, or if there is no journal that commits all at once.
    fn is_in_parts(&self) -> bool {
        let features = self.core.volume().superblock.features;
        !features.has(Compatible::HAS_JOURNAL) || self.core.transactions.running() > self.first
    }

    fn take_threads(&self) -> Vec<JoinHandle<()>> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *threads)
    }

    /// Ends writing in good order.
    pub(crate) fn finish(&self) -> Result<()> {
        let threads = self.take_threads();
        if threads.is_empty() {
            return Ok(());
        }
        // After closing, nobody holds open files: those without a name are deleted.
        self.core.holds.end_all();
        // An error here is reported by `close`, or does no harm.
        let written = self.core.finish_orphans().and_then(|()| self.core.sync());
        if written.is_err() && self.core.grouping != TransactionGrouping::No {
            self.drop_changes(threads);
            return written;
        }
        self.core.transactions.finish(StopReason::Closed);
        // The threads end because writing has stopped. If one panicked, writing was aborted, or
        // nothing was lost.
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

/// Returns the inode of the journal, or `None` for a filesystem without one.
fn journal_inode(volume: &Volume) -> Result<Option<Arc<Inode>>> {
    let superblock = &volume.superblock;
    if !superblock.features.has(Compatible::HAS_JOURNAL) || superblock.journal_inode == 0 {
        return Ok(None);
    }
    volume.inode(superblock.journal_inode)
}

impl Drop for WritableExt4 {
    fn drop(&mut self) {
        if let Err(e) = self.finish() {
            tracing::error!("cannot close the filesystem: {e}");
        }
    }
}
