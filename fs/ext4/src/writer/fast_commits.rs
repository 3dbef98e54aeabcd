//! Fast commits, brought home: when a filesystem that has some is opened for writing.
//!
//! All of it is one transaction, so that a crash leaves either the fast commits or what they come to.
//! Nobody else is there yet, and nothing is known of the filesystem but what the log had: so what
//! they give away is freed first, then all that they take is claimed, and only then anything is
//! allocated that they don't tell of (blocks of directories and of extent trees).

use diskfs_vfs::FileType;

use crate::block::FileBlock;
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::file_blocks::{self, runs};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::inode_table;
use crate::journal::FastCommits;
use crate::run::Run;
use crate::volume::Volume;

use super::namespace::evict;
use super::{Core, Orphans};

/// An inode that is another after the fast commits.
#[derive(Debug)]
struct Change {
    number: u32,
    /// What had the number before, if anything did.
    before: Option<Inode>,
    /// What has it now, if anything does.
    after: Option<Inode>,
    /// The blocks that it has now, if they are others.
    runs: Option<Vec<Run>>,
}

impl Change {
    fn of(core: &Core, after: &Volume, fast_commits: &FastCommits, number: u32) -> Result<Self> {
        let is_used = |inode: &Inode| inode.links != 0 || core.orphans.contains(number);
        let before = inode_table::read(core.volume(), number)?.filter(is_used);
        let now = inode_table::read(after, number)?.filter(|inode| inode.links != 0);
        let now = now.filter(|_| !fast_commits.is_removed(number));
        let edited = now.as_ref().filter(|inode| {
            let is_edited = fast_commits.ranges(number).is_some();
            is_edited && !inode.is(FileType::Directory) && evict::has_blocks(inode)
        });
        let runs = edited.map(|inode| runs(after, inode, FileBlock(0)).collect());
        Ok(Self {
            number,
            before,
            runs: runs.transpose()?,
            after: now,
        })
    }

    /// Whether it is still the same file.
    fn stays(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => before.generation == after.generation,
            _ => false,
        }
    }

    fn give_away(&mut self, handle: &Handle<'_>, orphans: &Orphans) -> Result<()> {
        let stays = self.stays();
        let Some(before) = &mut self.before else {
            return Ok(());
        };
        if !stays {
            orphans.remove(handle, self.number)?;
            return evict::remove_now(handle, before);
        }
        if self.runs.is_some() && evict::has_blocks(before) {
            file_blocks::remove(handle, before, 0..file_blocks::END)?;
        }
        Ok(())
    }

    fn claim(&mut self, handle: &Handle<'_>) -> Result<()> {
        let stays = self.stays();
        let Some(after) = &mut self.after else {
            return Ok(());
        };
        let allocator = handle.allocator;
        if !stays {
            let is_dir = after.is(FileType::Directory);
            allocator.claim_inode(handle, self.number, is_dir)?;
        }
        if let Some(runs) = &self.runs {
            let mut blocks = 0u64;
            for run in runs {
                let claimed = allocator.claim_blocks(handle, run.fs_block, run.len_blocks)?;
                blocks = blocks.saturating_add(claimed);
            }
            let superblock = &handle.volume().superblock;
            let attributes =
                u64::from(after.xattr_block != 0).wrapping_shl(superblock.cluster_ratio_bits);
            let all = blocks.saturating_add(attributes);
            after.allocated_bytes = superblock.block_size.bytes_of(all);
        }
        Ok(())
    }

    fn store(&mut self, handle: &Handle<'_>, fast_commits: &FastCommits) -> Result<()> {
        let stays = self.stays();
        let Some(after) = &mut self.after else {
            return Ok(());
        };
        if let Some(before) = self.before.as_ref().filter(|_| stays) {
            if after.is(FileType::Directory) {
                keep_contents(after, before);
            }
        } else {
            if after.is(FileType::Directory) {
                empty_directory(handle, after, fast_commits)?;
                return Ok(());
            }
            handle.store_new(after)?;
        }
        if let Some(runs) = &self.runs {
            file_blocks::initialise(after);
            for run in runs {
                file_blocks::map_new(handle, after, *run)?;
            }
        }
        handle.store(after)
    }
}

