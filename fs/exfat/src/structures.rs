//! exFAT's implementation of [`Format`]: its structures on the device.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_clusters::{
    Allocation, Chain, Cluster, Directory, EntryPlace, FileRecord, Format, Geometry, NewName,
    RawEntry, Sectors, Volume,
};
use diskfs_vfs::{Identity, Timestamp};
use foldhash::HashMap;

use crate::allocation_bitmap::{AllocationBitmap, percent_in_use};
use crate::boot_sector::{BootSector, PERCENT_IN_USE_OFFSET, VOLUME_DIRTY, VOLUME_FLAGS_OFFSET};
use crate::directory;
use crate::directory_entry::{ARCHIVE, DIRECTORY, END, FILE, FileEntry, IN_USE, StreamExtension};
use crate::entry_set::{EntrySet, SECONDARY_COUNTS};
use crate::error::{Corrupt, Error, ErrorKind, Result, device_failed};
use crate::fat::{self, FatTable};
use crate::root_entries::{MAX_DIRECTORY_BYTES, RootEntries};
use crate::upcase_table::UpcaseTable;

/// The structures of an open exFAT.
#[derive(Debug)]
pub struct Structures {
    boot: BootSector,
    fat: FatTable,
    bitmap: AllocationBitmap,
    upcase: UpcaseTable,
    /// The reason why the up-case table of the device is not used.
    upcase_damage: Option<Error>,
    label: String,
    /// The links of directories whose clusters are not consecutive: the next cluster of a cluster.
    links: Mutex<HashMap<Cluster, Cluster>>,
}

impl Structures {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |holds: bool, text: &str| notes.extend(holds.then(|| text.to_owned()));
        note(self.boot.is_dirty(), "not cleanly unmounted");
        note(self.boot.media_failed(), "the medium has failed before");
        note(
            self.boot.is_backup,
            "main boot region damaged, using its backup",
        );
        if let Some(e) = &self.upcase_damage {
            note(true, &format!("{e}; using the recommended table"));
        }
        notes
    }

    fn links(&self) -> MutexGuard<'_, HashMap<Cluster, Cluster>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place of the next entry in the same directory.
    fn next_place(&self, place: EntryPlace) -> Result<EntryPlace> {
        let geometry = &self.boot.geometry;
        let next = EntryPlace(place.0.saturating_add(1));
        let within = next.offset().saturating_sub(geometry.first_offset);
        if within.checked_rem(geometry.cluster_bytes.into()) != Some(0) {
            return Ok(next);
        }
        // The number of clusters before the next entry is the number of the current cluster, less
        // one.
        let behind = Cluster(geometry.clusters_for(within)).plus(1);
        let Some(cluster) = self.links().get(&behind).copied() else {
            geometry.check_first(behind.plus(1))?;
            return Ok(next);
        };
        Ok(EntryPlace::at(geometry.offset_of(cluster)))
    }

    fn check_stream(&self, stream: &StreamExtension) -> Result<()> {
        let geometry = &self.boot.geometry;
        let heap_bytes = geometry.bytes_of(geometry.clusters);
        let (size_bytes, valid_bytes) = (stream.size(), stream.valid());
        if size_bytes > heap_bytes || valid_bytes > size_bytes {
            return Err(Corrupt::Size {
                size_bytes,
                valid_bytes,
                heap_bytes,
            }
            .into());
        }
        if size_bytes == 0 {
            return Ok(());
        }
        let first = stream.first();
        geometry.check_first(first)?;
        let count = geometry.clusters_for(size_bytes);
        let last = first.0.checked_add(count.saturating_sub(1)).map(Cluster);
        let is_within = last.is_some_and(|last| geometry.contains(last));
        if stream.is_contiguous() && !is_within {
            return Err(Corrupt::Contiguous {
                first,
                count,
                clusters: geometry.clusters,
            }
            .into());
        }
        Ok(())
    }

    fn set_volume_flags(device: &dyn BlockWrite, flags: u16) -> Result<()> {
        let written = device.write_at(VOLUME_FLAGS_OFFSET, &flags.to_le_bytes());
        written.map_err(device_failed)
    }
}

