//! The space that a tree of files needs in a filesystem whose block size is not known yet.

use crate::bytes::{index, len_u64};
use crate::file_blocks::{map_blocks_for, tree_blocks_for};

/// The binary logarithm of the smallest block size.
const UNIT_BITS_MIN: u32 = 10;
/// The number of block sizes: 1 KiB to 64 KiB.
const BLOCK_SIZES: usize = 7;
/// The number of cluster sizes: 1 KiB to 512 MiB.
const UNIT_SIZES: usize = 20;
/// The granularity with which the host reports holes.
const HOST_BLOCK_BYTES: u64 = 4096;
/// The length of an extent that is assumed for a file, in blocks: a nearly full filesystem has no
/// longer free runs.
const EXTENT_BLOCKS: u64 = 1024;
/// The maximum length of a symlink's target that is stored in the inode.
const FAST_SYMLINK_BYTES: u64 = 59;
/// The room for attributes in an inode of 256 bytes.
const INODE_XATTR_BYTES: u64 = 92;
/// The number of inodes that the filesystem itself uses: ten reserved ones, `lost+found`, and the
/// orphan file. The root directory is reserved, but also part of the tree.
const OWN_INODES: u64 = 12;

/// The blocks that a tree needs besides the contents of its files, for one block size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct MetadataBlocks {
    extent_trees: u64,
    block_maps: u64,
    directories: u64,
    symlinks: u64,
    xattrs: u64,
    /// The blocks of attributes that only inodes of 128 bytes cannot contain.
    small_xattrs: u64,
}

/// The needs of a tree of files: what [`fitting_size`](super::fitting_size) needs to know. Each
/// file, directory and symlink of the tree is added once, hard links only with their first name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeUsage {
    inodes: u64,
    directories: u64,
    /// The number of clusters of file contents, for each cluster size.
    data: [u64; UNIT_SIZES],
    metadata: [MetadataBlocks; BLOCK_SIZES],
}

impl TreeUsage {
    /// Returns the usage of an empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a number of inodes with which the tree has enough. As
    /// [`FormatOptions::inodes`](super::FormatOptions::inodes), it prevents that a tree of many
    /// small files needs a larger device for the sake of its inodes.
    pub fn inodes(&self) -> u64 {
        // Each group has a multiple of 8 inodes, which may be less than its share.
        const ROUNDING: u64 = 64;
        const SHARE: u64 = 32;
        self.inodes_with_own()
            .saturating_add(self.inodes.wrapping_div(SHARE))
            .saturating_add(ROUNDING)
    }

    /// Returns the number of inodes that the tree and the filesystem itself need.
    pub(super) fn inodes_with_own(&self) -> u64 {
        self.inodes.saturating_add(OWN_INODES)
    }

    /// Adds a regular file of `len_bytes`, of which `allocated_bytes` are not holes.
    pub fn add_file(&mut self, len_bytes: u64, allocated_bytes: u64) {
        self.add_inode();
        let allocated = allocated_bytes.min(len_bytes);
        let pieces = if allocated < len_bytes {
            allocated.div_ceil(HOST_BLOCK_BYTES)
        } else {
            0
        };
        for (bits, data) in (UNIT_BITS_MIN..).zip(&mut self.data) {
            *data = data.saturating_add(units(len_bytes, allocated, pieces, bits));
        }
        for (bits, metadata) in (UNIT_BITS_MIN..).zip(&mut self.metadata) {
            let blocks = units(len_bytes, allocated, pieces, bits);
            let extents = blocks
                .div_ceil(EXTENT_BLOCKS)
                .saturating_add(pieces.min(blocks));
            let block_bytes = 1u64.wrapping_shl(bits);
            let nodes = tree_blocks_for(extents, index(block_bytes));
            metadata.extent_trees = metadata.extent_trees.saturating_add(nodes);
            let all = len_bytes.div_ceil(block_bytes);
            // A data block has at most three levels of the map above it.
            let map =
                map_blocks_for(all, block_bytes.wrapping_div(4)).min(blocks.saturating_mul(3));
            metadata.block_maps = metadata.block_maps.saturating_add(map);
        }
    }

    /// Adds a directory whose names have these lengths in bytes.
    pub fn add_directory(&mut self, name_lens: impl IntoIterator<Item = usize>) {
        const DOTS_BYTES: u64 = 24;
        self.add_inode();
        self.directories = self.directories.saturating_add(1);
        let entry = |len: usize| len_u64(len.saturating_add(8).next_multiple_of(4));
        let bytes = name_lens
            .into_iter()
            .map(entry)
            .fold(DOTS_BYTES, u64::saturating_add);
        for (bits, metadata) in (UNIT_BITS_MIN..).zip(&mut self.metadata) {
            let blocks = directory_blocks(bytes, 1u64.wrapping_shl(bits));
            metadata.directories = metadata.directories.saturating_add(blocks);
        }
    }

    /// Adds a symlink with a target of `len_bytes`.
    pub fn add_symlink(&mut self, len_bytes: u64) {
        self.add_inode();
        if len_bytes > FAST_SYMLINK_BYTES {
            for metadata in &mut self.metadata {
                metadata.symlinks = metadata.symlinks.saturating_add(1);
            }
        }
    }

    /// Adds a device, a FIFO or a socket.
    pub fn add_special(&mut self) {
        self.add_inode();
    }

