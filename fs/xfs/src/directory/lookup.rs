//! Looking up a name in a directory by its hash.

use std::sync::Arc;

use crate::bytes::index;
use crate::error::Result;
use crate::inode::{Fork, Inode};
use crate::volume::Volume;

use super::block::{self, Part};
use super::data::{self, DataForm};
use super::hash::{da_hash, fold, folded_hash};
use super::index::{IndexBlock, IndexView, kind};
use super::short_form::ShortForm;
use super::{ENTRY_ALIGNMENT, INDEX_START};

/// The maximum number of leaves that are searched for one hash. With 500 records each, this is more
/// collisions than a directory has.
const LEAVES_MAX: usize = 4096;
/// The maximum number of levels of nodes, `XFS_DA_NODE_MAXDEPTH`.
const LEVELS_MAX: usize = 5;

/// Returns the inode that a name refers to.
///
/// # Errors
/// `Corrupt`; `Io`.
pub(crate) fn lookup(volume: &Volume, inode: &Inode, name: &[u8]) -> Result<Option<u64>> {
    if let Fork::Local(bytes) = &inode.data {
        return in_short_form(volume, inode, bytes, name);
    }
    let search = Search {
        volume,
        inode,
        name,
        ignores_case: volume.superblock.features.ignores_case(),
    };
    search.run()
}

fn in_short_form(volume: &Volume, inode: &Inode, bytes: &[u8], name: &[u8]) -> Result<Option<u64>> {
    let directory = ShortForm::parse(&volume.superblock, bytes)
        .ok_or_else(|| inode.corrupt("invalid directory in an inode: truncated header"))?;
    match name {
        b"." => return Ok(Some(inode.number)),
        b".." => return Ok(Some(directory.parent)),
        _ => {}
    }
    let ignores_case = volume.superblock.features.ignores_case();
    for entry in directory.entries() {
        let entry =
            entry.ok_or_else(|| inode.corrupt("invalid directory in an inode: invalid entry"))?;
        if is_same(entry.name, name, ignores_case) {
            return Ok(Some(entry.inode));
        }
    }
    Ok(None)
}

fn is_same(a: &[u8], b: &[u8], ignores_case: bool) -> bool {
    if ignores_case {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fold(*a) == fold(*b))
    } else {
        a == b
    }
}

/// A search in a directory that has blocks.
struct Search<'a> {
    volume: &'a Volume,
    inode: &'a Inode,
    name: &'a [u8],
    ignores_case: bool,
}

impl Search<'_> {
    fn run(&self) -> Result<Option<u64>> {
        let hash = if self.ignores_case {
            folded_hash(self.name)
        } else {
            da_hash(self.name)
        };
        let one_block = u64::from(self.volume.superblock.directory_block_bytes);
        if self.inode.size_bytes == one_block {
            let block = block::read(self.volume, self.inode, Part::Data, 0)?;
            if data::form(&self.volume.superblock, &block) == Some(DataForm::Block) {
                return self.among(IndexView::of_block_form(&block), hash);
            }
        }
        self.in_leaves(hash)
    }

    /// Returns the block of the index at a file block.
    fn index_block(&self, file_block: u64) -> Result<Arc<[u8]>> {
        block::read(self.volume, self.inode, Part::Index, file_block)
    }

    fn in_leaves(&self, hash: u32) -> Result<Option<u64>> {
        let superblock = &self.volume.superblock;
        let Some(mut leaf) = self.leaf(hash)? else {
            return Ok(None);
        };
        for _ in 0..LEAVES_MAX {
            let view = IndexView::of(superblock, &leaf);
            if let Some(found) = self.among(view, hash)? {
                return Ok(Some(found));
            }
            let single = kind(superblock, &leaf) == Some(IndexBlock::SingleLeaf);
            if single || !view.may_continue(hash) {
                return Ok(None);
            }
            leaf = self.index_block(view.forward().into())?;
            if kind(superblock, &leaf) != Some(IndexBlock::Leaf) {
                return Err(self
                    .inode
                    .corrupt("invalid index of a directory: expected a leaf"));
            }
        }
        Err(self
            .inode
            .corrupt("invalid index of a directory: its leaves have no end"))
    }

    /// Goes down the tree of the index to the first leaf that may have records with this hash.
    fn leaf(&self, hash: u32) -> Result<Option<Arc<[u8]>>> {
        let superblock = &self.volume.superblock;
        let mut block = self.index_block(INDEX_START.wrapping_shr(superblock.block_bits))?;
        let mut level = None;
        for _ in 0..=LEVELS_MAX {
            let kind = kind(superblock, &block);
            let view = IndexView::of(superblock, &block);
            let is_leaf = kind != Some(IndexBlock::Node);
            let actual = if is_leaf { 0 } else { view.level() };
            let fits = level.is_none_or(|level| level == actual);
            if !fits || (kind == Some(IndexBlock::SingleLeaf) && level.is_some()) {
                break;
            }
            if is_leaf {
                return Ok(Some(block));
            }
            let Some((_, child)) = view.record(view.search(hash)) else {
                return Ok(None);
            };
            level = actual.checked_sub(1);
            block = self.index_block(child.into())?;
        }
        Err(self
            .inode
            .corrupt("invalid index of a directory: unexpected level"))
    }

    /// Returns the inode of the entry with the name among the records with the hash.
    fn among(&self, records: IndexView<'_>, hash: u32) -> Result<Option<u64>> {
        for position in records.values(hash) {
            // Position 0 marks the record of a removed entry.
            if position == 0 {
                continue;
            }
            if let Some(inode) = self.at(position)? {
                return Ok(Some(inode));
            }
        }
        Ok(None)
    }

    /// Returns the inode of the entry at a position, if it has the name.
    fn at(&self, position: u32) -> Result<Option<u64>> {
        let superblock = &self.volume.superblock;
        let size = superblock.directory_block_bytes;
        let unit = u64::try_from(ENTRY_ALIGNMENT).unwrap_or(1);
        let byte = u64::from(position).saturating_mul(unit);
        // The size is a power of two.
        let within = byte & u64::from(size).wrapping_sub(1);
        let start = byte.saturating_sub(within);
        let file_block = start.wrapping_shr(superblock.block_bits);
        let block = block::read(self.volume, self.inode, Part::Data, file_block)?;
        let entry = data::entry_at(superblock, &block, index(within)).ok_or_else(|| {
            let what = "invalid index of a directory: no entry at byte";
            self.inode
                .corrupt(format!("{what} {byte:#x} of the directory"))
        })?;
        let found = is_same(entry.name, self.name, self.ignores_case);
        Ok(found.then_some(entry.inode))
    }
}
