//! Extent trees.
//!
//! The root is in the inode's `i_block`; below it are up to five levels of blocks. A walk goes down
//! one level at each step, so no loop in the image makes it go on; and each block must lie within
//! the range that its parent gives it, so it meets no block with entries twice.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Extent Tree".

use std::ops::Range;
use std::sync::Arc;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::{Run, Step};
use crate::block::{FileBlock, FsBlock};
use crate::bytes::{join64, le32};
use crate::error::{Corrupt, Result, Structure, malformed};
use crate::inode::Inode;
use crate::metadata_cache::Key;
use crate::superblock::Superblock;
use crate::volume::Volume;

/// `EXT4_EXT_MAGIC`.
const MAGIC: u16 = 0xf30a;
/// `EXT4_MAX_EXTENT_DEPTH`: five levels of 340 entries reach 2^32 blocks with one block each.
const DEPTH_MAX: u16 = 5;
/// Lengths above it mark an extent as unwritten.
const WRITTEN_LEN_MAX: u16 = 1 << 15;

/// `struct ext4_extent_header`.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawHeader {
    eh_magic: U16,
    eh_entries: U16,
    eh_max: U16,
    eh_depth: U16,
    eh_generation: U32,
}

/// `struct ext4_extent`.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawExtent {
    ee_block: U32,
    ee_len: U16,
    ee_start_hi: U16,
    ee_start_lo: U32,
}

/// `struct ext4_extent_idx`.
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
struct RawIndex {
    ei_block: U32,
    ei_leaf_lo: U32,
    ei_leaf_hi: U16,
    ei_unused: U16,
}

/// The header and each of the entries.
const ENTRY_BYTES: usize = 12;

const _: () = {
    assert!(size_of::<RawHeader>() == ENTRY_BYTES);
    assert!(size_of::<RawExtent>() == ENTRY_BYTES);
    assert!(size_of::<RawIndex>() == ENTRY_BYTES);
};

impl RawExtent {
    fn run(&self) -> Run {
        let len = self.ee_len.get();
        let written = len <= WRITTEN_LEN_MAX;
        Run {
            file_block: FileBlock(self.ee_block.get()),
            fs_block: FsBlock(join64(
                u32::from(self.ee_start_hi.get()),
                self.ee_start_lo.get(),
            )),
            len_blocks: u32::from(if written {
                len
            } else {
                len & (WRITTEN_LEN_MAX - 1)
            }),
            written,
        }
    }
}

impl RawIndex {
    fn child(&self) -> FsBlock {
        FsBlock(join64(
            u32::from(self.ei_leaf_hi.get()),
            self.ei_leaf_lo.get(),
        ))
    }
}

/// Where a node is, and with it how its bytes are held.
#[derive(Debug, Clone)]
enum NodeBytes<'a> {
    Root(&'a [u8; 60]),
    Block(Arc<[u8]>),
}

impl NodeBytes<'_> {
    fn get(&self) -> &[u8] {
        match self {
            Self::Root(bytes) => &bytes[..],
            Self::Block(bytes) => bytes,
        }
    }
}

/// A node of the tree that is being walked: its entries are checked, and the next one is known.
#[derive(Debug)]
struct Level<'a> {
    bytes: NodeBytes<'a>,
    depth: u16,
    entries: u16,
    next: usize,
    /// The file blocks that it may speak of.
    range: Range<u64>,
}

impl Level<'_> {
    fn extents(&self) -> &[RawExtent] {
        entries(self.bytes.get(), self.entries)
    }

    fn indices(&self) -> &[RawIndex] {
        entries(self.bytes.get(), self.entries)
    }

    /// The position of the entry to begin with in order to see block `from`.
    fn seek(&mut self, from: FileBlock) {
        self.next = if self.depth == 0 {
            self.extents()
                .partition_point(|extent| extent.run().end() <= u64::from(from.0))
        } else {
            self.indices()
                .partition_point(|index| index.ei_block.get() <= from.0)
                .saturating_sub(1)
        };
    }
}

/// The entries behind a header, as many as it says; they were found to lie within the bytes.
fn entries<T: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &[u8], count: u16) -> &[T] {
    let behind = bytes.get(ENTRY_BYTES..).unwrap_or_default();
    <[T]>::ref_from_prefix_with_elems(behind, usize::from(count)).map_or(&[], |(found, _)| found)
}

