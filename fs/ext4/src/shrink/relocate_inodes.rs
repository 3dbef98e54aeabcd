//! Moving the inodes of groups that will be cut off: each gets another number, and everything that
//! refers to it changes with it, in one transaction: entries of directories, and attributes whose
//! value is in the inode (`ea_inode`).

use std::ops::RangeInclusive;

use diskfs_vfs::FileType;

use crate::bytes::len_u64;
use crate::directory::{self, EntryBlock};
use crate::error::{Result, Structure, malformed};
use crate::features::Incompatible;
use crate::file_blocks;
use crate::handle::Handle;
use crate::hashing::{HashMap, HashSet};
use crate::inode::{Inode, InodeFlags, ROOT};
use crate::volume::Volume;
use crate::writer::Core;
use crate::xattr::{self, AttributePlace};

use super::inodes_in_use;

/// The number of inodes for which the references are searched at once, to limit the memory.
const BATCH: usize = 1 << 20;
/// The credits besides references, blocks of directories, and nodes: two inodes, their bitmaps and
/// descriptors.
const CREDITS: u32 = 16;

/// The place of a reference to an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reference {
    /// Entries in this part of a directory.
    Entry(u32, EntryBlock),
    /// Attributes.
    Value(AttributePlace),
}

/// The references to inodes.
type References = HashMap<u32, Vec<Reference>>;

/// Moves all inodes from group `first_group` on. `progress` is called for each.
///
/// # Errors
/// `NoSpace` if an inode with its entries does not fit into a transaction; `Corrupt`, `Io`.
pub(super) fn relocate_inodes(
    core: &Core,
    first_group: u32,
    progress: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let groups = first_group..core.volume().superblock.groups_count;
    let mut all = Vec::new();
    inodes_in_use::for_each(core.volume(), groups, |number| {
        all.push(number);
        Ok(())
    })?;
    for batch in all.chunks(BATCH) {
        let (Some(&first), Some(&last)) = (batch.first(), batch.last()) else {
            continue;
        };
        let mut moves = Moves {
            core,
            references: references(core.volume(), &(first..=last))?,
            moved: HashMap::default(),
        };
        for &number in batch {
            moves.relocate(number)?;
            progress()?;
        }
    }
    Ok(())
}

/// Returns the references to these inodes.
fn references(volume: &Volume, inodes: &RangeInclusive<u32>) -> Result<References> {
    let mut references = References::default();
    let mut add = |target, reference| {
        if inodes.contains(&target) {
            let places = references.entry(target).or_default();
            if places.last() != Some(&reference) {
                places.push(reference);
            }
        }
    };
    let has_values = volume.superblock.features.has(Incompatible::EA_INODE);
    let mut blocks = HashSet::default();
    inodes_in_use::for_each(volume, 0..volume.superblock.groups_count, |number| {
        let Some(inode) = volume.inode(number)? else {
            return Ok(());
        };
        if has_values {
            let visit = |block| blocks.insert(block);
            xattr::for_each_value_inode(volume, &inode, visit, |place, target| {
                add(target, Reference::Value(place));
            })?;
        }
        if !inode.is(FileType::Directory) {
            return Ok(());
        }
        directory::for_each_number(volume, &inode, |place, target| {
            add(target, Reference::Entry(number, place));
        })
    })?;
    Ok(references)
}

/// The moves of a batch of inodes.
struct Moves<'c> {
    core: &'c Core,
    references: References,
    /// The new numbers: inodes in `references` may have moved.
    moved: HashMap<u32, u32>,
}

impl Moves<'_> {
    fn relocate(&mut self, number: u32) -> Result<()> {
        let volume = self.core.volume();
        let Some(inode) = volume.inode(number)? else {
            let problem = "it is not in use, but its bitmap says so";
            return Err(malformed(Structure::Inode(number), problem));
        };
        let references = self.references.remove(&number).unwrap_or_default();
        if references.is_empty() {
            let problem = "nothing refers to it, so it cannot be moved";
            return Err(malformed(Structure::Inode(number), problem));
        }
        let credits = credits(volume, &inode, references.len())?;
        let moved = self.core.update(&[], credits, |handle| {
            let parent = match references.first() {
                Some(Reference::Entry(directory, _)) => *directory,
                _ => ROOT,
            };
            let new = copy(handle, number, parent)?;
            for reference in &references {
                self.change(handle, *reference, (number, new))?;
            }
            Ok(new)
        })?;
        self.moved.insert(number, moved);
        Ok(())
    }

    /// Changes one place that refers to an inode.
    fn change(
        &self,
        handle: &Handle<'_>,
        reference: Reference,
        (old, new): (u32, u32),
    ) -> Result<()> {
        let current = |number: u32| match self.moved.get(&number) {
            Some(&moved) => moved,
            None if number == old => new,
            None => number,
        };
        match reference {
            Reference::Entry(directory, place) => {
                let mut directory = handle.inode(current(directory))?;
                directory::renumber(handle, &mut directory, place, (old, new))
            }
            Reference::Value(AttributePlace::Inode(number)) => {
                let place = AttributePlace::Inode(current(number));
                xattr::renumber_values(handle, place, (old, new))
            }
            Reference::Value(place) => xattr::renumber_values(handle, place, (old, new)),
        }
    }
}

/// Returns the number of blocks that change when an inode moves.
fn credits(volume: &Volume, inode: &Inode, references: usize) -> Result<u32> {
    let mut blocks = len_u64(references).saturating_mul(2);
    if inode.checksum_seed.is_some() {
        if inode.is(FileType::Directory) {
            blocks =
                blocks.saturating_add(volume.superblock.block_size.blocks_for(inode.size_bytes));
        }
        if has_tree(inode) {
            blocks = blocks.saturating_add(len_u64(file_blocks::nodes(volume, inode)?.len()));
        }
    }
    Ok(u32::try_from(blocks)
        .unwrap_or(u32::MAX)
        .saturating_add(CREDITS))
}

fn has_tree(inode: &Inode) -> bool {
    inode.has(InodeFlags::EXTENTS) && !inode.has(InodeFlags::INLINE_DATA)
}

/// Copies an inode to a new number, and frees the old one. The blocks that have checksums with the
/// number get new ones.
fn copy(handle: &Handle<'_>, number: u32, parent: u32) -> Result<u32> {
    let inode = handle.inode(number)?;
    let is_dir = inode.is(FileType::Directory);
    let new = handle.allocator.allocate_inode(handle, parent, is_dir)?;
    handle.copy_inode(number, new)?;
    let copy = handle.inode(new)?;
    if copy.checksum_seed.is_some() {
        if has_tree(&inode) {
            file_blocks::seal_nodes(handle, &inode, &copy)?;
        }
        if is_dir && !inode.has(InodeFlags::INLINE_DATA) {
            directory::seal_all(handle, &copy)?;
        }
    }
    handle.clear_inode(number)?;
    handle.allocator.free_inode(handle, number, is_dir)?;
    Ok(new)
}
