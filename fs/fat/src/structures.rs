//! FAT's implementation of [`Format`]: its structures on the device.

use std::ops::Range;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{
    Allocation, Chain, Cluster, Directory, ENTRY_BYTES, EntryPlace, FileRecord, Format, Geometry,
    NewName, RawEntry, Sectors, Volume, for_each_entry,
};
use diskfs_vfs::{Identity, Timestamp};

use crate::boot_sector::{BootSector, STATE_DIRTY};
use crate::code_page::CodePage;
use crate::directory;
use crate::directory_entry::{ARCHIVE, DELETED, DIRECTORY, ShortEntry};
use crate::error::{Corrupt, ErrorKind, Result, device_failed};
use crate::fat::{FatEntry, FatTable, clean_bit};
use crate::fs_info;
use crate::long_name::fold;
use crate::record::FatRecord;
use crate::short_name;

/// The structures of an open FAT12, FAT16 or FAT32.
#[derive(Debug)]
pub struct Structures {
    boot: BootSector,
    fat: FatTable,
    code_page: CodePage,
    /// True if the filesystem was not cleanly unmounted.
    was_dirty: bool,
}

impl Structures {
    /// Returns the volume's label: that of the root directory or, without one, of the boot sector.
    fn label(volume: &Volume<Self>) -> Vec<u8> {
        let Self {
            boot, code_page, ..
        } = volume.format();
        let mut label = None;
        let look = |_, _, raw: &RawEntry| {
            let entry = ShortEntry::from_bytes(*raw);
            label = entry.is_label().then_some(entry.name);
            label.is_none() && !entry.is_end()
        };
        let runs = volume.root_runs().unwrap_or_default();
        // The label is optional, so an unreadable root directory counts as one without a label.
        let _ = for_each_entry(volume.sectors(), &runs, look);
        let bytes = label.unwrap_or(boot.label);
        let text: String = bytes.iter().map(|&byte| code_page.decode(byte)).collect();
        match text.trim_end_matches([' ', '\0']) {
            "NO NAME" => Vec::new(),
            text => text.as_bytes().to_vec(),
        }
    }

    /// Writes the dirty marks: the byte of the boot sector, and the bit of the table's second
    /// entry.
    fn set_marks(
        &self,
        device: &dyn BlockWrite,
        state: u8,
        change: fn(u32, u32) -> u32,
    ) -> Result<()> {
        let written = device.write_at(self.boot.state_offset, &[state]);
        written.map_err(device_failed)?;
        let clean = clean_bit(self.boot.kind);
        if clean != 0 {
            let raw = self.fat.raw(Cluster(1))?;
            self.fat.set_raw(Cluster(1), change(raw, clean))?;
            self.fat.write_dirty(device)?;
        }
        Ok(())
    }
}

/// Returns true if one of the dirty marks is set.
pub(crate) fn is_dirty(boot: &BootSector, fat: &FatTable) -> Result<bool> {
    let clean = clean_bit(boot.kind);
    Ok(boot.state & STATE_DIRTY != 0 || (clean != 0 && fat.raw(Cluster(1))? & clean == 0))
}

impl Format for Structures {
    const NAME: &'static str = "FAT";
    /// The size field has 32 bits.
    const MAX_FILE_BYTES: u64 = 0xffff_ffff;
    /// 65,536 entries (fatgen103, "FAT Directory Structure").
    const MAX_DIRECTORY_BYTES: u64 = 65_536 * ENTRY_BYTES;
    const HEAD_ENTRIES: u32 = 1;
    /// Parts of a long name without a short entry are ignored.
    const TORN_NAMES_ARE_HARMLESS: bool = true;
    const HAS_CONTIGUOUS_FILES: bool = false;

    type Names = CodePage;
    type Record = FatRecord;

    fn open(device: &Arc<dyn BlockRead>, names: &CodePage) -> Result<Self> {
        let boot = BootSector::read(&**device)?;
        let fat = FatTable::new(Arc::clone(device), &boot);
        Ok(Self {
            was_dirty: is_dirty(&boot, &fat)?,
            fat,
            code_page: *names,
            boot,
        })
    }

