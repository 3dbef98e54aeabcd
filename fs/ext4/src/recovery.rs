//! Opening a filesystem that was not unmounted: in the state that the kernel would show after
//! recovery.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{Error, FileType, Result};

use crate::block::FileBlock;
use crate::error::{Structure, Unsupported, malformed, write_failed};
use crate::features::{Compatible, Incompatible};
use crate::file_blocks::runs;
use crate::inode::{Inode, InodeFlags};
use crate::inode_table;
use crate::journal::log_writer::LogWriter;
use crate::journal::{FastCommits, Journal, JournalRun, JournalView};
use crate::superblock::{Superblock, check_writable};
use crate::volume::Volume;

/// The budget of the caches while the journal is located: its inode and its extent tree are a few
/// blocks.
const CACHE_BYTES: u64 = 1 << 20;

/// A recovered filesystem for reading.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The device, with the journal replayed if it was not empty.
    pub(crate) device: Arc<dyn BlockRead>,
    /// The view of the replayed journal, if it contains any block.
    pub(crate) view: Option<Arc<JournalView>>,
    /// The superblock after the replay.
    pub(crate) superblock: Superblock,
    /// Changes by fast commits, which are not in the device's blocks.
    pub(crate) fast_commits: Option<FastCommits>,
    /// The notes for the identity.
    pub(crate) notes: Vec<String>,
}

/// Replays the journal if the filesystem needs recovery. Otherwise the device is returned as it is,
/// and the journal is not read: the kernel ignores it then, too.
///
/// # Errors
/// `Corrupt`, `Unsupported` for an external journal, `Io`.
pub(crate) fn recover(device: Arc<dyn BlockRead>, superblock: Superblock) -> Result<Recovered> {
    let features = superblock.features;
    let mut recovered = Recovered {
        device,
        view: None,
        superblock,
        fast_commits: None,
        notes: Vec::new(),
    };
    if !features.has(Incompatible::NEEDS_RECOVERY) || !features.has(Compatible::HAS_JOURNAL) {
        return Ok(recovered);
    }
    let journal = open_journal(Arc::clone(&recovered.device), &recovered.superblock)?;
    let Some(mut replayed) = journal.replay()? else {
        return Ok(recovered);
    };
    recovered.notes = replayed.notes("in memory");
    if let Some(view) = replayed.view.take() {
        let view = Arc::new(view);
        recovered.device = view.clone();
        recovered.view = Some(view);
        recovered.superblock = Superblock::read(&*recovered.device)?;
    }
    recovered.fast_commits = journal.fast_commits(&replayed, &recovered.superblock)?;
    recovered.count_links()
}

/// A recovered filesystem for writing.
#[derive(Debug)]
pub(crate) struct RecoveredForWriting {
    pub(crate) superblock: Superblock,
    /// The emptied journal; `None` for a filesystem without one.
    pub(crate) journal: Option<LogWriter>,
    /// The filesystem with fast commits that are not applied to the device yet, if there are any.
    pub(crate) with_fast_commits: Option<Volume>,
    /// The notes for the identity.
    pub(crate) notes: Vec<String>,
}

