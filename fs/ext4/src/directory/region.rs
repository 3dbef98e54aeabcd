//! A run of entries that fills its bytes exactly: a directory block without its tail, or a part of an
//! inline directory.

use diskfs_vfs::{FileType, InodeNumber};

use super::entry::{self, Entry, NewEntry, bytes_for, put_unused, set_len};
use crate::bytes::{len_u64, put};
use crate::error::{Corrupt, Error};
use crate::inode::Inode;
use crate::superblock::Superblock;

/// An entry that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken {
    offset: usize,
    problem: &'static str,
}

impl Broken {
    /// As an error; `start` is where the region begins, in bytes of the directory.
    pub(super) fn in_directory(self, directory: &Inode, start: u64) -> Error {
        let entry = start.saturating_add(len_u64(self.offset));
        let problem = self.problem;
        Error::from(Corrupt::DirectoryEntry { entry, problem })
            .in_inode(InodeNumber(u64::from(directory.number)))
    }
}

/// An entry, and where it begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) offset: usize,
    pub(super) entry: Entry<'a>,
    /// What it covers.
    bytes: &'a [u8],
}

impl<'a> Placed<'a> {
    /// Its bytes, as many as it needs.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes.get(..self.needs()).unwrap_or(self.bytes)
    }

    /// How many bytes it covers.
    const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How many bytes of them it needs.
    pub(super) fn needs(&self) -> usize {
        if self.entry.inode == 0 {
            0
        } else {
            bytes_for(self.entry.name.len())
        }
    }
}

/// The entries of a region, those that are not in use among them. Ends after the first error.
#[derive(Debug)]
pub(super) struct Entries<'s, 'a> {
    superblock: &'s Superblock,
    region: &'a [u8],
    next: usize,
}

/// All entries of a region.
pub(super) fn entries<'s, 'a>(superblock: &'s Superblock, region: &'a [u8]) -> Entries<'s, 'a> {
    Entries {
        superblock,
        region,
        next: 0,
    }
}

impl<'a> Iterator for Entries<'_, 'a> {
    type Item = Result<Placed<'a>, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.next;
        if offset >= self.region.len() {
            return None;
        }
        match Entry::parse(self.superblock, self.region, offset) {
            Ok(entry) => {
                self.next = entry.end;
                Some(Ok(Placed {
                    offset,
                    entry,
                    bytes: self.region.get(offset..entry.end).unwrap_or_default(),
                }))
            }
            Err(problem) => {
                self.next = self.region.len();
                Some(Err(Broken { offset, problem }))
            }
        }
    }
}

/// The entries of a region that are in use.
pub(super) fn in_use<'s, 'a>(
    superblock: &'s Superblock,
    region: &'a [u8],
) -> impl Iterator<Item = Result<Placed<'a>, Broken>> + use<'s, 'a> {
    entries(superblock, region)
        .filter(|placed| !matches!(placed, Ok(placed) if placed.entry.inode == 0))
}

/// Where a new entry goes: behind what the entry at `offset` needs of what it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) offset: usize,
    /// 0 when that entry is not in use.
    pub(super) kept: usize,
    pub(super) end: usize,
}

/// The first place that has `needed` bytes, if there is one.
pub(super) fn room_for(
    superblock: &Superblock,
    region: &[u8],
    needed: usize,
) -> Result<Option<Room>, Broken> {
    for placed in entries(superblock, region) {
        let placed = placed?;
        let kept = placed.needs();
        if placed.len().saturating_sub(kept) >= needed {
            return Ok(Some(Room {
                offset: placed.offset,
                kept,
                end: placed.entry.end,
            }));
        }
    }
    Ok(None)
}

/// Puts an entry where there is room for it.
pub(super) fn insert(superblock: &Superblock, region: &mut [u8], room: Room, new: &NewEntry<'_>) {
    let Room { offset, kept, end } = room;
    if kept != 0 {
        set_len(superblock, region, offset, kept);
    }
    let start = offset.saturating_add(kept);
    new.put(superblock, region, start, end.saturating_sub(start));
}

/// Fills a region with entries, each as many bytes as it needs, one directly behind the other. The last
/// one covers the rest, which is returned.
pub(super) fn pack<'e>(
    superblock: &Superblock,
    region: &mut [u8],
    entries: impl Iterator<Item = &'e [u8]>,
) -> Room {
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
    Room { offset, kept, end }
}

/// An entry that was found, and the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) inode: u32,
    offset: usize,
    end: usize,
    before: Option<usize>,
}

impl Found {
    /// What stands for an entry that is not there but holds.
    pub(super) const fn implied(inode: u32) -> Self {
        Self {
            inode,
            offset: 0,
            end: 0,
            before: None,
        }
    }
}

/// The entry in use whose name `is_it`, if there is one.
pub(super) fn find(
    superblock: &Superblock,
    region: &[u8],
    mut is_it: impl FnMut(&[u8]) -> bool,
) -> Result<Option<Found>, Broken> {
    let mut before = None;
    for placed in entries(superblock, region) {
        let Placed { offset, entry, .. } = placed?;
        if entry.inode != 0 && is_it(entry.name) {
            return Ok(Some(Found {
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

/// Takes an entry out: the one before it covers its bytes, too, which become zeroes.
pub(super) fn remove(superblock: &Superblock, region: &mut [u8], found: Found) {
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

/// Has an entry that was found name another inode.
pub(super) fn replace(
    superblock: &Superblock,
    region: &mut [u8],
    found: Found,
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
        // The first one has nobody to take its bytes.
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
    fn a_broken_entry_is_told_once() {
        let superblock = superblock();
        let mut region = [0; 56];
        put_unused(&superblock, &mut region, 0, 20);
        let all: Vec<_> = entries(&superblock, &region).collect();
        assert!(matches!(all[..], [Ok(_), Err(Broken { offset: 20, .. })]));
        assert!(room_for(&superblock, &region, 24).is_err());
    }
}
