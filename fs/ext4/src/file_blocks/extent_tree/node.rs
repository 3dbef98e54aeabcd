//! Nodes of an extent tree: a header, followed by entries of 12 bytes each. The entries are extents
//! in a leaf, and children in other nodes.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block::{FileBlock, FsBlock};
use crate::bytes::{join64, le32, low16, put, split32, split64};
use crate::checksum::ChecksumSeed;
use crate::error::{Corrupt, Result, Structure, malformed};
use crate::inode::Inode;
use crate::run::Run;

/// The magic of a node, `EXT4_EXT_MAGIC`.
pub(super) const MAGIC: u16 = 0xf30a;
/// The maximum depth, `EXT4_MAX_EXTENT_DEPTH`: five levels of 340 entries reach 2^32 blocks with
/// one block each.
pub(crate) const DEPTH_MAX: u16 = 5;
/// The maximum length of a written extent, `EXT_INIT_MAX_LEN`: larger lengths mark an extent as
/// unwritten.
const WRITTEN_LEN_MAX: u16 = 1 << 15;

/// The header of a node, `struct ext4_extent_header`.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawHeader {
    pub(crate) eh_magic: U16,
    pub(crate) eh_entries: U16,
    pub(crate) eh_max: U16,
    pub(crate) eh_depth: U16,
    eh_generation: U32,
}

/// An extent, `struct ext4_extent`.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawExtent {
    ee_block: U32,
    ee_len: U16,
    ee_start_hi: U16,
    ee_start_lo: U32,
}

/// A child, `struct ext4_extent_idx`.
#[derive(Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[expect(clippy::struct_field_names, reason = "the specification's names")]
#[repr(C)]
pub(crate) struct RawIndex {
    pub(crate) ei_block: U32,
    ei_leaf_lo: U32,
    ei_leaf_hi: U16,
    ei_unused: U16,
}

/// The common part of both kinds of entries: the first file block that they map, their key.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawEntry {
    pub(super) key: U32,
    rest: [u8; 8],
}

/// The size of the header and of each entry.
pub(crate) const ENTRY_BYTES: usize = 12;

const _: () = {
    assert!(size_of::<RawHeader>() == ENTRY_BYTES);
    assert!(size_of::<RawExtent>() == ENTRY_BYTES);
    assert!(size_of::<RawIndex>() == ENTRY_BYTES);
    assert!(size_of::<RawEntry>() == ENTRY_BYTES);
};

/// The number of entries that fit into the root.
pub(super) const ROOT_ENTRIES: usize = 4;

/// Returns the maximum number of blocks of an extent.
pub(super) const fn len_max(written: bool) -> u32 {
    // The length 2^15 is that of a written extent.
    if written { 1 << 15 } else { (1 << 15) - 1 }
}

impl RawExtent {
    pub(crate) fn run(&self) -> Run {
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
    pub(crate) fn child(&self) -> FsBlock {
        FsBlock(join64(
            u32::from(self.ei_leaf_hi.get()),
            self.ei_leaf_lo.get(),
        ))
    }
}

impl RawEntry {
    /// Returns the entry of an extent, whose length is within the maximum.
    pub(super) fn extent(run: &Run) -> Self {
        let (high, low) = split64(run.fs_block.0);
        let len = low16(run.len_blocks);
        let extent = RawExtent {
            ee_block: U32::new(run.file_block.0),
            ee_len: U16::new(if run.written {
                len
            } else {
                len | WRITTEN_LEN_MAX
            }),
            ee_start_hi: U16::new(split32(high).1),
            ee_start_lo: U32::new(low),
        };
        zerocopy::transmute!(extent)
    }

