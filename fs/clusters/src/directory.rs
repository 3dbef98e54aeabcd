//! The in-memory index of a directory's names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use diskfs_block::bytes::{index, len_u64};
use diskfs_vfs::Result;
use foldhash::HashMap;

use crate::low32;
use crate::place::{ENTRY_BYTES, ENTRY_LEN, EntryPlace, RawEntry};
use crate::sectors::Sectors;

/// The number of bytes of a directory to read at once.
const PIECE_BYTES: u64 = 64 * 1024;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name as a listing shows it.
    pub displayed: Vec<u8>,
    /// The case-folded name: equal for names that differ in case alone.
    pub key: Vec<u16>,
    /// The case-folded alias of the file (FAT's short name), if it differs from `key`.
    pub alias: Option<Vec<u16>>,
    /// The slots of the name's directory entries.
    pub slots: Range<u32>,
    /// True for a directory.
    pub is_directory: bool,
    /// The place of the head entry, from which the file's inode number is derived.
    pub place: EntryPlace,
}

impl Name {
    /// Returns the keys by which the name is found.
    pub fn keys(&self) -> impl Iterator<Item = &Vec<u16>> {
        std::iter::once(&self.key).chain(&self.alias)
    }
}

/// The space that a new name needs in a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotRequest {
    /// The number of slots that the name needs.
    pub(crate) count: u32,
    /// The number of its first slots that must be in one sector.
    pub(crate) head: u32,
    /// The number of slots per sector.
    pub(crate) per_sector: u32,
}

/// A run of slots that are consecutive on the device.
#[derive(Debug, Clone, Copy)]
struct SlotRun {
    first: u32,
    offset: u64,
}

/// The names of a directory, indexed by the slot of their head entry and by their keys.
#[derive(Debug, Clone, Default)]
pub struct Directory {
    runs: Vec<SlotRun>,
    names: BTreeMap<u32, Name>,
    by_key: HashMap<Vec<u16>, u32>,
    /// Further names with a key that `by_key` has already: on a damaged filesystem, or one that
    /// another program wrote.
    others: BTreeSet<(Vec<u16>, u32)>,
    used: Vec<bool>,
    /// The first slot that was never used: from here on the device has only zeroes.
    end: u32,
    subdirectories: u32,
    /// The last search for free slots: how many slots, and where it found them. No run of as many
    /// free slots starts before that, until one of the slots there is freed.
    searched: (u32, u32),
}

impl Directory {
    /// Returns an empty directory whose slots are in the given runs (offset and length in bytes).
    pub fn new(runs: &[(u64, u64)]) -> Self {
        let mut directory = Self::default();
        for (offset, len_bytes) in runs {
            directory.add_room(*offset, *len_bytes);
        }
        directory
    }

    /// Reads the entries in these runs until `decode` returns false. `decode` adds the names that
    /// it decodes to the directory, and keeps in `A` the state of a name that has several entries.
    ///
    /// # Errors
    /// `Io` if the device fails.
    pub fn read<A: Default>(
        sectors: &Sectors,
        runs: &[(u64, u64)],
        mut decode: impl FnMut(&mut Self, u32, &RawEntry, &mut A) -> bool,
    ) -> Result<Self> {
        let mut directory = Self::new(runs);
        let mut assembly = A::default();
        for_each_entry(sectors, runs, |slot, _, raw| {
            decode(&mut directory, slot, raw, &mut assembly)
        })?;
        Ok(directory)
    }

    /// Adds a run of unused slots.
    pub(crate) fn add_room(&mut self, offset: u64, len_bytes: u64) {
        let first = self.slots();
        let count = low32(len_bytes / ENTRY_BYTES);
        self.runs.push(SlotRun { first, offset });
        self.used.resize(index(first.saturating_add(count)), false);
    }

    /// Returns the number of slots, used and free.
    pub(crate) fn slots(&self) -> u32 {
        low32(self.used.len())
    }

    /// Returns the number of subdirectories.
    pub(crate) const fn subdirectories(&self) -> u32 {
        self.subdirectories
    }

