//! Attributes in blocks: one leaf, or leaves below nodes.

use std::sync::Arc;

use crate::bmap::extents_from;
use crate::directory::index::{IndexBlock, IndexView, check_identity, check_records, kind};
use crate::error::{Result, corrupt};
use crate::inode::{ForkKind, Inode};
use crate::metadata_cache::{BlockKind, Key};
use crate::superblock::Superblock;
use crate::volume::Volume;

use super::leaf::{Leaf, Value};
use super::name::AttributeName;
use super::remote;

/// The maximum number of levels of nodes, `XFS_DA_NODE_MAXDEPTH`.
const LEVELS_MAX: usize = 5;
/// The maximum number of leaves that are read one after the other. The names in so many have more
/// than the 1 MiB that is listed at most, unless most of the leaves are almost empty.
const LEAVES_MAX: usize = 1 << 16;

/// Returns the checked block of the attribute fork at a file block.
fn read(volume: &Volume, inode: &Inode, file_block: u64) -> Result<Arc<[u8]>> {
    let key = Key {
        kind: BlockKind::Attributes,
        owner: inode.number,
        place: file_block,
    };
    volume.metadata.get_or_make(&key, || -> Result<Arc<[u8]>> {
        let at = place(volume, inode, file_block)?;
        let bytes = volume.read_bytes(at, volume.superblock.block_len())?;
        check(&volume.superblock, inode, &bytes, at)?;
        Ok(bytes)
    })
}

/// Returns the byte of the device of a block of the attribute fork.
fn place(volume: &Volume, inode: &Inode, file_block: u64) -> Result<u64> {
    let mut extents = extents_from(volume, inode, ForkKind::Attributes, file_block);
    let extent = extents.next().transpose()?;
    extent
        .and_then(|extent| {
            let skipped = file_block.checked_sub(extent.file_block)?;
            volume.superblock.byte_of(extent.first.after(skipped))
        })
        .ok_or_else(|| inode.corrupt(format!("attribute block {file_block} is missing")))
}

fn check(superblock: &Superblock, inode: &Inode, bytes: &[u8], at: u64) -> Result<()> {
    const NAME: &str = "attribute block";
    let invalid = |what: &str| corrupt(format!("invalid {NAME}: {what}"), at);
    let kind = check_identity(superblock, inode, bytes, NAME, at)?;
    let checked = match kind {
        IndexBlock::AttributeLeaf => Leaf::of(superblock, bytes).check(),
        IndexBlock::Node => check_records(superblock, bytes, kind),
        IndexBlock::Leaf | IndexBlock::SingleLeaf => None,
    };
    checked.ok_or_else(|| invalid("invalid or unsorted entries"))
}

/// Goes down the tree to the first leaf that may have entries with this hash.
fn leaf(volume: &Volume, inode: &Inode, hash: u32) -> Result<Option<Arc<[u8]>>> {
    let superblock = &volume.superblock;
    let mut block = read(volume, inode, 0)?;
    let mut level = None;
    for _ in 0..=LEVELS_MAX {
        let is_leaf = kind(superblock, &block) == Some(IndexBlock::AttributeLeaf);
        let view = IndexView::of(superblock, &block);
        let actual = if is_leaf { 0 } else { view.level() };
        if level.is_some_and(|level| level != actual) {
            break;
        }
        if is_leaf {
            return Ok(Some(block));
        }
        let Some((_, child)) = view.record(view.search(hash)) else {
            return Ok(None);
        };
        level = actual.checked_sub(1);
        block = read(volume, inode, child.into())?;
    }
    Err(inode.corrupt("invalid tree of attributes: unexpected level"))
}

/// Returns the leaf after another one.
fn next_leaf(volume: &Volume, inode: &Inode, forward: u32) -> Result<Arc<[u8]>> {
    let block = read(volume, inode, forward.into())?;
    if kind(&volume.superblock, &block) == Some(IndexBlock::AttributeLeaf) {
        return Ok(block);
    }
    Err(inode.corrupt("invalid tree of attributes: expected a leaf"))
}

/// Returns the value of the attribute with a name.
pub(super) fn find(
    volume: &Volume,
    inode: &Inode,
    wanted: &AttributeName<'_>,
) -> Result<Option<Vec<u8>>> {
    if has_no_blocks(volume, inode)? {
        return Ok(None);
    }
    let hash = wanted.hash();
    let Some(mut block) = leaf(volume, inode, hash)? else {
        return Ok(None);
    };
    for _ in 0..LEAVES_MAX {
        let leaf = Leaf::of(&volume.superblock, &block);
        for nth in 0..leaf.count {
            if leaf.hash(nth) != Some(hash) {
                continue;
            }
            if let Some(attribute) = leaf.attribute(nth)
                && wanted.is(attribute.flags, attribute.name)
            {
                return value(volume, inode, attribute.value).map(Some);
            }
        }
        let last = leaf.count.checked_sub(1).and_then(|last| leaf.hash(last));
        if leaf.forward() == 0 || last.is_some_and(|last| last > hash) {
            return Ok(None);
        }
        block = next_leaf(volume, inode, leaf.forward())?;
    }
    Err(endless(inode))
}

fn has_no_blocks(volume: &Volume, inode: &Inode) -> Result<bool> {
    let first = extents_from(volume, inode, ForkKind::Attributes, 0).next();
    Ok(first.transpose()?.is_none())
}

fn value(volume: &Volume, inode: &Inode, value: Value<'_>) -> Result<Vec<u8>> {
    match value {
        Value::Local(bytes) => Ok(bytes.to_vec()),
        Value::Remote {
            file_block,
            len_bytes,
        } => remote::read(volume, inode, file_block, len_bytes),
    }
}

/// Passes flags and name of each attribute to `push`.
pub(super) fn list(
    volume: &Volume,
    inode: &Inode,
    push: &mut dyn FnMut(u8, &[u8]) -> Result<()>,
) -> Result<()> {
    let Some(mut block) = leaf(volume, inode, 0)? else {
        return Ok(());
    };
    let mut last = None;
    for _ in 0..LEAVES_MAX {
        let leaf = Leaf::of(&volume.superblock, &block);
        let first = leaf.hash(0);
        if first.is_some() && first < last {
            return Err(endless(inode));
        }
        for nth in 0..leaf.count {
            if let Some(attribute) = leaf.attribute(nth) {
                push(attribute.flags, attribute.name)?;
            }
            last = leaf.hash(nth);
        }
        if leaf.forward() == 0 {
            return Ok(());
        }
        block = next_leaf(volume, inode, leaf.forward())?;
    }
    Err(endless(inode))
}

fn endless(inode: &Inode) -> crate::error::Error {
    inode.corrupt("invalid tree of attributes: its leaves are not in order")
}
