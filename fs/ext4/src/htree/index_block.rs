//! The contents of an index block, for a check of the whole index.

use super::dx_root::{self, DxRoot};
use super::hash::Algorithm;
use super::lookup::Directory;
use super::{dx_node, dx_tail};
use crate::block::FileBlock;
use crate::error::Result;

/// The root or an index block of an indexed directory.
#[derive(Debug)]
pub(crate) struct IndexBlock {
    /// The entries: the hash with which each begins, and the directory block that it refers to. The
    /// hash of the first entry is not stored, and is 0 here.
    pub(crate) entries: Vec<(u32, FileBlock)>,
    /// True if the checksum matches, or the filesystem has none.
    pub(crate) is_checksum_valid: bool,
}

/// The root's properties of the whole index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexRoot {
    /// The hash function, or `None` for `SipHash`, which needs the directory's encryption key.
    pub(crate) algorithm: Option<Algorithm>,
    /// The number of levels of index blocks between the root and the leaves.
    pub(crate) levels: u8,
}

/// Parses the start of the root.
///
/// # Errors
/// `Corrupt` if it is invalid.
pub(crate) fn index_root(directory: &Directory, bytes: &[u8]) -> Result<IndexRoot> {
    let root = DxRoot::parse(bytes, directory.block_size, directory.levels_max)
        .map_err(|reason| directory.malformed(FileBlock(0), &reason))?;
    Ok(IndexRoot {
        algorithm: root.algorithm,
        levels: root.levels,
    })
}

/// Parses the table of the root (block 0) or of an index block.
///
/// # Errors
/// `Corrupt` if its count or limit is invalid.
pub(crate) fn index_block(
    directory: &Directory,
    block: FileBlock,
    bytes: &[u8],
) -> Result<IndexBlock> {
    let offset = if block == FileBlock(0) {
        dx_root::TABLE_OFFSET
    } else {
        dx_node::TABLE_OFFSET
    };
    let table = directory.table(block, bytes, offset)?;
    let is_checksum_valid = directory.checksum.is_none_or(|seed| {
        let checksums = dx_tail::checksums(bytes, offset, &table, seed);
        checksums.stored == checksums.computed
    });
    let entry = |position| {
        let hash = if position == 0 {
            0
        } else {
            table.hash(position)?
        };
        Some((hash, table.block(position)?))
    };
    Ok(IndexBlock {
        entries: (0..table.count()).filter_map(entry).collect(),
        is_checksum_valid,
    })
}

/// Returns true if the block begins like an index block below the root.
pub(crate) fn is_node(directory: &Directory, bytes: &[u8]) -> bool {
    dx_node::is_node(bytes, directory.block_size)
}
