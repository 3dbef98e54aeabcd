//! The entries of an htree leaf while it is split or packed.

use super::entry::NewEntry;
use super::region::{self, PlacedEntry};
use crate::htree::NameHash;
use crate::superblock::Superblock;

/// An entry in use, with the hash of its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashedEntry<'a> {
    pub(super) hash: NameHash,
    pub(super) placed: PlacedEntry<'a>,
}

/// The position at which a leaf is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeafSplit {
    /// The index of the first entry that moves to the new block.
    pub(super) at: usize,
    /// The lowest hash in the new block.
    pub(super) hash: NameHash,
    /// True if entries with the same hash remain in the old block.
    pub(super) continued: bool,
}

impl LeafSplit {
    /// Returns the hash of the new block's index entry.
    pub(super) fn index_hash(&self) -> u32 {
        self.hash.0 | u32::from(self.continued)
    }
}

/// Sorts entries by hash, and returns where to split them so that both halves have room for one
/// more. Returns `None` if packing makes enough room in the one block, which has `room` bytes.
///
/// The halves are computed in bytes: each has at most half of the room plus half an entry, and an
/// entry takes at most about a quarter of the smallest block.
pub(super) fn cut(
    entries: &mut [HashedEntry<'_>],
    room: usize,
    needed: usize,
) -> Option<LeafSplit> {
    let bytes = |entries: &[HashedEntry<'_>]| -> usize {
        entries.iter().map(|entry| entry.placed.needs()).sum()
    };
    if bytes(entries).saturating_add(needed) <= room {
        return None;
    }
    entries.sort_by_key(|entry| entry.hash);
    let mut upper: usize = 0;
    let mut before = &*entries;
    while let [rest @ .., last] = before
        && !rest.is_empty()
    {
        let needs = last.placed.needs();
        if upper.saturating_add(needs.wrapping_div(2)) > room.wrapping_div(2) {
            break;
        }
        upper = upper.saturating_add(needs);
        before = rest;
    }
    let at = before.len();
    let hash = entries.get(at)?.hash;
    Some(LeafSplit {
        at,
        hash,
        continued: before_is(entries, at, hash),
    })
}

fn before_is(entries: &[HashedEntry<'_>], at: usize, hash: NameHash) -> bool {
    let before = at.checked_sub(1).and_then(|before| entries.get(before));
    before.is_some_and(|before| before.hash == hash)
}

/// Fills a block with these entries and, if there is one, the new entry after them. It has room.
pub(super) fn fill(
    superblock: &Superblock,
    region: &mut [u8],
    entries: &[HashedEntry<'_>],
    new: Option<&NewEntry<'_>>,
) {
    let entries = entries.iter().map(|entry| entry.placed.bytes());
    let room = region::pack(superblock, region, entries);
    if let Some(new) = new {
        region::insert(superblock, region, room, new);
    }
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::FileType;

    use super::*;
    use crate::directory::entry::put_unused;
    use crate::superblock::tests::sample;

    const ROOM: usize = 1012;

    fn superblock() -> Superblock {
        Superblock::parse(&sample(), 4 << 20).unwrap()
    }

    /// Returns a block that is full of names of these lengths.
    fn full(lens: &[usize]) -> Vec<u8> {
        let superblock = superblock();
        let mut bytes = vec![0; ROOM];
        put_unused(&superblock, &mut bytes, 0, ROOM);
        for (nth, &len) in lens.iter().enumerate() {
            let name = vec![b'a' + u8::try_from(nth).unwrap(); len];
            let new = NewEntry {
                inode: 12,
                name: &name,
                file_type: FileType::Regular,
            };
            let room = region::room_for(&superblock, &bytes, new.bytes()).unwrap();
            region::insert(&superblock, &mut bytes, room.unwrap(), &new);
        }
        bytes
    }

    fn hashed<'a>(
        superblock: &'a Superblock,
        bytes: &'a [u8],
        hash: impl Fn(&[u8]) -> u32,
    ) -> Vec<HashedEntry<'a>> {
        region::entries(superblock, bytes)
            .map(|placed| placed.unwrap())
            .filter(|placed| placed.entry.inode != 0)
            .map(|placed| HashedEntry {
                hash: NameHash(hash(placed.entry.name)),
                placed,
            })
            .collect()
    }

    #[test]
    fn both_sides_have_room_for_the_longest_name() {
        let superblock = superblock();
        for lens in [
            &[255, 255, 255, 200][..],
            &[1, 1, 255, 255, 255, 180],
            &[255, 255, 255, 1, 1, 1, 150],
            &[30; 25],
        ] {
            let bytes = full(lens);
            let mut entries = hashed(&superblock, &bytes, |name| u32::from(name[0]) * 2);
            let cut = cut(&mut entries, ROOM, 264).unwrap();
            assert!(!cut.continued);
            assert_eq!(cut.hash, entries[cut.at].hash);
            let (lower, upper) = entries.split_at(cut.at);
            let mut count = 0;
            for half in [lower, upper] {
                let mut region = vec![0xff; ROOM];
                fill(&superblock, &mut region, half, None);
                let found = region::room_for(&superblock, &region, 264).unwrap();
                assert!(found.is_some(), "{lens:?}");
                count += hashed(&superblock, &region, |_| 0).len();
            }
            assert_eq!(count, lens.len());
        }
    }

    #[test]
    fn colliding_names_go_on_in_the_next_leaf() {
        let superblock = superblock();
        let bytes = full(&[100; 9]);
        let mut entries = hashed(&superblock, &bytes, |_| 8);
        let cut = cut(&mut entries, ROOM, 108).unwrap();
        assert_eq!((cut.hash, cut.continued), (NameHash(8), true));
    }

    #[test]
    fn holes_are_used_first() {
        let superblock = superblock();
        let mut bytes = full(&[100; 9]);
        for name in [b'b', b'd'] {
            let found = region::find(&superblock, &bytes, |stored| stored[0] == name);
            region::remove(&superblock, &mut bytes, found.unwrap().unwrap());
        }
        assert_eq!(region::room_for(&superblock, &bytes, 264), Ok(None));
        let mut entries = hashed(&superblock, &bytes, |_| 8);
        assert_eq!(cut(&mut entries, ROOM, 252), None);
        let mut packed = vec![0xff; ROOM];
        fill(&superblock, &mut packed, &entries, None);
        assert!(
            region::room_for(&superblock, &packed, 252)
                .unwrap()
                .is_some()
        );
    }
}
