//! Regions of entries, which the entries fill exactly: a directory block without its tail, or a
//! part of an inline directory.

use diskfs_vfs::{FileType, InodeNumber};

use super::entry::{self, Entry, NewEntry, bytes_for, put_unused, set_len};
use crate::bytes::{len_u64, put};
use crate::error::{Corrupt, Error};
use crate::inode::Inode;
use crate::superblock::Superblock;

/// An invalid entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidEntry {
    offset: usize,
    problem: &'static str,
}

impl InvalidEntry {
    /// Converts it into an error; `start` is where the region begins, in bytes of the directory.
    pub(super) fn in_directory(self, directory: &Inode, start: u64) -> Error {
        let entry = start.saturating_add(len_u64(self.offset));
        let problem = self.problem;
        Error::from(Corrupt::DirectoryEntry { entry, problem })
            .in_inode(InodeNumber(u64::from(directory.number)))
    }
}

/// An entry, and where it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedEntry<'a> {
    pub(super) offset: usize,
    pub(super) entry: Entry<'a>,
    /// All bytes that the entry covers.
    bytes: &'a [u8],
}

impl<'a> PlacedEntry<'a> {
    /// Returns the entry's bytes, only as many as it needs.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes.get(..self.needs()).unwrap_or(self.bytes)
    }

    /// Returns the number of bytes that the entry covers.
    const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes that the entry needs.
    pub(super) fn needs(&self) -> usize {
        if self.entry.inode == 0 {
            0
        } else {
            bytes_for(self.entry.name.len())
        }
    }
}

/// The entries of a region, including unused ones. The iterator ends after the first error.
#[derive(Debug)]
pub(super) struct Entries<'s, 'a> {
    superblock: &'s Superblock,
    region: &'a [u8],
    next: usize,
}

/// Returns all entries of a region.
pub(super) fn entries<'s, 'a>(superblock: &'s Superblock, region: &'a [u8]) -> Entries<'s, 'a> {
    Entries {
        superblock,
        region,
        next: 0,
    }
}

impl<'a> Iterator for Entries<'_, 'a> {
    type Item = Result<PlacedEntry<'a>, InvalidEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.next;
        if offset >= self.region.len() {
            return None;
        }
        match Entry::parse(self.superblock, self.region, offset) {
            Ok(entry) => {
                self.next = entry.end;
                Some(Ok(PlacedEntry {
                    offset,
                    entry,
                    bytes: self.region.get(offset..entry.end).unwrap_or_default(),
                }))
            }
            Err(problem) => {
                self.next = self.region.len();
                Some(Err(InvalidEntry { offset, problem }))
            }
        }
    }
}

/// Returns the entries of a region that are in use.
pub(super) fn in_use<'s, 'a>(
    superblock: &'s Superblock,
    region: &'a [u8],
) -> impl Iterator<Item = Result<PlacedEntry<'a>, InvalidEntry>> + use<'s, 'a> {
    entries(superblock, region)
        .filter(|placed| !matches!(placed, Ok(placed) if placed.entry.inode == 0))
}

/// The place for a new entry: the part that the entry at `offset` covers but does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FreeSpace {
    pub(super) offset: usize,
    /// The number of bytes that the existing entry keeps; 0 if it is unused.
    pub(super) kept: usize,
    pub(super) end: usize,
}

/// Returns the first place that has `needed` bytes, if there is one.
pub(super) fn room_for(
    superblock: &Superblock,
    region: &[u8],
    needed: usize,
) -> Result<Option<FreeSpace>, InvalidEntry> {
    for placed in entries(superblock, region) {
        let placed = placed?;
        let kept = placed.needs();
        if placed.len().saturating_sub(kept) >= needed {
            return Ok(Some(FreeSpace {
                offset: placed.offset,
                kept,
                end: placed.entry.end,
            }));
        }
    }
    Ok(None)
}

/// Writes an entry to a place that has room for it.
pub(super) fn insert(
    superblock: &Superblock,
    region: &mut [u8],
    room: FreeSpace,
    new: &NewEntry<'_>,
) {
    let FreeSpace { offset, kept, end } = room;
    if kept != 0 {
        set_len(superblock, region, offset, kept);
    }
    let start = offset.saturating_add(kept);
    new.put(superblock, region, start, end.saturating_sub(start));
}

/// Fills a region with entries, each as many bytes as it needs, one directly after the other. The
/// last one covers the rest, which is returned.
pub(super) fn pack<'e>(
    superblock: &Superblock,
    region: &mut [u8],
    entries: impl Iterator<Item = &'e [u8]>,
) -> FreeSpace {
    let end = region.len();
    put_unused(superblock, region, 0, end);
    let mut last = (0, 0);
    let mut start = 0;
    for entry in entries {
        put(region, start, entry);
        set_len(superblock, region, start, entry.len());
        last = (start, entry.len());
        start = start.saturating_add(entry.len());
    }
    let (offset, kept) = last;
    set_len(superblock, region, offset, end.saturating_sub(offset));
    FreeSpace { offset, kept, end }
}