    /// Adds the extended attributes of one of the added files: the number of bytes of all names and
    /// values.
    pub fn add_xattrs(&mut self, count: u64, len_bytes: u64) {
        const ENTRY_BYTES: u64 = 20;
        let bytes = count.saturating_mul(ENTRY_BYTES).saturating_add(len_bytes);
        for (bits, metadata) in (UNIT_BITS_MIN..).zip(&mut self.metadata) {
            let blocks = bytes.div_ceil(1u64.wrapping_shl(bits));
            if bytes > INODE_XATTR_BYTES {
                metadata.xattrs = metadata.xattrs.saturating_add(blocks);
            } else {
                metadata.small_xattrs = metadata.small_xattrs.saturating_add(blocks);
            }
        }
    }

    fn add_inode(&mut self) {
        self.inodes = self.inodes.saturating_add(1);
    }

    /// Returns the number of clusters that the tree needs.
    pub(super) fn clusters(&self, form: TreeForm) -> u64 {
        let place = |bits: u32| index(bits.saturating_sub(UNIT_BITS_MIN));
        let metadata = self.metadata.get(place(form.block_bits)).copied();
        let metadata = metadata.unwrap_or_default();
        let maps = if form.has_extents {
            metadata.extent_trees
        } else {
            metadata.block_maps
        };
        let small_xattrs = if form.has_large_inodes {
            0
        } else {
            metadata.small_xattrs
        };
        let data = self.data.get(place(form.cluster_bits)).copied();
        let parts = [
            maps,
            small_xattrs,
            self.directory_clusters(form, metadata.directories),
            metadata.symlinks,
            metadata.xattrs,
        ];
        parts
            .into_iter()
            .fold(data.unwrap_or(0), u64::saturating_add)
    }

    /// Returns the number of clusters of the directories: blocks of one directory share them.
    fn directory_clusters(&self, form: TreeForm, blocks: u64) -> u64 {
        match form.cluster_bits.saturating_sub(form.block_bits) {
            0 => blocks,
            bits => blocks.wrapping_shr(bits).saturating_add(self.directories),
        }
    }
}

/// The properties of a filesystem on which the space for a tree depends.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeForm {
    /// The binary logarithm of the block size in bytes.
    pub(super) block_bits: u32,
    /// The binary logarithm of the cluster size in bytes.
    pub(super) cluster_bits: u32,
    pub(super) has_extents: bool,
    /// True if inodes have room for attributes.
    pub(super) has_large_inodes: bool,
}

/// Returns the number of blocks or clusters of `2^bits` bytes of a file; `pieces` is the number of
/// the host's blocks of a file with holes.
fn units(len_bytes: u64, allocated_bytes: u64, pieces: u64, bits: u32) -> u64 {
    let unit_bytes = 1u64.wrapping_shl(bits);
    let all = len_bytes.div_ceil(unit_bytes);
    if pieces == 0 {
        return allocated_bytes.div_ceil(unit_bytes);
    }
    // Each block of the host may be in a block or cluster of its own.
    let in_piece = HOST_BLOCK_BYTES.div_ceil(unit_bytes);
    all.min(pieces.saturating_mul(in_piece))
}

/// Returns the number of blocks of a directory whose entries need `bytes`. Leaves of an index are
/// halved when they are full, so on average they are little more than half full.
fn directory_blocks(bytes: u64, block_bytes: u64) -> u64 {
    const TAIL_BYTES: u64 = 12;
    const FILL_PERCENT: u64 = 55;
    const INDEX_ENTRY_BYTES: u64 = 8;
    let room = block_bytes.saturating_sub(TAIL_BYTES);
    if bytes <= room {
        return 1;
    }
    let filled = room.saturating_mul(FILL_PERCENT).max(1);
    let leaves = bytes.saturating_mul(100).div_ceil(filled);
    let index_filled = block_bytes
        .saturating_mul(FILL_PERCENT)
        .wrapping_div(100)
        .max(1);
    let index_blocks = leaves
        .saturating_mul(INDEX_ENTRY_BYTES)
        .div_ceil(index_filled);
    leaves.saturating_add(index_blocks).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(block_bits: u32) -> TreeForm {
        TreeForm {
            block_bits,
            cluster_bits: block_bits,
            has_extents: true,
            has_large_inodes: true,
        }
    }

    #[test]
    fn each_block_size_has_its_needs() {
        let mut usage = TreeUsage::new();
        usage.add_file(5000, 5000);
        usage.add_file(1 << 30, 8192);
        usage.add_symlink(60);
        usage.add_directory([1000; 2]);
        usage.add_xattrs(1, 20);
        assert_eq!(usage.inodes_with_own(), 4 + OWN_INODES);
        assert_eq!(usage.clusters(form(12)), 2 + 2 + 1 + 1);
        assert_eq!(usage.clusters(form(16)), 1 + 2 + 1 + 1);
        let small = TreeForm {
            has_large_inodes: false,
            ..form(12)
        };
        assert_eq!(usage.clusters(small), 2 + 2 + 1 + 1 + 1);
    }

    #[test]
    fn large_directories_have_an_index() {
        assert_eq!(directory_blocks(4084, 4096), 1);
        assert_eq!(directory_blocks(4085, 4096), 2 + 1 + 1);
    }
}