impl Format for Structures {
    const NAME: &'static str = "exFAT";
    const MAX_FILE_BYTES: u64 = i64::MAX.unsigned_abs();
    const MAX_DIRECTORY_BYTES: u64 = MAX_DIRECTORY_BYTES;
    /// The file entry and the stream extension.
    const HEAD_ENTRIES: u32 = 2;
    /// A partly written set has an invalid checksum.
    const TORN_NAMES_ARE_HARMLESS: bool = false;
    const HAS_CONTIGUOUS_FILES: bool = true;

    type Names = ();
    type Record = EntrySet;

    fn open(device: &Arc<dyn BlockRead>, _names: &()) -> Result<Self> {
        let boot = BootSector::read(&**device)?;
        let fat = FatTable::new(Arc::clone(device), &boot);
        let root = RootEntries::read(device, &boot, &fat)?;
        let (bitmap, len_bytes) = root.bitmap(&boot)?;
        let (upcase, upcase_damage) = root.upcase_table(&**device, &boot, &fat)?;
        Ok(Self {
            bitmap: AllocationBitmap::new(&boot, &fat.chain(bitmap)?, len_bytes)?,
            upcase,
            upcase_damage,
            label: root.label(),
            fat,
            links: Mutex::default(),
            boot,
        })
    }