    /// Returns the place on the device of a slot.
    pub fn place(&self, slot: u32) -> EntryPlace {
        let nth = self.runs.partition_point(|run| run.first <= slot);
        let run = nth.checked_sub(1).and_then(|nth| self.runs.get(nth));
        let offset = run.map_or(0, |run| {
            let within = u64::from(slot.saturating_sub(run.first)).saturating_mul(ENTRY_BYTES);
            run.offset.saturating_add(within)
        });
        EntryPlace::at(offset)
    }

    /// Marks a slot as used or as deleted. Either way the slot is no longer one that was never
    /// used.
    pub fn set_used(&mut self, slot: u32, used: bool) {
        self.end = self.end.max(slot.saturating_add(1));
        self.mark(slot, used);
    }

    fn mark(&mut self, slot: u32, used: bool) {
        if let Some(place) = self.used.get_mut(index(slot)) {
            *place = used;
        }
        if !used && slot < self.searched.1 {
            self.searched = (0, 0);
        }
    }

    /// Adds a name whose head entry is in `slot`.
    pub fn put(&mut self, slot: u32, name: Name) {
        for nth in name.slots.clone() {
            self.set_used(nth, true);
        }
        for key in name.keys() {
            let first = *self.by_key.entry(key.clone()).or_insert(slot);
            if first != slot {
                self.others.insert((key.clone(), slot));
            }
        }
        self.subdirectories = self
            .subdirectories
            .saturating_add(u32::from(name.is_directory));
        self.names.insert(slot, name);
    }

    /// Removes the name whose head is in `slot`, and frees its slots.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Name> {
        let name = self.names.remove(&slot)?;
        for nth in name.slots.clone() {
            self.mark(nth, false);
        }
        for key in name.keys() {
            self.forget_key(key, slot);
        }
        self.subdirectories = self
            .subdirectories
            .saturating_sub(u32::from(name.is_directory));
        Some(name)
    }

    /// Removes the key of the name in `slot` from the index. If another name has the same key,
    /// lookups find that one from now on.
    fn forget_key(&mut self, key: &[u16], slot: u32) {
        if self.by_key.get(key) != Some(&slot) {
            self.others.remove(&(key.to_vec(), slot));
            return;
        }
        let mut next = None;
        if !self.others.is_empty() {
            let from = (key.to_vec(), 0);
            let found = self.others.range(from..).next();
            next = found.filter(|(other, _)| other == key).cloned();
        }
        match next {
            Some(other) => {
                self.others.remove(&other);
                self.by_key.insert(other.0, other.1);
            }
            None => drop(self.by_key.remove(key)),
        }
    }

    /// Returns true if a name has this key.
    pub fn has_key(&self, key: &[u16]) -> bool {
        self.by_key.contains_key(key)
    }

    /// Returns the name with this key, and the slot of its head.
    pub(crate) fn find(&self, key: &[u16]) -> Option<(u32, &Name)> {
        let slot = *self.by_key.get(key)?;
        self.names.get(&slot).map(|name| (slot, name))
    }

    /// Returns the name whose head entry is in `slot`.
    pub(crate) fn name(&self, slot: u32) -> Option<&Name> {
        self.names.get(&slot)
    }

    /// Returns the names whose heads are in `slot` or after it.
    pub(crate) fn names_from(&self, slot: u32) -> impl Iterator<Item = (u32, &Name)> {
        self.names.range(slot..).map(|(slot, name)| (*slot, name))
    }

    /// Returns true if there are no names.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the number of slots that have ever been in use; the slots after them are zeroes.
    pub(crate) const fn end(&self) -> u32 {
        self.end
    }

    /// Finds consecutive free slots for a name and returns the first. Prefers slots within one
    /// sector, so that the name is written, or lost, as a whole; the head's slots are within one
    /// sector in any case.
    pub(crate) fn find_free(&mut self, room: SlotRequest) -> Option<u32> {
        let SlotRequest {
            count,
            head,
            per_sector,
        } = room;
        let whole = count <= per_sector;
        let start = match self.searched {
            (before, slot) if before <= count && whole == (before <= per_sector) => slot,
            _ => 0,
        };
        let mut free: u32 = 0;
        let slots = self.used.get(index(start)..).unwrap_or_default();
        for (slot, used) in (start..).zip(slots) {
            let begins_sector = slot.checked_rem(per_sector) == Some(0);
            if *used || (whole && begins_sector) {
                free = 0;
            }
            if *used {
                continue;
            }
            free = free.saturating_add(1);
            let first = slot.saturating_add(1).saturating_sub(count);
            let within = first.checked_rem(per_sector).unwrap_or(0);
            if free >= count && (whole || within.saturating_add(head) <= per_sector) {
                self.searched = (count, first);
                return Some(first);
            }
        }
        None
    }

    /// Finds free slots as [`find_free`](Self::find_free) does, but within the sector that contains
    /// `slot`. The slots of the name whose head is in `slot` count as free, unless some of them are
    /// in a later sector.
    pub(crate) fn find_free_in_sector(&self, slot: u32, room: SlotRequest) -> Option<u32> {
        let own = &self.names.get(&slot)?.slots;
        let start = slot.saturating_sub(slot.checked_rem(room.per_sector)?);
        let end = start.saturating_add(room.per_sector).min(self.slots());
        if own.end > end {
            return None;
        }
        let mut free: u32 = 0;
        for nth in start..end {
            let used = self.used.get(index(nth)).copied().unwrap_or(true) && !own.contains(&nth);
            free = if used { 0 } else { free.saturating_add(1) };
            if free == room.count {
                return Some(nth.saturating_add(1).saturating_sub(room.count));
            }
        }
        None
    }

    /// Returns the approximate memory that the directory takes, in bytes.
    pub(crate) fn cost(&self) -> u64 {
        const OF_A_NAME: u64 = 350;
        len_u64(self.names.len())
            .saturating_mul(OF_A_NAME)
            .saturating_add(len_u64(self.used.len()))
    }
}

