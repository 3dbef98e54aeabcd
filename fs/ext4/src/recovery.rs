//! Opening a filesystem that was not unmounted: as the kernel would show it after recovery.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{Error, FileType, Result};

use crate::block::FileBlock;
use crate::error::{Structure, Unsupported, malformed, write_failed};
use crate::features::{Compatible, Incompatible};
use crate::file_blocks::runs;
use crate::inode::Inode;
use crate::inode_table;
use crate::journal::log_writer::LogWriter;
use crate::journal::{FastCommits, Journal, JournalRun, JournalView};
use crate::superblock::{Superblock, check_writable};
use crate::volume::Volume;

/// What the caches may take while the journal is found: its inode and its extent tree are a few
/// blocks.
const CACHE_BYTES: u64 = 1 << 20;

/// A filesystem to read from.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The device, with the journal replayed where it was not empty.
    pub(crate) device: Arc<dyn BlockRead>,
    /// The same, if a block of it is read out of the journal.
    pub(crate) view: Option<Arc<JournalView>>,
    /// The superblock, as it is then.
    pub(crate) superblock: Superblock,
    /// Changes that are not in the device's blocks.
    pub(crate) fast_commits: Option<FastCommits>,
    /// What a careful reader should know.
    pub(crate) notes: Vec<String>,
}

/// Replays the journal if the filesystem needs it. Else the device is given back as it is, and
/// the journal is not looked at: the kernel ignores it then, too.
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

/// A filesystem to write to.
#[derive(Debug)]
pub(crate) struct RecoveredForWriting {
    pub(crate) superblock: Superblock,
    /// The journal, emptied; `None` for a filesystem without one.
    pub(crate) journal: Option<LogWriter>,
    /// The filesystem with fast commits that are not home yet, if there are any.
    pub(crate) with_fast_commits: Option<Volume>,
    /// What a careful reader should know.
    pub(crate) notes: Vec<String>,
}

/// Replays the journal into the device if the filesystem needs it, and empties it. All that is
/// refused is refused before anything is written; a crash while it writes leaves what it can be done
/// over from.
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
    // Without the flag a log is out of date: but where it ends must be known, so that nothing new
    // looks as if the old went on.
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
        view.write_home(&**device).map_err(write_failed)?;
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
        // One that can't be read counts as a file; whoever asks for it is told why.
        let found = inode_table::read(volume, inode).ok().flatten();
        Ok(found.is_some_and(|inode| inode.is(FileType::Directory)))
    })
}

/// A volume to find something with before the filesystem is open.
fn volume(device: Arc<dyn BlockRead>, superblock: &Superblock) -> Volume {
    Volume::new(device, superblock.clone(), CACHE_BYTES)
}

fn open_journal(device: Arc<dyn BlockRead>, superblock: &Superblock) -> Result<Journal> {
    let number = superblock.journal_inode;
    if number == 0 {
        return Err(Error::from(Unsupported::ExternalJournal)
            .with_hint("let its own system mount it once, or run e2fsck on a copy of both"));
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

/// The journal's inode. It is a regular file that no directory has.
fn journal_inode(volume: &Volume, number: u32) -> Result<Inode> {
    let structure = Structure::Inode(number);
    let inode = inode_table::read(volume, number)?
        .ok_or_else(|| malformed(structure, "it is not in use, though it is the journal's"))?;
    if inode.links == 0 || !inode.is(FileType::Regular) {
        return Err(malformed(
            structure,
            "it is no file, though it is the journal's",
        ));
    }
    Ok(inode)
}