/// Fast commits tell of a directory's names, and not where they are.
fn keep_contents(after: &mut Inode, before: &Inode) {
    const CONTENTS: InodeFlags = InodeFlags::INDEX
        .union(InodeFlags::EXTENTS)
        .union(InodeFlags::INLINE_DATA);
    after.block = before.block;
    after.size_bytes = before.size_bytes;
    after.allocated_bytes = before.allocated_bytes;
    after.flags = after.flags.difference(CONTENTS) | before.flags.intersection(CONTENTS);
    after.xattr_bytes.clone_from(&before.xattr_bytes);
}

/// Makes a new directory, without the names that it got.
fn empty_directory(
    handle: &Handle<'_>,
    directory: &mut Inode,
    fast_commits: &FastCommits,
) -> Result<()> {
    let names = fast_commits.names(directory.number);
    let parent = names.and_then(|names| names.get(b"..")?.added());
    let parent = parent.ok_or_else(|| {
        let reason = "fast commits make a directory that is in no other";
        Error::new(ErrorKind::Corrupt, reason)
    })?;
    directory.flags.remove(InodeFlags::INLINE_DATA);
    directory.allocated_bytes = 0;
    directory.xattr_bytes = Box::default();
    file_blocks::initialise(directory);
    handle.store_new(directory)?;
    directory::initialise(handle, directory, parent)?;
    handle.store(directory)
}

/// Gives a directory the names that it has after the fast commits.
fn rename(
    handle: &Handle<'_>,
    after: &Volume,
    fast_commits: &FastCommits,
    number: u32,
) -> Result<()> {
    let Some(names) = fast_commits.names(number) else {
        return Ok(());
    };
    let Some(now) = inode_table::read(after, number)?.filter(|inode| inode.links != 0) else {
        return Ok(());
    };
    let mut directory = handle.inode(number)?;
    for (name, edit) in names.iter() {
        if matches!(name, b"." | b"..") {
            continue;
        }
        let stored = directory::lookup(handle.volume(), &directory, name)?;
        let wanted = edit.resolve(stored);
        if stored == wanted {
            continue;
        }
        if stored.is_some() {
            directory::remove(handle, &mut directory, name)?;
        }
        let Some(wanted) = wanted else {
            continue;
        };
        let named = inode_table::read(after, wanted)?.and_then(|inode| inode.file_type);
        let Some(file_type) = named else {
            let reason = "fast commits name an inode that is not in use";
            return Err(Error::new(ErrorKind::Corrupt, reason));
        };
        directory::insert(handle, &mut directory, name, wanted, file_type)?;
    }
    directory.links = now.links;
    handle.store(&directory)
}

impl Core {
    /// Brings home what `after` shows and the device does not have: before anything else is written.
    ///
    /// # Errors
    /// `Corrupt` when they contradict themselves or the filesystem, `NoSpace` when the log has not
    /// room for them, `Io`. The device then has them as before.
    pub(crate) fn bring_home(&self, after: &Volume) -> Result<()> {
        let Some(fast_commits) = &after.fast_commits else {
            return Ok(());
        };
        // In one transaction, whatever it takes.
        self.transactions.set_blocks_max(u32::MAX);
        let Some(handle) = self.try_begin(0)? else {
            return Err(ErrorKind::ReadOnly.into());
        };
        let mut changes = Vec::new();
        for number in fast_commits.inodes() {
            changes.push(Change::of(self, after, fast_commits, number)?);
        }
        for change in &mut changes {
            change.give_away(&handle, &self.orphans)?;
        }
        for change in &mut changes {
            change.claim(&handle)?;
        }
        for change in &mut changes {
            change.store(&handle, fast_commits)?;
        }
        for directory in fast_commits.directories() {
            if !fast_commits.is_removed(directory) {
                rename(&handle, after, fast_commits, directory)?;
            }
        }
        drop(handle);
        self.commit()?;
        self.checkpoint()?;
        self.limit_transactions()
    }
}