    /// Returns the entry of a child.
    pub(super) fn index(key: u32, child: FsBlock) -> Self {
        let (high, low) = split64(child.0);
        let index = RawIndex {
            ei_block: U32::new(key),
            ei_leaf_lo: U32::new(low),
            ei_leaf_hi: U16::new(split32(high).1),
            ei_unused: U16::new(0),
        };
        zerocopy::transmute!(index)
    }
}

/// Returns a node's header, after checking that its entries are within the node.
pub(crate) fn header(structure: Structure, bytes: &[u8]) -> Result<&RawHeader> {
    let (header, rest) =
        RawHeader::ref_from_prefix(bytes).map_err(|_| malformed(structure, "truncated"))?;
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
            range: "at most eh_max, and eh_max at most what the node has room for",
        }
        .into());
    }
    Ok(header)
}

/// Returns the entries after a header, as many as it counts; they were checked to be within the
/// bytes.
pub(crate) fn entries<T: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &[u8],
    count: u16,
) -> &[T] {
    let behind = bytes.get(ENTRY_BYTES..).unwrap_or_default();
    <[T]>::ref_from_prefix_with_elems(behind, usize::from(count)).map_or(&[], |(found, _)| found)
}

/// Returns all entries of a node.
pub(super) fn all_entries(bytes: &[u8]) -> &[RawEntry] {
    entries(bytes, count(bytes))
}

/// Returns all entries of a leaf.
pub(crate) fn extents(bytes: &[u8]) -> &[RawExtent] {
    entries(bytes, count(bytes))
}

/// Returns all entries of a node above the leaves.
pub(crate) fn indices(bytes: &[u8]) -> &[RawIndex] {
    entries(bytes, count(bytes))
}

fn count(bytes: &[u8]) -> u16 {
    RawHeader::ref_from_prefix(bytes).map_or(0, |(header, _)| header.eh_entries.get())
}

/// Returns the key of a node's first entry.
pub(super) fn first_key(bytes: &[u8]) -> Option<u32> {
    all_entries(bytes).first().map(|entry| entry.key.get())
}

