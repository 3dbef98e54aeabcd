//! `struct dx_entry` and `struct dx_countlimit`: the table of a directory index block.
//!
//! The count and limit are stored in place of the first entry's hash, which counts as zero.

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Ref, Unaligned};

use crate::block::FileBlock;
use crate::bytes::join32;

use super::hash::NameHash;

/// `struct dx_entry` as it is stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDxEntry {
    hash: U32,
    block: U32,
}

/// `struct dx_countlimit` as it is stored: the first half of the first entry.
#[derive(Debug, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDxCountLimit {
    limit: U16,
    count: U16,
}

/// The size of `struct dx_entry`.
pub(super) const ENTRY_BYTES: usize = size_of::<RawDxEntry>();

/// The highest directory block that an entry can refer to: the upper four bits are reserved (the
/// kernel's `dx_get_block`).
pub(super) const BLOCK_MAX: FileBlock = FileBlock(0x0fff_ffff);

/// The reason why a table is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TableError {
    #[error("the entry table is not within the block")]
    Outside,
    #[error("limit is {found}, expected {expected}")]
    Limit { found: usize, expected: usize },
    #[error("count is {count}, expected 1 to {limit}")]
    Count { count: usize, limit: usize },
}

/// The table of an index block: `count` entries sorted by hash, at least one.
#[derive(Debug, Clone, Copy)]
pub(super) struct DxTable<'a> {
    entries: &'a [RawDxEntry],
    limit: usize,
}

impl<'a> DxTable<'a> {
    /// Parses the table at `offset` of `block`, which has room for exactly `limit` entries.
    pub(super) fn parse(block: &'a [u8], offset: usize, limit: usize) -> Result<Self, TableError> {
        let table = block.get(offset..).ok_or(TableError::Outside)?;
        let (head, _) = RawDxCountLimit::ref_from_prefix(table).map_err(|_| TableError::Outside)?;
        let found = usize::from(head.limit.get());
        let count = usize::from(head.count.get());
        if found != limit {
            return Err(TableError::Limit {
                found,
                expected: limit,
            });
        }
        if count == 0 || count > limit {
            return Err(TableError::Count { count, limit });
        }
        let (entries, _) = Ref::<_, [RawDxEntry]>::from_prefix_with_elems(table, count)
            .map_err(|_| TableError::Outside)?;
        Ok(Self {
            entries: Ref::into_ref(entries),
            limit,
        })
    }

    /// Returns the number of entries.
    pub(super) const fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the maximum number of entries; the checksum follows after them.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the position of the entry for `hash`: the last one that begins at or before it.
    pub(super) fn position_of(&self, hash: NameHash) -> usize {
        let after_first = self.entries.get(1..).unwrap_or_default();
        after_first.partition_point(|entry| entry.hash.get() <= hash.0)
    }

    /// Returns the hash with which the entry at `position` begins. Its low bit is set if names with
    /// that hash began in the leaf before.
    pub(super) fn hash(&self, position: usize) -> Option<u32> {
        self.entries.get(position).map(|entry| entry.hash.get())
    }

    /// Returns the directory block that the entry at `position` refers to.
    pub(super) fn block(&self, position: usize) -> Option<FileBlock> {
        let entry = self.entries.get(position)?;
        Some(FileBlock(entry.block.get() & BLOCK_MAX.0))
    }

    /// Returns the entries from `position` on, for another block's table.
    pub(super) fn from(&self, position: usize) -> Vec<DxEntry> {
        let entries = self.entries.get(position..).unwrap_or_default();
        entries.iter().copied().map(DxEntry).collect()
    }
}

/// An entry to be written to a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct DxEntry(RawDxEntry);

impl DxEntry {
    /// Returns an entry for names from `hash` on, which are below `block`.
    pub(super) fn new(hash: u32, block: FileBlock) -> Self {
        Self(RawDxEntry {
            hash: hash.into(),
            block: block.0.into(),
        })
    }
}

/// A table that is being changed, with all its room.
#[derive(Debug)]
pub(super) struct DxTableMut<'a> {
    room: &'a mut [RawDxEntry],
    count: usize,
}

impl<'a> DxTableMut<'a> {
    /// Returns the table at `offset` of `block`, which has `count` of at most `limit` entries.
    pub(super) fn new(
        block: &'a mut [u8],
        offset: usize,
        limit: usize,
        count: usize,
    ) -> Option<Self> {
        let table = block.get_mut(offset..)?;
        let (room, _) = Ref::<_, [RawDxEntry]>::from_prefix_with_elems(table, limit).ok()?;
        Some(Self {
            room: Ref::into_mut(room),
            count,
        })
    }