/// Replays the journal to the device if the filesystem needs recovery, and empties it. Everything
/// that is refused is refused before the first write. A crash during the writes leaves a state from
/// which this can be repeated.
///
/// # Errors
/// `Unsupported`, `Corrupt`, `Io`.
pub(crate) fn recover_for_writing(
    device: &Arc<dyn BlockWrite>,
    superblock: Superblock,
) -> Result<RecoveredForWriting> {
    check_writable(&superblock)?;
    let mut recovered = RecoveredForWriting {
        superblock,
        journal: None,
        with_fast_commits: None,
        notes: Vec::new(),
    };
    let features = recovered.superblock.features;
    if !features.has(Compatible::HAS_JOURNAL) {
        return Ok(recovered);
    }
    let journal = open_journal(device.clone(), &recovered.superblock)?;
    // Without the flag the log is out of date. Its end must be known nevertheless, so that no new
    // transaction looks like a continuation of the old log.
    let replayed = journal.replay()?;
    let mut view = None;
    let mut fast_commits = None;
    if let Some(replayed) = &replayed
        && features.has(Incompatible::NEEDS_RECOVERY)
    {
        recovered.notes = replayed.notes("into the image");
        view = replayed.view.as_ref();
        if let Some(view) = view {
            recovered.superblock = Superblock::read(view)?;
            check_writable(&recovered.superblock)?;
        }
        fast_commits = journal.fast_commits(replayed, &recovered.superblock)?;
    }
    let mut log = LogWriter::new(journal, features, replayed.as_ref())?;
    if let Some(view) = view {
        view.write_to_final_places(&**device)
            .map_err(write_failed)?;
        device.flush().map_err(write_failed)?;
    }
    match (&replayed, fast_commits) {
        (Some(replayed), Some(mut fast_commits)) => {
            log.reset_to_fast_commits(&**device, replayed)?;
            let mut volume = volume(device.clone(), &recovered.superblock);
            count_links(&mut fast_commits, &volume)?;
            let count = fast_commits.commits();
            volume.fast_commits = Some(fast_commits);
            let note = format!("fast commits replayed into the image ({count})");
            recovered.notes.push(note);
            recovered.with_fast_commits = Some(volume);
        }
        (Some(_), None) => log.reset(&**device)?,
        (None, _) => {}
    }
    recovered.journal = Some(log);
    Ok(recovered)
}

impl Recovered {
    fn count_links(mut self) -> Result<Self> {
        let volume = volume(Arc::clone(&self.device), &self.superblock);
        if let Some(fast_commits) = &mut self.fast_commits {
            count_links(fast_commits, &volume)?;
            let count = fast_commits.commits();
            self.notes
                .push(format!("fast commits replayed in memory ({count})"));
        }
        Ok(self)
    }
}

fn count_links(fast_commits: &mut FastCommits, volume: &Volume) -> Result<()> {
    fast_commits.count_links(|inode| {
        // An unreadable inode counts as a file; the error is reported when it is read.
        let found = inode_table::read(volume, inode).ok().flatten();
        Ok(found.is_some_and(|inode| inode.is(FileType::Directory)))
    })
}

/// Returns a volume for reading before the filesystem is open.
fn volume(device: Arc<dyn BlockRead>, superblock: &Superblock) -> Volume {
    Volume::new(device, superblock.clone(), CACHE_BYTES)
}

/// Opens the internal journal.
///
/// # Errors
/// `Corrupt`, `Unsupported` for an external journal, `Io`.
pub(crate) fn open_journal(device: Arc<dyn BlockRead>, superblock: &Superblock) -> Result<Journal> {
    let number = superblock.journal_inode;
    if number == 0 {
        return Err(Error::from(Unsupported::ExternalJournal).with_hint(
            "mount it once with its own operating system, or run e2fsck on a copy of both",
        ));
    }
    let volume = volume(Arc::clone(&device), superblock);
    let inode = journal_inode(&volume, number)
        .map_err(|e| e.with_hint("on a copy, e2fsck can restore the journal's inode"))?;
    let mut next = FileBlock(0);
    let runs = runs(&volume, &inode, next).map(|run| {
        let run = run?;
        if run.file_block != next || !run.written {
            return Err(malformed(
                Structure::Inode(number),
                "the journal has a hole",
            ));
        }
        next = FileBlock(u32::try_from(run.end()).unwrap_or(u32::MAX));
        Ok(JournalRun {
            start: run.fs_block,
            len_blocks: run.len_blocks,
        })
    });
    Journal::open(device, superblock.block_size, superblock.blocks_count, runs)
}

/// Reads the journal's inode. It is a regular file that is in no directory.
fn journal_inode(volume: &Volume, number: u32) -> Result<Inode> {
    let structure = Structure::Inode(number);
    let inode = inode_table::read(volume, number)?
        .ok_or_else(|| malformed(structure, "not in use, although it is the journal's inode"))?;
    if inode.links == 0 || !inode.is(FileType::Regular) {
        return Err(malformed(
            structure,
            "not a regular file, although it is the journal's inode",
        ));
    }
    if inode.has(InodeFlags::ENCRYPT) {
        return Err(malformed(
            structure,
            "encrypted, although it is the journal's inode",
        ));
    }
    Ok(inode)
}