/// Checks the tail of an extent block, `struct ext4_extent_tail`: it is after the maximum number of
/// entries.
pub(crate) fn verify(inode: &Inode, structure: Structure, bytes: &[u8]) -> Result<()> {
    let header = header(structure, bytes)?;
    let Some(seed) = inode.checksum_seed else {
        return Ok(());
    };
    let covered = tail_offset(header);
    let expected = seed.of(&[bytes.get(..covered).unwrap_or_default()]);
    let Some(actual) = le32(bytes, covered) else {
        return Err(malformed(structure, "no room for its checksum"));
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

fn tail_offset(header: &RawHeader) -> usize {
    let entries = usize::from(header.eh_max.get()).saturating_add(1);
    entries.saturating_mul(ENTRY_BYTES)
}

/// Writes the checksum into the tail of an extent block.
pub(in super::super) fn update_checksum(seed: Option<ChecksumSeed>, bytes: &mut [u8]) {
    let Some(seed) = seed else { return };
    let covered = RawHeader::ref_from_prefix(bytes).map_or(0, |(header, _)| tail_offset(header));
    let sum = seed.of(&[bytes.get(..covered).unwrap_or_default()]);
    put(bytes, covered, &sum.to_le_bytes());
}

/// Returns the root of an empty tree, for a new file.
pub(in super::super) fn empty_root() -> [u8; 60] {
    let mut root = [0; 60];
    fill(&mut root, 0, &[]);
    root
}

/// Writes a node with these entries over the previous contents. Entries that do not fit are left
/// out.
pub(super) fn fill(bytes: &mut [u8], depth: u16, new: &[RawEntry]) {
    bytes.fill(0);
    let room = bytes.len().wrapping_div(ENTRY_BYTES).saturating_sub(1);
    set_header(bytes, depth, u16::try_from(room).unwrap_or(u16::MAX));
    splice(bytes, 0, 0, new);
}

fn set_header(bytes: &mut [u8], depth: u16, max: u16) {
    if let Ok((header, _)) = RawHeader::mut_from_prefix(bytes) {
        header.eh_magic.set(MAGIC);
        header.eh_depth.set(depth);
        header.eh_max.set(max);
    }
}

/// Replaces `removed` entries from `position` on by `new`. Does nothing if they are outside of the
/// node, or the result does not fit.
pub(super) fn splice(bytes: &mut [u8], position: usize, removed: usize, new: &[RawEntry]) {
    let Ok((header, _)) = RawHeader::mut_from_prefix(bytes) else {
        return;
    };
    let (old, max) = (header.eh_entries.get(), header.eh_max.get());
    let kept = usize::from(old).checked_sub(removed);
    let count = kept.map(|kept| kept.saturating_add(new.len()));
    let Some(count) = count.and_then(|count| u16::try_from(count).ok()) else {
        return;
    };
    if count > max || position.saturating_add(removed) > usize::from(old) {
        return;
    }
    header.eh_entries.set(count);
    let Some(behind) = bytes.get_mut(ENTRY_BYTES..) else {
        return;
    };
    let most = old.max(count);
    let Ok((all, _)) = <[RawEntry]>::mut_from_prefix_with_elems(behind, usize::from(most)) else {
        return;
    };
    let (from, to) = (
        position.saturating_add(removed),
        position.saturating_add(new.len()),
    );
    all.copy_within(from..usize::from(old), to);
    if let Some(place) = all.get_mut(position..to) {
        place.copy_from_slice(new);
    }
    // Entries that are no longer in use must not be readable.
    if let Some(rest) = all.get_mut(usize::from(count)..) {
        rest.fill(RawEntry::ZERO);
    }
}

impl RawEntry {
    const ZERO: Self = Self {
        key: U32::ZERO,
        rest: [0; 8],
    };
}

/// Returns a node's depth; its header was checked.
pub(super) fn depth(bytes: &[u8]) -> u16 {
    RawHeader::ref_from_prefix(bytes).map_or(0, |(header, _)| header.eh_depth.get())
}

/// Returns the number of entries that fit into a node.
pub(super) fn max(bytes: &[u8]) -> usize {
    RawHeader::ref_from_prefix(bytes).map_or(0, |(header, _)| usize::from(header.eh_max.get()))
}

/// Returns the child of a node that has just one, and the child's depth.
pub(super) fn only_child(bytes: &[u8]) -> Option<(FsBlock, u16)> {
    let (header, _) = RawHeader::ref_from_prefix(bytes).ok()?;
    let depth = header.eh_depth.get().checked_sub(1)?;
    match indices(bytes) {
        [only] => Some((only.child(), depth)),
        _ => None,
    }
}

/// Makes a root that has become empty a leaf.
pub(super) fn set_depth(bytes: &mut [u8], depth: u16) {
    if let Ok((header, _)) = RawHeader::mut_from_prefix(bytes) {
        header.eh_depth.set(depth);
    }
}

/// Changes the keys of the entries from `position` on.
pub(super) fn change_keys(bytes: &mut [u8], position: usize, change: impl Fn(u32) -> u32) {
    let count = count(bytes);
    let Some(behind) = bytes.get_mut(ENTRY_BYTES..) else {
        return;
    };
    let found = <[RawEntry]>::mut_from_prefix_with_elems(behind, usize::from(count));
    let entries = found.map_or(&mut [][..], |(entries, _)| entries);
    for entry in entries.get_mut(position..).unwrap_or_default() {
        entry.key.set(change(entry.key.get()));
    }
}

/// Makes an entry refer to another child.
pub(super) fn set_child(bytes: &mut [u8], position: usize, child: FsBlock) {
    let key = all_entries(bytes)
        .get(position)
        .map(|entry| entry.key.get());
    if let Some(key) = key {
        splice(bytes, position, 1, &[RawEntry::index(key, child)]);
    }
}

/// Changes the key of one entry.
pub(super) fn set_key(bytes: &mut [u8], position: usize, key: u32) {
    let offset = position.saturating_add(1).saturating_mul(ENTRY_BYTES);
    put(bytes, offset, &key.to_le_bytes());
}
