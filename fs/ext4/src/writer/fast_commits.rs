//! Applying fast commits to the device when a filesystem is opened for writing.
//!
//! All of it is one transaction, so that a crash leaves either the fast commits or their result. No
//! operation runs yet, and only the log has been replayed. Therefore the blocks that the fast
//! commits free are freed first, then all that they use are claimed. Only then are other blocks
//! allocated, which the fast commits do not mention (blocks of directories and of extent trees).

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

/// An inode that the fast commits changed.
#[derive(Debug)]
struct ChangedInode {
    number: u32,
    /// The previous inode with this number, if it was in use.
    before: Option<Inode>,
    /// The new inode with this number, if it is in use.
    after: Option<Inode>,
    /// The new blocks, if they changed.
    runs: Option<Vec<Run>>,
}

impl ChangedInode {
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

    /// Returns true if the inode is still the same file.
    fn is_same_file(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => before.generation == after.generation,
            _ => false,
        }
    }

    fn free_old_blocks(&mut self, handle: &Handle<'_>, orphans: &Orphans) -> Result<()> {
        let is_same_file = self.is_same_file();
        let Some(before) = &mut self.before else {
            return Ok(());
        };
        if !is_same_file {
            orphans.remove(handle, self.number)?;
            return evict::remove_now(handle, before);
        }
        if self.runs.is_some() && evict::has_blocks(before) {
            file_blocks::remove(handle, before, 0..file_blocks::END)?;
        }
        Ok(())
    }

    fn claim(&mut self, handle: &Handle<'_>) -> Result<()> {
        let is_same_file = self.is_same_file();
        let Some(after) = &mut self.after else {
            return Ok(());
        };
        let allocator = handle.allocator;
        if !is_same_file {
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
        let is_same_file = self.is_same_file();
        let Some(after) = &mut self.after else {
            return Ok(());
        };
        if let Some(before) = self.before.as_ref().filter(|_| is_same_file) {
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

/// Keeps the previous contents: fast commits describe a directory's names, but not its blocks.
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

/// Creates a new directory, without the names that were added to it.
fn empty_directory(
    handle: &Handle<'_>,
    directory: &mut Inode,
    fast_commits: &FastCommits,
) -> Result<()> {
    let names = fast_commits.names(directory.number);
    let parent = names.and_then(|names| names.get(b"..")?.added());
    let parent = parent.ok_or_else(|| {
        let reason = "fast commits create a directory without a parent";
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
            let reason = "fast commits refer to an inode that is not in use";
            return Err(Error::new(ErrorKind::Corrupt, reason));
        };
        directory::insert(handle, &mut directory, name, wanted, file_type)?;
    }
    directory.links = now.links;
    handle.store(&directory)
}

impl Core {
    /// Applies to the device everything that `after` shows and the device does not have, before
    /// anything else is written.
    ///
    /// # Errors
    /// `Corrupt` if the fast commits contradict themselves or the filesystem, `NoSpace` if they do
    /// not fit into the log, `Io`. Then the device still has the fast commits.
    pub(crate) fn apply_fast_commits(&self, after: &Volume) -> Result<()> {
        let Some(fast_commits) = &after.fast_commits else {
            return Ok(());
        };
        // All in one transaction, whatever its size.
        self.transactions.set_blocks_max(u32::MAX);
        let Some(handle) = self.try_begin(0)? else {
            return Err(ErrorKind::ReadOnly.into());
        };
        let mut changes = Vec::new();
        for number in fast_commits.inodes() {
            changes.push(ChangedInode::of(self, after, fast_commits, number)?);
        }
        for change in &mut changes {
            change.free_old_blocks(&handle, &self.orphans)?;
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
        self.try_commit()?;
        self.checkpoint()?;
        self.limit_transactions()
    }
}