    fn identity(volume: &Volume<Self>) -> Identity {
        let Self {
            boot, was_dirty, ..
        } = volume.format();
        let serial = boot.volume_id;
        let note = was_dirty.then(|| "not cleanly unmounted".to_owned());
        Identity {
            kind: "vfat".to_owned(),
            label: Self::label(volume),
            uuid: (serial != 0).then(|| format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)),
            features: vec![boot.kind.name().to_owned()],
            notes: note.into_iter().collect(),
        }
    }

    fn geometry(&self) -> &Geometry {
        &self.boot.geometry
    }

    fn read_record(&self, sectors: &Sectors, place: EntryPlace) -> Result<Option<FatRecord>> {
        let entry = ShortEntry::read(sectors, place)?;
        if !entry.is_file() {
            return Ok(None);
        }
        let record = FatRecord::from(entry);
        if record.is_directory() && record.first().is_none() {
            return Err(Corrupt::EmptyDirectory.into());
        }
        Ok(Some(record))
    }

    fn put_record(&self, sectors: &Sectors, place: EntryPlace, record: &FatRecord) -> Result<()> {
        sectors.put(place, &record.short.to_bytes())
    }

    fn list(&self, sectors: &Sectors, runs: &[(u64, u64)]) -> Result<Directory> {
        Directory::read(sectors, runs, |directory, slot, raw, assembly| {
            directory::decode(directory, slot, raw, assembly, self.code_page)
        })
    }

    fn fold(&self, units: &[u16]) -> Vec<u16> {
        fold(units)
    }

    fn new_record(is_directory: bool, now: Timestamp) -> FatRecord {
        let attributes = if is_directory { DIRECTORY } else { ARCHIVE };
        ShortEntry::new([b' '; 11], attributes, now).into()
    }

    /// Adds a long name if the short name cannot represent the name.
    fn named(
        &self,
        record: &FatRecord,
        name: &NewName,
        directory: &Directory,
        own: Option<&FatRecord>,
    ) -> Result<FatRecord> {
        let is_taken = |short: &[u8; 11]| {
            let is_own = own.is_some_and(|own| own.short.name == *short);
            !is_own && directory.has_key(&short_name::key(short, self.code_page))
        };
        let exact = short_name::exact(&name.text).filter(|short| !is_taken(short));
        if let Some(exact) = exact {
            return Ok(record.named(exact, None));
        }
        let short = short_name::unique(&name.text, is_taken).ok_or(ErrorKind::NoSpace)?;
        Ok(record.named(short, Some(&name.units)))
    }

    fn alias(&self, record: &FatRecord) -> Option<Vec<u16>> {
        Some(short_name::key(&record.short.name, self.code_page))
    }

    fn head(slots: &Range<u32>) -> u32 {
        slots.end.saturating_sub(1)
    }

    fn unused(mut entry: RawEntry) -> RawEntry {
        entry[0] = DELETED;
        entry
    }

    fn first_entries(own: &FatRecord, parent: Option<Cluster>) -> Vec<RawEntry> {
        let dot = own.named(*directory::DOT, None);
        let mut dot_dot = own.named(*directory::DOT_DOT, None);
        dot_dot.set_clusters(parent, false);
        [dot, dot_dot].map(|entry| entry.short.to_bytes()).to_vec()
    }

    fn set_parent(
        &self,
        sectors: &Sectors,
        own: &FatRecord,
        parent: Option<Cluster>,
    ) -> Result<()> {
        let Some(first) = own.first() else {
            return Ok(());
        };
        self.boot.geometry.check_first(first)?;
        let second = self.boot.geometry.offset_of(first);
        let second = EntryPlace::at(second.saturating_add(ENTRY_BYTES));
        let mut entry = ShortEntry::read(sectors, second)?;
        if entry.name != *directory::DOT_DOT || !entry.is_directory() {
            return Err(Corrupt::DotDot(first).into());
        }
        entry.set_cluster(parent.unwrap_or(Cluster(0)));
        sectors.put(second, &entry.to_bytes())
    }

    fn chain(&self, first: Cluster) -> Result<Chain> {
        self.fat.chain(first)
    }

    fn set_chain(&self, chain: &Chain) -> Result<()> {
        self.fat.set_chain(chain)
    }

    fn set_next(&self, last: Cluster, next: Cluster) -> Result<()> {
        self.fat.set(last, FatEntry::Next(next))
    }

    fn end_chain(&self, end: Cluster, next: Cluster) -> Result<()> {
        if self.fat.entry(end)? == FatEntry::Next(next) {
            self.fat.set(end, FatEntry::End)?;
        }
        Ok(())
    }

    fn count_free(&self, _device: &dyn BlockRead) -> Result<u32> {
        let mut count: u32 = 0;
        self.fat.for_each(|_, entry| {
            count = count.saturating_add(u32::from(entry == FatEntry::Free));
        })?;
        Ok(count)
    }

    fn read_allocation(&self, _device: &dyn BlockRead) -> Result<Allocation> {
        let mut allocation = Allocation::new(self.boot.geometry.clusters);
        self.fat.for_each(|cluster, entry| {
            if entry != FatEntry::Free {
                allocation.mark(cluster, true);
            }
        })?;
        Ok(allocation)
    }

    fn note_free(&mut self, chain: &Chain) -> Result<()> {
        let mut clusters = chain.runs().iter().flat_map(diskfs_clusters::Run::clusters);
        clusters.try_for_each(|cluster| self.fat.set(cluster, FatEntry::Free))
    }

    fn dirty_sectors(&self) -> usize {
        self.fat.dirty_sectors()
    }

    fn write_tables(
        &mut self,
        device: &dyn BlockWrite,
        _allocation: Option<&Allocation>,
    ) -> Result<()> {
        self.fat.write_dirty(device)
    }

    fn forget_changes(&mut self) {
        self.fat.forget_changes();
    }

    /// Writes the `FSInfo` sector.
    fn write_hints(
        &self,
        device: &dyn BlockWrite,
        allocation: Option<&Allocation>,
    ) -> Result<bool> {
        let (Some(offset), Some(allocation)) = (self.boot.fs_info_offset, allocation) else {
            return Ok(false);
        };
        fs_info::write(device, offset, allocation.free(), allocation.next().0)
    }

    fn mark_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        let state = self.boot.state | STATE_DIRTY;
        self.set_marks(device, state, |raw, clean| raw & !clean)
    }

    fn mark_clean(&self, device: &dyn BlockWrite, _allocation: Option<&Allocation>) -> Result<()> {
        if self.was_dirty {
            return Ok(());
        }
        self.set_marks(device, self.boot.state, |raw, clean| raw | clean)
    }
}
