//! Fast commits: the changes since the last full commit, as a list of changes instead of blocks.
//!
//! They are in blocks of their own after the log, and are valid if they belong to the transaction
//! that would be the next one. Each fast commit is a list of tags ([`tag`]) that ends with a tail
//! and its checksum. Linux applies them by changing inodes, trees and directories in the usual way.
//! A read-only filesystem cannot do that, so the edits are kept in memory, and readers merge them:
//!
//! * an inode ([`FastCommits::inode_bytes`]): the fields of the last `INODE` tag replace those in
//!   the inode table, except for the map of blocks ([`inode`]);
//! * the blocks of a file ([`FastCommits::ranges`]): added and removed ranges are merged with the
//!   runs of its tree ([`EditedWalk`]);
//! * a directory ([`FastCommits::names`]): added and removed names are merged with those in its
//!   blocks ([`NameEdit::resolve`]);
//! * the link count of a directory ([`FastCommits::links`]), which follows from the subdirectories
//!   that were added and removed.
//!
//! Linux sets a directory's times from its own clock, and may add a block to the directory. This
//! replay does neither. A symlink's target and a device's number come from the fast commit, while
//! Linux keeps what was in the inode table.
//!
//! If the first fast commit of the area is damaged, the area counts as empty: its writer was
//! interrupted. Linux refuses to mount then.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Fast commits".

mod inode;
mod names;
mod ranges;
mod scan;
mod tag;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_vfs::Result;

use crate::bytes::len_u64;
use crate::error::device_failed;
use crate::run::Run;
use crate::superblock::Superblock;

use super::block_header::Sequence;
use super::error::corrupt_block;
use super::log::{LogBlock, LogMap, LogReader};
use inode::InodeEdit;
use scan::{Area, scan};
use tag::{Dentry, Tag, Tags};

pub(crate) use names::{NameEdit, NameEdits};
pub(crate) use ranges::{EditedStep, EditedWalk, RangeEdits};

/// The changes of all fast commits.
#[derive(Debug)]
pub(crate) struct FastCommits {
    device: Arc<dyn BlockRead>,
    commits: u32,
    inodes: HashMap<u32, InodeEdit>,
    ranges: HashMap<u32, RangeEdits>,
    names: HashMap<u32, NameEdits>,
    /// For each directory, the inodes that were added (1) and removed (-1), until it is known which
    /// of them are directories.
    moved: HashMap<u32, Vec<(u32, i64)>>,
    links: HashMap<u32, i64>,
    /// For each inode, the change of its number of names since its last `INODE` tag gave its link
    /// count.
    named: HashMap<u32, i64>,
    /// The directories that were removed.
    removed: HashSet<u32>,
}

/// The location of the fast commits, and what they belong to.
#[derive(Debug)]
pub(super) struct Source<'a, 'd> {
    pub(super) device: &'a Arc<dyn BlockRead>,
    pub(super) map: &'a LogMap,
    pub(super) reader: &'a mut LogReader<'d>,
    pub(super) blocks: Range<u32>,
    pub(super) tid: Sequence,
    /// The filesystem's superblock after the log's replay.
    pub(super) superblock: &'a Superblock,
}

impl FastCommits {
    /// Reads the area. Returns `None` if nothing in it is valid.
    pub(super) fn load(source: Source<'_, '_>) -> Result<Option<Self>> {
        let area = Area {
            blocks: source.blocks.clone(),
            inode_size: source.superblock.inode_size,
            tid: source.tid,
        };
        let valid = scan(&area, source.reader)?;
        if valid.count == 0 {
            return Ok(None);
        }
        let mut this = Self::empty(Arc::clone(source.device), valid.commits);
        this.apply_all(source, valid.count)?;
        Ok(Some(this))
    }

    fn empty(device: Arc<dyn BlockRead>, commits: u32) -> Self {
        Self {
            device,
            commits,
            inodes: HashMap::new(),
            ranges: HashMap::new(),
            names: HashMap::new(),
            moved: HashMap::new(),
            links: HashMap::new(),
            named: HashMap::new(),
            removed: HashSet::new(),
        }
    }

