//! New names in directories with an htree index: the leaf for the name's hash takes the name, a
//! full leaf is split, and the index grows where necessary.
//!
//! Each step leaves a consistent directory. So if there is no space for the next step, nothing has
//! to be undone.

use std::borrow::Cow;

use super::editor::{Block, DirectoryEditor};
use super::entry::{ENTRY_BYTES_MIN, NewEntry};
use super::insert::put;
use super::leaf::{self, HashedEntry, LeafSplit};
use super::region::{self, InvalidEntry, PlacedEntry};
use super::{block, casefold};
use crate::block::FileBlock;
use crate::error::{Error, ErrorKind, InInode, Result, Structure, malformed};
use crate::features::Incompatible;
use crate::htree::{self, Algorithm, IndexPath, IndexStep, InsertStep, NameHash};
use crate::inode::InodeFlags;

/// The maximum number of searches for the leaf: one for each level that may have to be split, and
/// one for each level that may be added.
const WAYS_MAX: usize = 8;

/// Adds an entry to a directory with an index.
pub(super) fn insert(directory: &mut DirectoryEditor<'_, '_>, new: &NewEntry<'_>) -> Result<()> {
    let index = block::htree_directory(directory.volume(), directory.inode);
    let hashed = hashed(directory, new.name);
    for _ in 0..WAYS_MAX {
        let Some(way) = IndexPath::find(&index, directory, &hashed)? else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the directory's index uses a keyed hash (SipHash), and the key is missing",
            ))
            .in_inode(directory.inode.number);
        };
        let leaf = directory.block(way.leaf)?;
        let Some(leaf) = put(directory, leaf, new)? else {
            return Ok(());
        };
        let mut entries = hashed_entries(directory, &way, &leaf)?;
        let room = directory.entries(&leaf).len();
        let Some(cut) = leaf::cut(&mut entries, room, new.bytes()) else {
            return fill(directory, &leaf, &entries, Some(new));
        };
        match way.next() {
            InsertStep::Add(step) => {
                let upper = split_leaf(directory, &leaf, &entries, cut, (new, way.hash))?;
                return add_entry(directory, &index, step, cut.index_hash(), upper);
            }
            InsertStep::Split { parent, full } => split_node(directory, &index, parent, full)?,
            InsertStep::Deepen { levels } => deepen(directory, &index, levels)?,
            InsertStep::Full => return Err(full(directory)),
        }
    }
    let problem = "the new entry does not fit, although room was made for it";
    Err(malformed(Structure::HtreeBlock(FileBlock(0)), problem)).in_inode(directory.inode.number)
}

fn full(directory: &DirectoryEditor<'_, '_>) -> Error {
    let e = directory.full("no space left in the directory's index");
    let features = directory.volume().superblock.features;
    if features.has(Incompatible::LARGE_DIR) {
        e
    } else {
        e.with_hint("the feature `large_dir` allows larger directories")
    }
}

/// Returns the bytes whose hash is that of a name.
fn hashed<'n>(directory: &DirectoryEditor<'_, '_>, name: &'n [u8]) -> Cow<'n, [u8]> {
    if directory.inode.has(InodeFlags::CASEFOLD) {
        casefold::hashed(name)
    } else {
        Cow::Borrowed(name)
    }
}

/// Makes the first block of a directory, which is full, the root of an index. Its entries move to a
/// leaf, which also takes the new one.
pub(super) fn begin(
    directory: &mut DirectoryEditor<'_, '_>,
    block: &Block,
    algorithm: Algorithm,
    new: &NewEntry<'_>,
) -> Result<()> {
    let superblock = &directory.volume().superblock;
    let entries_after_dots = entries_after_dots(directory, block)?;
    let leaf = directory.append_entries(|region| {
        region::pack(superblock, region, entries_after_dots.into_iter());
    })?;
    let index = block::htree_directory(directory.volume(), directory.inode);
    directory.inode.flags.insert(InodeFlags::INDEX);
    directory.change(block, |bytes| {
        index.put_root(bytes, algorithm, leaf.number);
    })?;
    insert(directory, new)
}