/// An entry that was found, and the entry before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundEntry {
    pub(super) inode: u32,
    offset: usize,
    end: usize,
    before: Option<usize>,
}

impl FoundEntry {
    /// Returns the result for a name that exists without an entry (`.` and `..` of inline
    /// directories).
    pub(super) const fn implied(inode: u32) -> Self {
        Self {
            inode,
            offset: 0,
            end: 0,
            before: None,
        }
    }
}

/// Returns the entry in use for whose name `is_it` returns true, if there is one.
pub(super) fn find(
    superblock: &Superblock,
    region: &[u8],
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<FoundEntry>, InvalidEntry> {
    let mut before = None;
    for placed in entries(superblock, region) {
        let PlacedEntry { offset, entry, .. } = placed?;
        if entry.inode != 0 && is_it(entry.name) {
            return Ok(Some(FoundEntry {
                inode: entry.inode,
                offset,
                end: entry.end,
                before,
            }));
        }
        before = Some(offset);
    }
    Ok(None)
}

/// Removes an entry: the entry before it also covers its bytes, which become zeroes.
pub(super) fn remove(superblock: &Superblock, region: &mut [u8], found: FoundEntry) {
    let len = found.end.saturating_sub(found.offset);
    put_unused(superblock, region, found.offset, len);
    if let Some(before) = found.before {
        region
            .get_mut(found.offset..found.end)
            .unwrap_or_default()
            .fill(0);
        set_len(superblock, region, before, found.end.saturating_sub(before));
    }
}

/// Makes an entry that was found refer to another inode.
pub(super) fn replace(
    superblock: &Superblock,
    region: &mut [u8],
    found: FoundEntry,
    inode: u32,
    file_type: FileType,
) {
    entry::set_inode(superblock, region, found.offset, inode, file_type);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::tests::sample;

    fn superblock() -> Superblock {
        Superblock::parse(&sample(), 4 << 20).unwrap()
    }

    fn new(name: &[u8]) -> NewEntry<'_> {
        NewEntry {
            inode: 12,
            name,
            file_type: FileType::Regular,
        }
    }

    fn names(region: &[u8]) -> Vec<Vec<u8>> {
        let superblock = superblock();
        entries(&superblock, region)
            .map(|placed| placed.unwrap().entry)
            .filter(|entry| entry.inode != 0)
            .map(|entry| entry.name.to_vec())
            .collect()
    }

    #[test]
    fn names_come_and_go() {
        let superblock = superblock();
        let mut region = [0; 56];
        put_unused(&superblock, &mut region, 0, 56);
        for name in [&b"one"[..], b"three", b"seven"] {
            let new = new(name);
            let room = room_for(&superblock, &region, new.bytes()).unwrap();
            insert(&superblock, &mut region, room.unwrap(), &new);
        }
        assert_eq!(names(&region), [&b"one"[..], b"three", b"seven"]);
        assert_eq!(room_for(&superblock, &region, 16), Ok(None));
        let found = |region: &[u8], name: &[u8]| {
            find(&superblock, region, |stored| stored == name).unwrap()
        };
        let three = found(&region, b"three").unwrap();
        replace(&superblock, &mut region, three, 77, FileType::Fifo);
        assert_eq!(found(&region, b"three").unwrap().inode, 77);
        remove(&superblock, &mut region, three);
        assert_eq!(found(&region, b"three"), None);
        assert!(room_for(&superblock, &region, 16).unwrap().is_some());
        // The first entry has no predecessor that could cover its bytes.
        let one = found(&region, b"one").unwrap();
        remove(&superblock, &mut region, one);
        assert_eq!(names(&region), [b"seven"]);
        assert_eq!(&region[8..28], [0; 20]);
        let again = new(b"twenty bytes");
        let room = room_for(&superblock, &region, again.bytes()).unwrap();
        insert(&superblock, &mut region, room.unwrap(), &again);
        assert_eq!(names(&region), [&b"twenty bytes"[..], b"seven"]);
    }

    #[test]
    fn a_broken_entry_is_reported_once() {
        let superblock = superblock();
        let mut region = [0; 56];
        put_unused(&superblock, &mut region, 0, 20);
        let all: Vec<_> = entries(&superblock, &region).collect();
        assert!(matches!(
            all[..],
            [Ok(_), Err(InvalidEntry { offset: 20, .. })]
        ));
        assert!(room_for(&superblock, &region, 24).is_err());
    }
}