    fn apply_all(&mut self, source: Source<'_, '_>, count: usize) -> Result<()> {
        let mut left = count;
        for block in source.blocks.map(LogBlock) {
            if left == 0 {
                break;
            }
            let start = source
                .superblock
                .block_size
                .byte_of(source.map.device_block(block)?);
            let bytes = source.reader.block(block)?;
            let tags = Tags::new(bytes, source.superblock.inode_size).take(left);
            for (at, tag) in tags {
                self.apply(&tag, start.saturating_add(len_u64(at)), source.superblock)
                    .map_err(|problem| corrupt_block(block, problem))?;
                left = left.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// Returns the number of fast commits.
    pub(crate) const fn commits(&self) -> u32 {
        self.commits
    }

    /// Returns the new bytes of an inode whose bytes in the table are `table`, or `None` if those
    /// are current. The checksum in the returned bytes is not valid.
    pub(crate) fn inode_bytes(&self, number: u32, table: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(edit) = self.inodes.get(&number) else {
            return Ok(None);
        };
        let mut raw = vec![0; usize::from(edit.len_bytes)];
        self.device
            .read_at(edit.offset, &mut raw)
            .map_err(device_failed)?;
        Ok(Some(inode::merge(table, &raw, edit)))
    }

    /// Returns the edits of a file's blocks, or `None` if there are none.
    pub(crate) fn ranges(&self, number: u32) -> Option<&RangeEdits> {
        self.ranges.get(&number)
    }

    /// Returns the edits of a directory's names, or `None` if there are none.
    pub(crate) fn names(&self, directory: u32) -> Option<&NameEdits> {
        self.names.get(&directory)
    }

    /// Returns the link count of an inode that has `links` without the subdirectories that were
    /// added and removed.
    pub(crate) fn links(&self, number: u32, links: u16) -> u16 {
        let by = self.links.get(&number).copied().unwrap_or(0);
        let links = i64::from(links).saturating_add(by);
        u16::try_from(links.max(0)).unwrap_or(u16::MAX)
    }

    /// Computes the link counts. `is_directory` answers for the inodes that no fast commit
    /// contains.
    ///
    /// # Errors
    /// Returns the errors of `is_directory`.
    pub(crate) fn count_links(
        &mut self,
        mut is_directory: impl FnMut(u32) -> Result<bool>,
    ) -> Result<()> {
        for (parent, moved) in std::mem::take(&mut self.moved) {
            let mut sum = 0i64;
            for (inode, by) in moved {
                let counts = match self.inodes.get(&inode) {
                    Some(edit) => edit.is_directory(),
                    None => is_directory(inode)?,
                };
                sum = sum.saturating_add(if counts { by } else { 0 });
            }
            self.links.insert(parent, sum);
        }
        for (&inode, &by) in &self.named {
            let is_directory = match self.inodes.get(&inode) {
                Some(edit) => edit.is_directory(),
                None => is_directory(inode)?,
            };
            if !is_directory {
                self.links.insert(inode, by);
            } else if by < 0 {
                self.removed.insert(inode);
            }
        }
        Ok(())
    }

    /// Returns all inodes that were replaced, or whose blocks or number of names changed; of
    /// directories only those that were created or removed. Valid after
    /// [`count_links`](Self::count_links).
    pub(crate) fn inodes(&self) -> BTreeSet<u32> {
        let mut inodes: BTreeSet<u32> = self.inodes.keys().copied().collect();
        inodes.extend(self.ranges.keys().chain(self.named.keys()));
        inodes
    }

    /// Returns true if it is a directory that was removed.
    pub(crate) fn is_removed(&self, directory: u32) -> bool {
        self.removed.contains(&directory)
    }

    /// Returns the directories in which names were added or removed.
    pub(crate) fn directories(&self) -> BTreeSet<u32> {
        self.names.keys().copied().collect()
    }

    /// Records the change of a tag at byte `at` of the device.
    fn apply(
        &mut self,
        tag: &Tag<'_>,
        at: u64,
        superblock: &Superblock,
    ) -> std::result::Result<(), InvalidTag> {
        match *tag {
            Tag::AddRange { inode, run } => self.add_range(inode, &run, superblock)?,
            Tag::DelRange {
                inode,
                start,
                len_blocks,
            } => {
                self.ranges
                    .entry(inode)
                    .or_default()
                    .remove(start, len_blocks);
            }
            Tag::Create(dentry) => self.create(dentry),
            Tag::Link(dentry) => self.link(dentry),
            Tag::Unlink(dentry) => self.unlink(dentry),
            Tag::Inode { number, .. } if number == 0 || number > superblock.inodes_count => {
                return Err(InvalidTag::Inode { number });
            }
            Tag::Inode {
                number,
                raw,
                offset,
            } => {
                self.inode(number, raw, at.saturating_add(len_u64(offset)));
            }
            Tag::Pad | Tag::Tail { .. } | Tag::Head { .. } => {}
        }
        Ok(())
    }

    fn add_range(
        &mut self,
        inode: u32,
        run: &Run,
        superblock: &Superblock,
    ) -> std::result::Result<(), InvalidTag> {
        if run.len_blocks == 0 {
            return Ok(());
        }
        if !superblock.holds(run.fs_block, u64::from(run.len_blocks)) {
            return Err(InvalidTag::Blocks { inode });
        }
        self.ranges.entry(inode).or_default().add(run);
        Ok(())
    }

    fn inode(&mut self, number: u32, raw: &[u8], offset: u64) {
        let generation = inode::generation(raw);
        let before = self.inodes.get(&number);
        if before.is_some_and(|before| before.generation != generation) {
            // The number was reused by another file, which has none of the former one's blocks.
            self.ranges.remove(&number);
        }
        let is_new = before.is_some_and(|b| b.is_new && b.generation == generation);
        // The inode contains its current link count.
        self.moved.remove(&number);
        self.named.remove(&number);
        self.inodes.insert(
            number,
            InodeEdit {
                offset,
                len_bytes: u16::try_from(raw.len()).unwrap_or(u16::MAX),
                generation,
                mode: inode::mode(raw),
                is_new,
            },
        );
    }

    fn create(&mut self, dentry: Dentry<'_>) {
        // The inode's tag came before, and its link count includes this name.
        self.add_name(dentry);
        let Some(edit) = self.inodes.get_mut(&dentry.inode) else {
            return;
        };
        edit.is_new = true;
        if edit.is_directory() {
            // The directory's first block, whose creation the fast commit leaves to the replay.
            let names = self.names.entry(dentry.inode).or_default();
            names.link(b".", dentry.inode);
            names.link(b"..", dentry.parent);
        }
    }

    fn link(&mut self, dentry: Dentry<'_>) {
        self.add_name(dentry);
        self.count_name(dentry.inode, 1);
    }

    fn count_name(&mut self, inode: u32, by: i64) {
        let names = self.named.entry(inode).or_default();
        *names = names.saturating_add(by);
    }

    fn add_name(&mut self, dentry: Dentry<'_>) {
        let Dentry {
            parent,
            inode,
            name,
        } = dentry;
        self.names.entry(parent).or_default().link(name, inode);
        self.moved.entry(parent).or_default().push((inode, 1));
    }

    fn unlink(&mut self, dentry: Dentry<'_>) {
        let Dentry {
            parent,
            inode,
            name,
        } = dentry;
        self.names.entry(parent).or_default().unlink(name, inode);
        self.moved.entry(parent).or_default().push((inode, -1));
        self.count_name(inode, -1);
    }
}

/// The error for a tag with impossible contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum InvalidTag {
    #[error("a fast commit gives inode {inode} blocks outside of the filesystem")]
    Blocks { inode: u32 },
    #[error("a fast commit refers to inode {number}, which the filesystem does not have")]
    Inode { number: u32 },
}
