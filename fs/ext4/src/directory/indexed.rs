//! New names in directories that have an index: the leaf of the name's hash takes it, is cut in two
//! when it is full, and the index grows where it must.
//!
//! Each step leaves a directory that is whole, so when there is no room for the next one nothing has
//! to be taken back.

use std::borrow::Cow;

use super::changing::{Block, Changing};
use super::entry::{ENTRY_BYTES_MIN, NewEntry};
use super::insert::put;
use super::leaf::{self, Cut, Hashed};
use super::region::{self, Broken, Placed};
use super::{block, casefold};
use crate::block::FileBlock;
use crate::error::{Error, ErrorKind, InInode, Result, Structure, malformed};
use crate::features::Incompatible;
use crate::htree::{self, Algorithm, NameHash, Next, Step, Way};
use crate::inode::InodeFlags;

/// How many times the way to a leaf is looked for: once for each level that may have to be cut in
/// two, and once for each that may be added.
const WAYS_MAX: usize = 8;

/// Adds an entry to a directory that has an index.
pub(super) fn insert(directory: &mut Changing<'_, '_>, new: &NewEntry<'_>) -> Result<()> {
    let index = block::htree_directory(directory.volume(), directory.inode);
    let hashed = hashed(directory, new.name);
    for _ in 0..WAYS_MAX {
        let Some(way) = Way::find(&index, directory, &hashed)? else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the directory's index is sorted by hashes that take a key",
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
            Next::Add(step) => {
                let upper = split_leaf(directory, &leaf, &entries, cut, (new, way.hash))?;
                return add_entry(directory, &index, step, cut.index_hash(), upper);
            }
            Next::Split { parent, full } => split_node(directory, &index, parent, full)?,
            Next::Deepen { levels } => deepen(directory, &index, levels)?,
            Next::Full => return Err(full(directory)),
        }
    }
    let problem = "it does not take what was made room for";
    Err(malformed(Structure::HtreeBlock(FileBlock(0)), problem)).in_inode(directory.inode.number)
}

fn full(directory: &Changing<'_, '_>) -> Error {
    let e = directory.full("the directory's index is full");
    let features = directory.volume().superblock.features;
    if features.has(Incompatible::LARGE_DIR) {
        e
    } else {
        e.with_hint("the feature `large_dir` allows larger ones")
    }
}

/// What a name's hash is of.
fn hashed<'n>(directory: &Changing<'_, '_>, name: &'n [u8]) -> Cow<'n, [u8]> {
    if directory.inode.has(InodeFlags::CASEFOLD) {
        casefold::hashed(name)
    } else {
        Cow::Borrowed(name)
    }
}

/// Makes the first block of a directory, which is full, the root of an index; its entries go to a leaf,
/// which takes one more.
pub(super) fn begin(
    directory: &mut Changing<'_, '_>,
    block: &Block,
    algorithm: Algorithm,
    new: &NewEntry<'_>,
) -> Result<()> {
    let superblock = &directory.volume().superblock;
    let behind_dots = behind_dots(directory, block)?;
    let leaf = directory.append_entries(|region| {
        region::pack(superblock, region, behind_dots.into_iter());
    })?;
    let index = block::htree_directory(directory.volume(), directory.inode);
    directory.inode.flags.insert(InodeFlags::INDEX);
    directory.change(block, |bytes| {
        index.put_root(bytes, algorithm, leaf.number);
    })?;
    insert(directory, new)
}

/// The entries of block 0 behind those of `.` and `..`.
fn behind_dots<'b>(directory: &Changing<'_, '_>, block: &'b Block) -> Result<Vec<&'b [u8]>> {
    let mut entries = entries_in_use(directory, block)?.into_iter();
    let dot = entries.next().map(|placed| placed.entry);
    let dot_dot = entries.next().map(|placed| placed.entry.name);
    // The root's fields stand at fixed places behind them.
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

/// The entries of a block, but those that are not in use.
fn entries_in_use<'b>(directory: &Changing<'_, '_>, block: &'b Block) -> Result<Vec<Placed<'b>>> {
    let superblock = &directory.volume().superblock;
    let start = block::start_of(directory.volume(), block.number);
    region::in_use(superblock, directory.entries(block))
        .collect::<std::result::Result<_, _>>()
        .map_err(|broken: Broken| broken.in_directory(directory.inode, start))
}

/// Cuts a full index block in two.
fn split_node(
    directory: &mut Changing<'_, '_>,
    index: &htree::Directory,
    parent: Step,
    full: Step,
) -> Result<()> {
    let lower = directory.block(full.block)?;
    let (hash, upper) = index.upper_half(full, &lower.bytes)?;
    let upper = directory.append(upper)?;
    directory.change(&lower, |bytes| index.cut_upper_half(full, bytes))?;
    add_entry(directory, index, parent, hash, upper.number)
}

/// Puts another level of index blocks below the root.
fn deepen(directory: &mut Changing<'_, '_>, index: &htree::Directory, levels: u8) -> Result<()> {
    let root = directory.block(FileBlock(0))?;
    let below = index.below_root(&root.bytes)?;
    let below = directory.append(below)?;
    directory.change(&root, |bytes| index.deepen(levels, bytes, below.number))
}

fn add_entry(
    directory: &Changing<'_, '_>,
    index: &htree::Directory,
    step: Step,
    hash: u32,
    below: FileBlock,
) -> Result<()> {
    let block = directory.block(step.block)?;
    directory.change(&block, |bytes| index.add_entry(step, bytes, hash, below))
}

/// Cuts a full leaf in two, and adds an entry to the half that its hash belongs to. Returns where the
/// upper half is.
fn split_leaf(
    directory: &mut Changing<'_, '_>,
    leaf: &Block,
    entries: &[Hashed<'_>],
    cut: Cut,
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

/// Has a leaf hold these entries, one directly behind the other.
fn fill(
    directory: &Changing<'_, '_>,
    leaf: &Block,
    entries: &[Hashed<'_>],
    new: Option<&NewEntry<'_>>,
) -> Result<()> {
    let superblock = &directory.volume().superblock;
    directory.change_entries(leaf, |region| {
        leaf::fill(superblock, region, entries, new);
    })
}

/// The entries of a leaf with their hashes.
fn hashed_entries<'b>(
    directory: &Changing<'_, '_>,
    way: &Way,
    leaf: &'b Block,
) -> Result<Vec<Hashed<'b>>> {
    let entries = entries_in_use(directory, leaf)?.into_iter();
    let hashed = entries.map(|placed| Hashed {
        hash: way.hasher.hash(&hashed(directory, placed.entry.name)),
        placed,
    });
    Ok(hashed.collect())
}
