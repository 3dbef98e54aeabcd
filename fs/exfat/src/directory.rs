//! A directory's names, as its entries tell them.

use std::collections::BTreeMap;

use diskfs_clusters::{ENTRY_BYTES, ENTRY_LEN, Place, Sectors};
use foldhash::HashMap;

use crate::bytes::{index, len_u64, low32};
use crate::directory_entry::{END, Entry, IN_USE};
use crate::entry_set::{Assembly, EntrySet};
use crate::error::Result;
use crate::file_name::{key_of, shown};
use crate::upcase_table::UpcaseTable;

/// The longest directory: 256 MiB (exFAT specification, 7.4.4).
pub(crate) const MAX_BYTES: u64 = 256 << 20;
/// What is read of a directory at once.
const PIECE_BYTES: u64 = 64 * 1024;

/// One name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// As it is shown.
    pub(crate) shown: String,
    pub(crate) key: Vec<u16>,
    /// How many entries its file has.
    pub(crate) slots: u32,
    pub(crate) is_directory: bool,
    /// Where the first of them is.
    pub(crate) place: Place,
}

impl Name {
    /// The name that a set gives its file, if it is one that can be shown.
    pub(crate) fn of(set: &EntrySet, place: Place, upcase: &UpcaseTable) -> Option<Self> {
        let shown = shown(&set.name_units())?;
        Some(Self {
            key: key_of(&shown, upcase),
            shown,
            slots: low32(set.len()),
            is_directory: set.file.is_directory(),
            place,
        })
    }
}

/// Slots that follow each other on the device.
#[derive(Debug, Clone, Copy)]
struct SlotRun {
    first: u32,
    offset: u64,
}

/// The names of a directory, by their first slot and by name without regard to case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    runs: Vec<SlotRun>,
    names: BTreeMap<u32, Name>,
    by_key: HashMap<Vec<u16>, u32>,
    used: Vec<bool>,
    /// No slot is in use from here on, and the device says so with zeroes.
    end: u32,
    pub(crate) subdirectories: u32,
}

impl Directory {
    /// Reads the directory whose entries are in these runs: offset and length in bytes.
    pub(crate) fn read(
        sectors: &Sectors,
        runs: &[(u64, u64)],
        upcase: &UpcaseTable,
    ) -> Result<Self> {
        let mut directory = Self::default();
        for (offset, len_bytes) in runs {
            directory.add_room(*offset, *len_bytes);
        }
        let mut assembly = Assembly::default();
        let mut slot: u32 = 0;
        for_each_entry(sectors, runs, |_, entry| {
            let more = directory.take(slot, entry, &mut assembly, upcase);
            slot = slot.saturating_add(1);
            more
        })?;
        Ok(directory)
    }

    /// Room for more entries, none of them in use.
    pub(crate) fn add_room(&mut self, offset: u64, len_bytes: u64) {
        let first = self.slots();
        let count = low32(len_bytes / ENTRY_BYTES);
        self.runs.push(SlotRun { first, offset });
        self.used.resize(index(first.saturating_add(count)), false);
    }

    /// How many entries there is room for.
    pub(crate) fn slots(&self) -> u32 {
        low32(self.used.len())
    }

    /// Takes one entry in. Returns whether there may be more.
    fn take(
        &mut self,
        slot: u32,
        entry: &Entry,
        assembly: &mut Assembly,
        upcase: &UpcaseTable,
    ) -> bool {
        let [kind, ..] = *entry;
        if kind == END {
            return false;
        }
        self.end = slot.saturating_add(1);
        self.set_used(slot, kind & IN_USE != 0);
        if let Some(set) = assembly.take(entry) {
            let first = slot.saturating_add(1).saturating_sub(low32(set.len()));
            if let Some(name) = Name::of(&set, self.place(first), upcase) {
                self.put(first, name);
            }
        }
        true
    }

    /// Where a slot is on the device.
    pub(crate) fn place(&self, slot: u32) -> Place {
        let nth = self.runs.partition_point(|run| run.first <= slot);
        let run = nth.checked_sub(1).and_then(|nth| self.runs.get(nth));
        let offset = run.map_or(0, |run| {
            let within = u64::from(slot.saturating_sub(run.first)).saturating_mul(ENTRY_BYTES);
            run.offset.saturating_add(within)
        });
        Place::at(offset)
    }