/// Calls `look` with each entry in these runs and its slot, until the end or until `look` returns
/// false.
pub fn for_each_entry(
    sectors: &Sectors,
    runs: &[(u64, u64)],
    mut look: impl FnMut(u32, EntryPlace, &RawEntry) -> bool,
) -> Result<()> {
    let mut slot: u32 = 0;
    for (offset, len_bytes) in runs {
        let end = offset.saturating_add(*len_bytes);
        let mut at = *offset;
        while at < end {
            let bytes = sectors.read_run(at, end.saturating_sub(at).min(PIECE_BYTES))?;
            let (entries, _) = bytes.as_chunks::<ENTRY_LEN>();
            for entry in entries {
                if at >= end {
                    break;
                }
                if !look(slot, EntryPlace::at(at), entry) {
                    return Ok(());
                }
                slot = slot.saturating_add(1);
                at = at.saturating_add(ENTRY_BYTES);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(shown: &str, alias: Option<&str>, slot: u32) -> Name {
        let key = |text: &str| text.encode_utf16().collect();
        Name {
            displayed: shown.as_bytes().to_vec(),
            key: key(shown),
            alias: alias.map(key),
            slots: slot..slot + 1,
            is_directory: false,
            place: EntryPlace(u64::from(slot)),
        }
    }

    #[test]
    fn names_of_one_key_are_found_one_after_the_other() {
        let mut directory = Directory::new(&[(512, 512)]);
        let key: Vec<u16> = "A~1".encode_utf16().collect();
        for (slot, shown, alias) in [(0, "A~1", None), (3, "long", Some("A~1")), (5, "A~1", None)] {
            directory.put(slot, name(shown, alias, slot));
        }
        for slot in [0, 3, 5] {
            assert_eq!(directory.find(&key).unwrap().0, slot);
            directory.remove(slot).unwrap();
        }
        assert!(!directory.has_key(&key) && directory.others.is_empty());
    }

    #[test]
    fn room_is_searched_where_it_may_be() {
        let mut directory = Directory::new(&[(512, 2048)]);
        let put = |directory: &mut Directory, count| {
            let room = SlotRequest {
                count,
                head: 1,
                per_sector: 16,
            };
            let first = directory.find_free(room).unwrap();
            let mut name = name(&first.to_string(), None, first);
            name.slots = first..first + count;
            directory.put(first, name);
            first
        };
        let found = [5, 5, 5, 5, 1, 2, 20, 3].map(|count| put(&mut directory, count));
        assert_eq!(found, [0, 5, 10, 16, 15, 21, 23, 43]);
        directory.remove(5).unwrap();
        assert_eq!([4, 1].map(|count| put(&mut directory, count)), [5, 9]);
    }
}
