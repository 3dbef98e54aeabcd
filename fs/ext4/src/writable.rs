//! The filesystem opened for writing, as everybody else sees it.

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
use crate::options::{Together, WriteOptions};
use crate::pool::TransactionId;
use crate::recovery::{RecoveredForWriting, recover_for_writing};
use crate::shared_attributes::SharedAttributes;
use crate::superblock::Superblock;
use crate::transaction::{Ended, Touched, Transactions};
use crate::volume::Volume;
use crate::writer::{self, Core, Durable, Log, Orphans};

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
            journal,
            with_fast_commits,
            notes,
        } = recovered;
        let block_size = superblock.block_size;
        let holds = Arc::new(Holds::default());
        let reader = Ext4::for_writing(below, superblock, options.cache_bytes, Arc::clone(&holds))
            .with_notes(notes);
        let orphans = Orphans::open(reader.volume())?;
        let volume = reader.volume();
        let journal_inode = journal_inode(volume)?;
        let journal_runs = journal_inode
            .iter()
            .flat_map(|inode| runs(volume, inode, FileBlock(0)));
        let allocator = Allocator::open(volume, options.root_reserve, journal_runs)?;
        let core = Arc::new(Core {
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

/// Returns the inode of the journal, which a filesystem without one lacks.
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
            tracing::error!("the filesystem could not be closed: {e}");
        }
    }
}