    fn set_used(&mut self, slot: u32, used: bool) {
        if let Some(place) = self.used.get_mut(index(slot)) {
            *place = used;
        }
    }

    /// Adds a name whose first entry is in `slot`.
    pub(crate) fn put(&mut self, slot: u32, name: Name) {
        let end = slot.saturating_add(name.slots);
        for nth in slot..end {
            self.set_used(nth, true);
        }
        self.end = self.end.max(end);
        self.by_key.entry(name.key.clone()).or_insert(slot);
        self.subdirectories = self
            .subdirectories
            .saturating_add(u32::from(name.is_directory));
        self.names.insert(slot, name);
    }

    /// Takes a name out. Its slots are free.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Name> {
        let name = self.names.remove(&slot)?;
        for nth in slot..slot.saturating_add(name.slots) {
            self.set_used(nth, false);
        }
        if self.by_key.get(&name.key) == Some(&slot) {
            self.by_key.remove(&name.key);
        }
        self.subdirectories = self
            .subdirectories
            .saturating_sub(u32::from(name.is_directory));
        Some(name)
    }

    /// The slot and the name that has this key.
    pub(crate) fn find(&self, key: &[u16]) -> Option<(u32, &Name)> {
        let slot = *self.by_key.get(key)?;
        self.names.get(&slot).map(|name| (slot, name))
    }

    /// The names from a slot on.
    pub(crate) fn names_from(&self, slot: u32) -> impl Iterator<Item = (u32, &Name)> {
        self.names.range(slot..).map(|(slot, name)| (*slot, name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many slots have been in use: those behind are zeroes.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// The first of `count` free slots in a row. They lie within one sector where they can, and the
    /// first two in any case: those are what changes while a file has its name.
    pub(crate) fn find_free(&self, count: u32, slots_per_sector: u32) -> Option<u32> {
        let whole = count <= slots_per_sector;
        let mut free: u32 = 0;
        for (slot, used) in (0_u32..).zip(&self.used) {
            let begins_sector = slot.checked_rem(slots_per_sector) == Some(0);
            if *used || (whole && begins_sector) {
                free = 0;
            }
            if *used {
                continue;
            }
            free = free.saturating_add(1);
            let first = slot.saturating_add(1).saturating_sub(count);
            let ends_sector = first.saturating_add(1).checked_rem(slots_per_sector) == Some(0);
            if free >= count && (whole || !ends_sector) {
                return Some(first);
            }
        }
        None
    }

    /// As [`find_free`](Self::find_free), within the sector that has `slot`, and with the slots of the
    /// name there counted as free.
    pub(crate) fn find_free_beside(
        &self,
        slot: u32,
        count: u32,
        slots_per_sector: u32,
    ) -> Option<u32> {
        let name = self.names.get(&slot)?;
        let own = slot..slot.saturating_add(name.slots);
        let start = slot.saturating_sub(slot.checked_rem(slots_per_sector)?);
        let end = start.saturating_add(slots_per_sector).min(self.slots());
        if own.end > end {
            return None;
        }
        let mut free: u32 = 0;
        for nth in start..end {
            let used = self.used.get(index(nth)).copied().unwrap_or(true) && !own.contains(&nth);
            free = if used { 0 } else { free.saturating_add(1) };
            if free == count {
                return Some(nth.saturating_add(1).saturating_sub(count));
            }
        }
        None
    }

    /// About how much memory it takes.
    pub(crate) fn cost(&self) -> u64 {
        const OF_A_NAME: u64 = 250;
        len_u64(self.names.len())
            .saturating_mul(OF_A_NAME)
            .saturating_add(len_u64(self.used.len()))
    }
}

/// Looks at the entries in these runs, until there are no more or `look` has enough.
pub(crate) fn for_each_entry(
    sectors: &Sectors,
    runs: &[(u64, u64)],
    mut look: impl FnMut(Place, &Entry) -> bool,
) -> Result<()> {
    for (offset, len_bytes) in runs {
        let end = offset.saturating_add(*len_bytes);
        let mut at = *offset;
        while at < end {
            let bytes = sectors.read_run(at, end.saturating_sub(at).min(PIECE_BYTES))?;
            let (entries, _) = bytes.as_chunks::<ENTRY_LEN>();
            for entry in entries {
                if !look(Place::at(at), entry) {
                    return Ok(());
                }
                at = at.saturating_add(ENTRY_BYTES);
            }
        }
    }
    Ok(())
}