/// A walk along the extents of an inode.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    volume: &'a Volume,
    inode: &'a Inode,
    from: FileBlock,
    /// From the root down to the current node; empty before the first step and after the last.
    levels: Vec<Level<'a>>,
    started: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(volume: &'a Volume, inode: &'a Inode, from: FileBlock) -> Self {
        Self {
            volume,
            inode,
            from,
            levels: Vec::new(),
            started: false,
        }
    }

    /// The next extent, or one step closer to it. `None` at the end.
    pub(super) fn step(&mut self) -> Option<Result<Step>> {
        if !self.started {
            self.started = true;
            return Some(self.start());
        }
        let level = self.levels.last_mut()?;
        let position = level.next;
        level.next = position.saturating_add(1);
        if level.depth == 0 {
            if let Some(extent) = level.extents().get(position) {
                return Some(Ok(Step::Run(extent.run())));
            }
        } else if let Some(index) = level.indices().get(position) {
            let child = index.child();
            let end = level.indices().get(position.saturating_add(1));
            let end = end.map_or(level.range.end, |next| u64::from(next.ei_block.get()));
            let range = u64::from(index.ei_block.get())..end;
            let depth = level.depth.saturating_sub(1);
            return Some(self.descend(child, depth, range));
        }
        self.levels.pop();
        Some(Ok(Step::Nothing))
    }

    fn start(&mut self) -> Result<Step> {
        let structure = Structure::Inode(self.inode.number);
        let bytes = NodeBytes::Root(&self.inode.block);
        let header = header(structure, bytes.get())?;
        let depth = header.eh_depth.get();
        if depth > DEPTH_MAX {
            return Err(Corrupt::Field {
                structure,
                field: "eh_depth",
                value: u64::from(depth),
                range: "0 to 5",
            }
            .into());
        }
        self.push(structure, bytes, depth, 0..1 << 32)
    }

    fn descend(&mut self, block: FsBlock, depth: u16, range: Range<u64>) -> Result<Step> {
        let structure = Structure::ExtentBlock(block);
        let superblock = &self.volume.superblock;
        superblock.check_blocks(Structure::Inode(self.inode.number), block, 1)?;
        let key = Key::extent_block(self.inode.number, block);
        let bytes = self
            .volume
            .checked_block(key, |bytes| verify(self.inode, structure, bytes))?;
        self.push(structure, NodeBytes::Block(bytes), depth, range)
            .map_err(|e| e.at(superblock.block_size.byte_of(block)))
    }

    fn push(
        &mut self,
        structure: Structure,
        bytes: NodeBytes<'a>,
        depth: u16,
        range: Range<u64>,
    ) -> Result<Step> {
        let header = header(structure, bytes.get())?;
        if header.eh_depth.get() != depth {
            return Err(malformed(
                structure,
                "its depth is not one less than its parent's",
            ));
        }
        let mut level = Level {
            depth,
            entries: header.eh_entries.get(),
            next: 0,
            range,
            bytes,
        };
        if depth == 0 {
            check_extents(&self.volume.superblock, structure, &level)?;
        } else {
            check_indices(structure, &level)?;
        }
        level.seek(self.from);
        self.levels.push(level);
        Ok(Step::Nothing)
    }
}

/// A node's header, whose entries lie within the node.
fn header(structure: Structure, bytes: &[u8]) -> Result<&RawHeader> {
    let (header, rest) =
        RawHeader::ref_from_prefix(bytes).map_err(|_| malformed(structure, "it is cut short"))?;
    let magic = header.eh_magic.get();
    if magic != MAGIC {
        return Err(Corrupt::Magic {
            structure,
            expected: u32::from(MAGIC),
            actual: u32::from(magic),
        }
        .into());
    }
    let room = rest.len().wrapping_div(ENTRY_BYTES);
    let max = header.eh_max.get();
    if usize::from(max) > room || header.eh_entries.get() > max {
        return Err(Corrupt::Field {
            structure,
            field: "eh_entries",
            value: u64::from(header.eh_entries.get()),
            range: "0 to eh_max, and that to what has room",
        }
        .into());
    }
    Ok(header)
}

/// Checks the tail of an extent block, `struct ext4_extent_tail`: it stands behind as many entries
/// as there could be.
fn verify(inode: &Inode, structure: Structure, bytes: &[u8]) -> Result<()> {
    let header = header(structure, bytes)?;
    let Some(seed) = inode.checksum_seed else {
        return Ok(());
    };
    let entries = usize::from(header.eh_max.get()).saturating_add(1);
    let covered = entries.saturating_mul(ENTRY_BYTES);
    let expected = seed.of(&[bytes.get(..covered).unwrap_or_default()]);
    let Some(actual) = le32(bytes, covered) else {
        return Err(malformed(structure, "there is no room for its checksum"));
    };
    if expected == actual {
        return Ok(());
    }
    Err(Corrupt::Checksum {
        structure,
        expected,
        actual,
    }
    .into())
}

fn check_extents(superblock: &Superblock, structure: Structure, leaf: &Level<'_>) -> Result<()> {
    let mut free_from = leaf.range.start;
    for run in leaf.extents().iter().map(RawExtent::run) {
        if run.len_blocks == 0 {
            return Err(malformed(structure, "an extent has length 0"));
        }
        if u64::from(run.file_block.0) < free_from || run.end() > leaf.range.end {
            return Err(malformed(structure, "extents overlap or are out of order"));
        }
        superblock.check_blocks(structure, run.fs_block, u64::from(run.len_blocks))?;
        free_from = run.end();
    }
    Ok(())
}

fn check_indices(structure: Structure, node: &Level<'_>) -> Result<()> {
    if node.entries == 0 {
        return Err(malformed(
            structure,
            "an index node of the extent tree is empty",
        ));
    }
    let mut free_from = node.range.start;
    for index in node.indices() {
        let block = u64::from(index.ei_block.get());
        if block < free_from || block >= node.range.end {
            return Err(malformed(structure, "index entries are out of order"));
        }
        free_from = block.saturating_add(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