    fn check_writable(&mut self) -> Result<()> {
        if self.boot.fats > 1 {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "writing TexFAT (two tables) is not supported",
            ));
        }
        if self.boot.is_backup {
            let reason = "the main boot region is damaged; only its backup is valid";
            let e = Error::new(ErrorKind::Corrupt, reason);
            return Err(e.with_hint("run fsck.exfat on a copy"));
        }
        match self.upcase_damage.take() {
            Some(e) => Err(e.with_hint("run fsck.exfat on a copy")),
            None => Ok(()),
        }
    }

    fn identity(volume: &Volume<Self>) -> Identity {
        let this = volume.format();
        let serial = this.boot.serial;
        let feature = (this.boot.fats > 1).then(|| "TexFAT".to_owned());
        Identity {
            kind: "exfat".to_owned(),
            label: this.label.clone().into_bytes(),
            uuid: (serial != 0).then(|| format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)),
            features: feature.into_iter().collect(),
            notes: this.notes(),
        }
    }

    fn geometry(&self) -> &Geometry {
        &self.boot.geometry
    }

    fn read_record(&self, sectors: &Sectors, place: EntryPlace) -> Result<Option<EntrySet>> {
        let first = FileEntry::from_bytes(sectors.entry(place)?);
        if first.entry_type != FILE || !SECONDARY_COUNTS.contains(&first.secondary_count) {
            return Ok(None);
        }
        let mut entries = vec![first.to_bytes()];
        let mut at = place;
        for _ in 0..first.secondary_count {
            at = self.next_place(at)?;
            entries.push(sectors.entry(at)?);
        }
        let set = EntrySet::from_entries(&entries)?;
        set.check()?;
        self.check_stream(&set.stream)?;
        Ok(Some(set))
    }

    fn put_record(&self, sectors: &Sectors, place: EntryPlace, record: &EntrySet) -> Result<()> {
        let mut at = place;
        for (nth, entry) in record.entries().into_iter().take(2).enumerate() {
            if nth > 0 {
                at = self.next_place(at)?;
            }
            sectors.put(at, &entry)?;
        }
        Ok(())
    }

    fn list(&self, sectors: &Sectors, runs: &[(u64, u64)]) -> Result<Directory> {
        Directory::read(sectors, runs, |directory, slot, raw, assembly| {
            directory::decode(directory, slot, raw, assembly, &self.upcase)
        })
    }

    /// Caches the links between the clusters of a directory.
    fn note_directory(&self, chain: &Chain) {
        let mut links = self.links();
        let mut before: Option<Cluster> = None;
        for run in chain.runs() {
            if let Some(before) = before.replace(run.last()) {
                links.insert(before, run.first);
            }
            if !links.is_empty() {
                // Remove stale links from an earlier directory: within a run, no links are needed.
                for cluster in run.clusters().filter(|cluster| *cluster != run.last()) {
                    links.remove(&cluster);
                }
            }
        }
    }

    fn fold(&self, units: &[u16]) -> Vec<u16> {
        self.upcase.fold(units)
    }

    fn new_record(is_directory: bool, now: Timestamp) -> EntrySet {
        let attributes = if is_directory { DIRECTORY } else { ARCHIVE };
        EntrySet::new(FileEntry::new(attributes, now))
    }

    fn named(
        &self,
        record: &EntrySet,
        name: &NewName,
        _directory: &Directory,
        _own: Option<&EntrySet>,
    ) -> Result<EntrySet> {
        Ok(record.named(&name.units, self.upcase.name_hash(&name.units)))
    }

    fn head(slots: &Range<u32>) -> u32 {
        slots.start
    }

    fn unused(mut entry: RawEntry) -> RawEntry {
        let [kind, ..] = entry;
        entry[0] = if kind == END { FILE } else { kind } & !IN_USE;
        entry
    }

    fn chain(&self, first: Cluster) -> Result<Chain> {
        self.fat.chain(first)
    }

    fn set_chain(&self, chain: &Chain) -> Result<()> {
        self.fat.set_chain(chain)
    }

    fn set_next(&self, last: Cluster, next: Cluster) -> Result<()> {
        self.fat.set(last, next.0)
    }

    fn end_chain(&self, end: Cluster, next: Cluster) -> Result<()> {
        if self.fat.raw(end)? == next.0 {
            self.fat.set(end, fat::END)?;
        }
        Ok(())
    }

    fn count_free(&self, device: &dyn BlockRead) -> Result<u32> {
        self.bitmap.count_free(device)
    }

    fn read_allocation(&self, device: &dyn BlockRead) -> Result<Allocation> {
        self.bitmap.read(device)
    }

    fn note_allocated(&mut self, chain: &Chain) {
        self.bitmap.note(chain);
    }

    /// Marks the clusters as free in the bitmap. Their entries in the table need no change.
    fn note_free(&mut self, chain: &Chain) -> Result<()> {
        self.bitmap.note(chain);
        Ok(())
    }

    fn dirty_sectors(&self) -> usize {
        let in_table = self.fat.dirty_sectors();
        in_table.saturating_add(self.bitmap.dirty_sectors())
    }

    fn write_tables(
        &mut self,
        device: &dyn BlockWrite,
        allocation: Option<&Allocation>,
    ) -> Result<()> {
        self.fat.write_dirty(device)?;
        allocation.map_or(Ok(()), |allocation| {
            self.bitmap.write_dirty(device, allocation)
        })
    }

    fn forget_changes(&mut self) {
        self.fat.forget_changes();
        self.bitmap.forget_changes();
    }

    fn mark_dirty(&self, device: &dyn BlockWrite) -> Result<()> {
        Self::set_volume_flags(device, self.boot.volume_flags | VOLUME_DIRTY)
    }

    /// Marks the filesystem as clean, and updates the percentage in use.
    fn mark_clean(&self, device: &dyn BlockWrite, allocation: Option<&Allocation>) -> Result<()> {
        if let Some(allocation) = allocation {
            let percent = percent_in_use(allocation);
            let written = device.write_at(PERCENT_IN_USE_OFFSET, &[percent]);
            written.map_err(device_failed)?;
        }
        Self::set_volume_flags(device, self.boot.volume_flags)
    }
}