/// Returns the entries of block 0 after those of `.` and `..`.
fn entries_after_dots<'b>(
    directory: &DirectoryEditor<'_, '_>,
    block: &'b Block,
) -> Result<Vec<&'b [u8]>> {
    let mut entries = entries_in_use(directory, block)?.into_iter();
    let dot = entries.next().map(|placed| placed.entry);
    let dot_dot = entries.next().map(|placed| placed.entry.name);
    // The root's fields are at fixed offsets after them.
    let sound = dot.is_some_and(|dot| dot.name == b"." && dot.end == ENTRY_BYTES_MIN);
    if !sound || dot_dot != Some(b"..") {
        return Err(malformed(
            Structure::DirectoryBlock(FileBlock(0)),
            "it does not begin with `.` and `..`",
        ))
        .in_inode(directory.inode.number);
    }
    Ok(entries.map(|placed| placed.bytes()).collect())
}

/// Returns the entries of a block that are in use.
fn entries_in_use<'b>(
    directory: &DirectoryEditor<'_, '_>,
    block: &'b Block,
) -> Result<Vec<PlacedEntry<'b>>> {
    let superblock = &directory.volume().superblock;
    let start = block::start_of(directory.volume(), block.number);
    region::in_use(superblock, directory.entries(block))
        .collect::<std::result::Result<_, _>>()
        .map_err(|broken: InvalidEntry| broken.in_directory(directory.inode, start))
}

/// Splits a full index block.
fn split_node(
    directory: &mut DirectoryEditor<'_, '_>,
    index: &htree::Directory,
    parent: IndexStep,
    full: IndexStep,
) -> Result<()> {
    let lower = directory.block(full.block)?;
    let (hash, upper) = index.upper_half(full, &lower.bytes)?;
    let upper = directory.append(upper)?;
    directory.change(&lower, |bytes| index.cut_upper_half(full, bytes))?;
    add_entry(directory, index, parent, hash, upper.number)
}

/// Adds a level of index blocks below the root.
fn deepen(
    directory: &mut DirectoryEditor<'_, '_>,
    index: &htree::Directory,
    levels: u8,
) -> Result<()> {
    let root = directory.block(FileBlock(0))?;
    let below = index.below_root(&root.bytes)?;
    let below = directory.append(below)?;
    directory.change(&root, |bytes| index.deepen(levels, bytes, below.number))
}

fn add_entry(
    directory: &DirectoryEditor<'_, '_>,
    index: &htree::Directory,
    step: IndexStep,
    hash: u32,
    below: FileBlock,
) -> Result<()> {
    let block = directory.block(step.block)?;
    directory.change(&block, |bytes| index.add_entry(step, bytes, hash, below))
}

/// Splits a full leaf, and adds an entry to the half that its hash belongs to. Returns the block of
/// the upper half.
fn split_leaf(
    directory: &mut DirectoryEditor<'_, '_>,
    leaf: &Block,
    entries: &[HashedEntry<'_>],
    cut: LeafSplit,
    (new, hash): (&NewEntry<'_>, NameHash),
) -> Result<FileBlock> {
    let superblock = &directory.volume().superblock;
    let (lower, upper) = entries.split_at_checked(cut.at).unwrap_or_default();
    let (to_lower, to_upper) = if hash < cut.hash {
        (Some(new), None)
    } else {
        (None, Some(new))
    };
    let added = directory.append_entries(|region| {
        leaf::fill(superblock, region, upper, to_upper);
    })?;
    fill(directory, leaf, lower, to_lower)?;
    Ok(added.number)
}

/// Fills a leaf with these entries, one directly after the other.
fn fill(
    directory: &DirectoryEditor<'_, '_>,
    leaf: &Block,
    entries: &[HashedEntry<'_>],
    new: Option<&NewEntry<'_>>,
) -> Result<()> {
    let superblock = &directory.volume().superblock;
    directory.change_entries(leaf, |region| {
        leaf::fill(superblock, region, entries, new);
    })
}

/// Returns the entries of a leaf with their hashes.
fn hashed_entries<'b>(
    directory: &DirectoryEditor<'_, '_>,
    way: &IndexPath,
    leaf: &'b Block,
) -> Result<Vec<HashedEntry<'b>>> {
    let entries = entries_in_use(directory, leaf)?.into_iter();
    let hashed = entries.map(|placed| HashedEntry {
        hash: way.hasher.hash(&hashed(directory, placed.entry.name)),
        placed,
    });
    Ok(hashed.collect())
}
