//! A directory's names, as its entries tell them.

use std::collections::BTreeMap;

use diskfs_clusters::Sectors;
use foldhash::{HashMap, HashSet};

use crate::bytes::{index, len_u64, low32};
use crate::code_page::CodePage;
use crate::directory_entry::{
    DELETED, END, ENTRY_BYTES, ENTRY_LEN, LONG_NAME, LONG_NAME_MASK, Place, ShortEntry,
};
use crate::error::Result;
use crate::long_name::{Assembly, fold_shown};
use crate::short_name;

/// The most entries that a directory has: 2 MiB of them (fatgen103, "FAT Directory Structure").
pub(crate) const MAX_SLOTS: u32 = 65_536;

const DOT: &[u8; 11] = b".          ";
const DOT_DOT: &[u8; 11] = b"..         ";

/// One name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// As it is shown.
    pub(crate) shown: Vec<u8>,
    pub(crate) short: [u8; 11],
    /// The slot of its first entry: the short one's own where there is no long name.
    pub(crate) first_slot: u32,
    pub(crate) is_directory: bool,
    pub(crate) place: Place,
}

impl Name {
    /// What it is found by.
    pub(crate) fn keys(&self, code_page: CodePage) -> [Vec<u16>; 2] {
        [
            fold_shown(&self.shown),
            fold_shown(&short_text(&self.short, code_page)),
        ]
    }
}

/// Slots that follow each other on the device.
#[derive(Debug, Clone, Copy)]
struct SlotRun {
    first: u32,
    offset: u64,
    count: u32,
}

/// The names of a directory, by the slot of the short entry and by name without regard to case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    code_page: CodePage,
    runs: Vec<SlotRun>,
    names: BTreeMap<u32, Name>,
    by_key: HashMap<Vec<u16>, u32>,
    shorts: HashSet<[u8; 11]>,
    used: Vec<bool>,
    /// No slot is in use from here on, and the device says so with zeroes.
    end: u32,
    pub(crate) subdirectories: u32,
    pub(crate) label: Option<Place>,
}

impl Directory {
    /// Adds slots at the end of the directory, which are read.
    pub(crate) fn read(
        sectors: &Sectors,
        runs: &[(u64, u64)],
        code_page: CodePage,
    ) -> Result<Self> {
        let mut directory = Self {
            code_page,
            ..Self::default()
        };
        for (offset, len_bytes) in runs {
            directory.add_room(*offset, *len_bytes);
        }
        let mut assembly = Assembly::default();
        for run in directory.runs.clone() {
            let len_bytes = u64::from(run.count).saturating_mul(ENTRY_BYTES);
            let bytes = sectors.read_run(run.offset, len_bytes)?;
            let (entries, _) = bytes.as_chunks::<ENTRY_LEN>();
            for (slot, entry) in (run.first..).zip(entries) {
                if !directory.take(slot, entry, &mut assembly) {
                    return Ok(directory);
                }
            }
        }
        Ok(directory)
    }

    /// Room for more entries, none of them in use.
    pub(crate) fn add_room(&mut self, offset: u64, len_bytes: u64) {
        let first = self.slots();
        let count = low32(len_bytes / ENTRY_BYTES).min(MAX_SLOTS.saturating_sub(first));
        self.runs.push(SlotRun {
            first,
            offset,
            count,
        });
        self.used.resize(index(first.saturating_add(count)), false);
    }

    /// How many entries there is room for.
    pub(crate) fn slots(&self) -> u32 {
        low32(self.used.len())
    }

    /// Takes one entry in. Returns whether there may be more.
    fn take(&mut self, slot: u32, bytes: &[u8; ENTRY_LEN], assembly: &mut Assembly) -> bool {
        let entry = ShortEntry::from_bytes(*bytes);
        let [first, ..] = entry.name;
        if first == END {
            return false;
        }
        self.end = slot.saturating_add(1);
        if first == DELETED {
            *assembly = Assembly::default();
            return true;
        }
        self.set_used(slot, true);
        if entry.attributes & LONG_NAME_MASK == LONG_NAME {
            assembly.take(bytes);
            return true;
        }
        let parts = low32(assembly.len());
        let long = assembly.finish(short_name::checksum(&entry.name));
        let place = self.place(slot);
        if entry.is_label() {
            self.label = self.label.or(Some(place));
        } else if entry.name != *DOT && entry.name != *DOT_DOT {
            let first_slot = if long.is_some() {
                slot.saturating_sub(parts)
            } else {
                slot
            };
            let name = Name {
                shown: long.unwrap_or_else(|| short_name::display(&entry, self.code_page)),
                short: entry.name,
                first_slot,
                is_directory: entry.is_directory(),
                place,
            };
            self.put(slot, name);
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

    /// Adds a name whose short entry is in `slot`.
    pub(crate) fn put(&mut self, slot: u32, name: Name) {
        for nth in name.first_slot..=slot {
            self.set_used(nth, true);
        }
        self.end = self.end.max(slot.saturating_add(1));
        self.by_key.entry(fold_shown(&name.shown)).or_insert(slot);
        self.by_key
            .entry(fold_shown(&short_text(&name.short, self.code_page)))
            .or_insert(slot);
        self.shorts.insert(name.short);
        self.subdirectories = self
            .subdirectories
            .saturating_add(u32::from(name.is_directory));
        self.names.insert(slot, name);
    }

    /// Takes a name out. Its slots are free.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Name> {
        let name = self.names.remove(&slot)?;
        for nth in name.first_slot..=slot {
            self.set_used(nth, false);
        }
        for key in name.keys(self.code_page) {
            if self.by_key.get(&key) == Some(&slot) {
                self.by_key.remove(&key);
            }
        }
        self.shorts.remove(&name.short);
        self.subdirectories = self
            .subdirectories
            .saturating_sub(u32::from(name.is_directory));
        Some(name)
    }

    /// The slot and the name that has this key: its own, or its short name's.
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

    /// Whether a file is found by this short name.
    pub(crate) fn has_short(&self, short: &[u8; 11]) -> bool {
        self.shorts.contains(short)
            || self
                .by_key
                .contains_key(&fold_shown(&short_text(short, self.code_page)))
    }

    /// How many slots have been in use: those behind are zeroes.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// The first of `count` free slots in a row. They lie within one sector where they can, so that
    /// they are written or lost together.
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
            if free == count {
                return Some(slot.saturating_add(1).saturating_sub(count));
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
        let start = slot.saturating_sub(slot.checked_rem(slots_per_sector)?);
        let mut free: u32 = 0;
        for nth in start..start.saturating_add(slots_per_sector).min(self.slots()) {
            let own = (name.first_slot..=slot).contains(&nth);
            let used = self.used.get(index(nth)).copied().unwrap_or(true) && !own;
            free = if used { 0 } else { free.saturating_add(1) };
            if free == count {
                return Some(nth.saturating_add(1).saturating_sub(count));
            }
        }
        None
    }

    /// About how much memory it takes.
    pub(crate) fn cost(&self) -> u64 {
        const OF_A_NAME: u64 = 300;
        len_u64(self.names.len())
            .saturating_mul(OF_A_NAME)
            .saturating_add(len_u64(self.used.len()))
    }
}

/// A short name as somebody types it.
fn short_text(short: &[u8; 11], code_page: CodePage) -> Vec<u8> {
    let entry = ShortEntry::new(*short, 0, diskfs_vfs::Timestamp::default());
    short_name::display(&entry, code_page)
}