    /// Replaces all entries.
    pub(super) fn fill(&mut self, entries: &[DxEntry]) {
        for (place, entry) in self.room.iter_mut().zip(entries) {
            *place = entry.0;
        }
        self.truncate(entries.len());
    }

    /// Keeps only the first `count` entries.
    pub(super) fn truncate(&mut self, count: usize) {
        self.count = count.min(self.room.len());
        self.put_head();
    }

    /// Inserts an entry at `position`, which is not the first, if there is room.
    pub(super) fn insert(&mut self, position: usize, entry: DxEntry) {
        let end = self.count.saturating_add(1);
        if let Some(moved) = self.room.get_mut(position..end) {
            moved.rotate_right(1);
            if let Some(place) = moved.first_mut() {
                *place = entry.0;
            }
            self.count = end;
            self.put_head();
        }
    }

    /// Writes limit and count in place of the first hash.
    fn put_head(&mut self) {
        let limit = u16::try_from(self.room.len()).unwrap_or(u16::MAX);
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        if let Some(first) = self.room.first_mut() {
            first.hash.set(join32(count, limit));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a table's bytes, without its checksum.
    pub(crate) fn table(limit: u16, entries: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &(hash, block) in entries {
            bytes.extend(hash.to_le_bytes());
            bytes.extend(block.to_le_bytes());
        }
        bytes.resize(usize::from(limit) * ENTRY_BYTES, 0);
        bytes[..2].copy_from_slice(&limit.to_le_bytes());
        bytes[2..4].copy_from_slice(&u16::try_from(entries.len()).unwrap().to_le_bytes());
        bytes
    }

    #[test]
    fn finds_the_last_entry_at_or_below() {
        let bytes = table(5, &[(0, 7), (0x10, 8), (0x21, 9)]);
        let table = DxTable::parse(&bytes, 0, 5).unwrap();
        for (hash, position) in [(0, 0), (0xe, 0), (0x10, 1), (0x20, 1), (0x22, 2), (!1, 2)] {
            assert_eq!(table.position_of(NameHash(hash)), position, "{hash:#x}");
        }
        assert_eq!(table.block(2), Some(FileBlock(9)));
        assert_eq!(table.block(3), None);
    }

    #[test]
    fn changes() {
        let mut bytes = table(5, &[(0, 7), (0x10, 8), (0x21, 9)]);
        let mut changed = DxTableMut::new(&mut bytes, 0, 5, 3).unwrap();
        changed.insert(2, DxEntry::new(0x12, FileBlock(10)));
        assert_eq!(bytes, table(5, &[(0, 7), (0x10, 8), (0x12, 10), (0x21, 9)]));
        let upper = DxTable::parse(&bytes, 0, 5).unwrap().from(2);
        let mut other = vec![0; 40];
        let mut changed = DxTableMut::new(&mut other, 0, 5, 0).unwrap();
        changed.fill(&upper);
        assert_eq!(other, table(5, &[(0, 10), (0x21, 9)]));
        let mut changed = DxTableMut::new(&mut bytes, 0, 5, 4).unwrap();
        changed.truncate(2);
        let left = DxTable::parse(&bytes, 0, 5).unwrap();
        assert_eq!((left.count(), left.block(1)), (2, Some(FileBlock(8))));
        // The block has no room for a sixth entry.
        let mut bytes = table(2, &[(0, 7), (0x10, 8)]);
        let before = bytes.clone();
        let mut full = DxTableMut::new(&mut bytes, 0, 2, 2).unwrap();
        full.insert(1, DxEntry::new(4, FileBlock(9)));
        assert_eq!(bytes, before);
    }

    #[test]
    fn refuses_counts_and_limits_that_do_not_fit() {
        let entries = [(0, 1), (2, 2)];
        let parse = |limit, found| DxTable::parse(&table(found, &entries), 0, limit).err();
        assert_eq!(
            parse(5, 4),
            Some(TableError::Limit {
                found: 4,
                expected: 5
            })
        );
        let mut bytes = table(5, &entries);
        for count in [0u8, 6, 255] {
            bytes[2] = count;
            let count = usize::from(count);
            let got = DxTable::parse(&bytes, 0, 5).err();
            assert_eq!(got, Some(TableError::Count { count, limit: 5 }));
        }
        bytes[2] = 2;
        assert!(DxTable::parse(&bytes[..15], 0, 5).is_err());
        assert!(DxTable::parse(&bytes, 1000, 5).is_err());
    }
}
