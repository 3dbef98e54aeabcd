//! Internal snapshots: specification, section "Snapshots".
//!
//! New tables are written after all clusters in use. One write to the header's first sector
//! activates them and sets the dirty bit. From then on the reference counts and the "copied" flags
//! are wrong until they are recomputed. A crash before that write leaves the previous state. After
//! it, the dirty bit prevents all writes before the counts are right, so that no cluster that two
//! states share is overwritten.

use std::time::{Duration, SystemTime};

use diskfs_block::{BlockWrite, Error, ErrorKind, Result};

use crate::description::Snapshot;
use crate::numbers::{low_bits, power_of_two, round_up, to_u64, to_usize};
use crate::qcow2::check;
use crate::qcow2::features::Incompatible;
use crate::qcow2::growth::extend;
use crate::qcow2::header::{Header, SNAPSHOTS_MAX, Table};
use crate::qcow2::l2_entry::L2Rules;
use crate::qcow2::snapshot_table::{self, SnapshotEntry};
use crate::qcow2::units::HostOffset;

/// The longest name in bytes: what QEMU keeps of one.
const NAME_MAX_BYTES: usize = 255;
/// The "copied" flag, bit 63 of an L1 entry. It is accurate only in the active table.
const COPIED: u64 = 1 << 63;

/// A change of an image's snapshots, with exclusive access to the image.
struct Edit<'a> {
    file: &'a dyn BlockWrite,
    header: Header,
    snapshots: Vec<SnapshotEntry>,
    rules: L2Rules,
    /// The number of references to each cluster.
    references: Vec<u32>,
    /// The offset for the next new table.
    end: u64,
}

/// Returns the end of the referenced clusters. The file of a killed writer is longer, possibly by
/// more than its refcount table can count.
fn end_of_use(references: &[u32], cluster_bits: u32) -> u64 {
    let used = references.iter().rposition(|&count| count > 0);
    let clusters = used.map_or(0, |last| to_u64(last).saturating_add(1));
    clusters.saturating_mul(power_of_two(cluster_bits))
}

/// Takes a snapshot of the current state.
pub(crate) fn create(file: &dyn BlockWrite, name: &str) -> Result<Snapshot> {
    let mut edit = Edit::begin(file)?;
    edit.check_name(name)?;
    edit.check_recount(None)?;
    let shared = edit.references_of(edit.header.l1)?;
    edit.check_counts(&shared, &[])?;
    let l1 = edit.copy_l1(edit.header.l1, edit.header.l1.entries)?;
    let snapshot = Snapshot {
        id: edit.next_id(),
        name: name.to_owned(),
        virtual_size_bytes: Some(edit.header.size_bytes),
        vm_state_bytes: 0,
        taken_at: SystemTime::now(),
        vm_clock: Duration::ZERO,
        icount: None,
    };
    let mut entries = edit.stored_entries(|_| true)?;
    entries.extend(snapshot_table::encode(&snapshot, l1));
    let count = to_u64(edit.snapshots.len()).saturating_add(1);
    edit.write_snapshots(count, &entries)?;
    edit.finish()?;
    Ok(snapshot)
}

/// Reverts the current state to a snapshot.
pub(crate) fn apply(file: &dyn BlockWrite, wanted: &str) -> Result<()> {
    let mut edit = Edit::begin(file)?;
    if edit.header.extensions.bitmaps.is_some() {
        let reason =
            "cannot apply a snapshot to an image with bitmaps: they would be wrong afterwards";
        return Err(
            Error::unsupported(reason).with_hint("remove them with `diskfs bitmap remove` first")
        );
    }
    let entry = edit.find(wanted)?;
    edit.check_recount(None)?;
    let size_bytes = entry.snapshot.virtual_size_bytes;
    let size_bytes = size_bytes.unwrap_or(edit.header.size_bytes);
    let geometry = edit.header.geometry;
    crate::qcow2::header::check_l1(file, geometry, entry.l1, size_bytes)?;
    let (shared, left) = (
        edit.references_of(entry.l1)?,
        edit.references_of(edit.header.l1)?,
    );
    edit.check_counts(&shared, &left)?;
    edit.header.l1 = edit.copy_l1(entry.l1, entry.l1.entries)?;
    edit.header.size_bytes = size_bytes;
    edit.finish()
}

/// Deletes a snapshot.
pub(crate) fn delete(file: &dyn BlockWrite, wanted: &str) -> Result<()> {
    let mut edit = Edit::begin(file)?;
    let gone = edit.find(wanted)?.at;
    edit.check_recount(Some(gone))?;
    let entries = edit.stored_entries(|entry| entry.at != gone)?;
    let count = to_u64(edit.snapshots.len()).saturating_sub(1);
    edit.write_snapshots(count, &entries)?;
    edit.finish()
}

impl<'a> Edit<'a> {
    fn begin(file: &'a dyn BlockWrite) -> Result<Self> {
        let header = Header::read(file)?;
        if header.version < 3 {
            let reason = "changing snapshots of a version 2 image is not supported";
            return Err(Error::unsupported(reason)
                .with_hint("convert it to version 3 with `diskfs amend -o compat=1.1`"));
        }
        if header.incompatible.external_data_file() {
            let reason = "snapshots are not supported for an image with an external data file";
            return Err(Error::unsupported(reason));
        }
        let rules = header.l2_rules();
        let snapshots = snapshot_table::read(file, &header)?.entries;
        Ok(Self {
            file,
            snapshots,
            rules,
            references: Vec::new(),
            end: round_up(file.size_bytes(), header.geometry.cluster_bits()),
            header,
        })
    }

    /// Fails for everything that would make recomputing the reference counts fail, without the
    /// snapshot whose entry is at `gone`. Once the new tables are active, the change cannot be
    /// undone, and the image would stay dirty.
    fn check_recount(&mut self, gone: Option<HostOffset>) -> Result<()> {
        let (file, header) = (self.file, &self.header);
        let bits = header.geometry.cluster_bits();
        self.references = check::references_without(file, header, self.rules, gone)?;
        let all = match gone {
            Some(_) => check::references(file, header, self.rules).ok(),
            None => Some(self.references.clone()),
        };
        // Clusters in use must not be overwritten before the header releases them. If a snapshot is
        // too broken to walk, assume that it uses all of the file.
        if let Some(all) = all {
            self.end = end_of_use(&all, bits);
        }
        self.check_counts(&[], &[])
    }

    fn check_name(&self, name: &str) -> Result<()> {
        if name.is_empty() || name.len() > NAME_MAX_BYTES {
            let reason = format!("invalid snapshot name: expected 1 to {NAME_MAX_BYTES} bytes");
            return Err(Error::invalid(reason));
        }
        if self
            .snapshots
            .iter()
            .any(|entry| entry.snapshot.name == name)
        {
            let reason = format!("snapshot `{}` exists already", name.escape_debug());
            return Err(Error::new(ErrorKind::Exists, reason));
        }
        if to_u64(self.snapshots.len()) >= u64::from(SNAPSHOTS_MAX) {
            let reason = format!("too many snapshots: the image has {SNAPSHOTS_MAX}, QEMU's limit");
            return Err(Error::unsupported(reason));
        }
        Ok(())
    }

    /// Returns the next id. Like QEMU, it counts from 1.
    fn next_id(&self) -> String {
        let ids = self.snapshots.iter().map(|entry| &entry.snapshot.id);
        let highest = ids.filter_map(|id| id.parse::<u64>().ok()).max();
        highest.unwrap_or(0).saturating_add(1).to_string()
    }

    fn find(&self, wanted: &str) -> Result<SnapshotEntry> {
        let index = snapshot_table::find(&self.snapshots, wanted)?;
        let entry = self.snapshots.get(index).cloned();
        entry.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such snapshot"))
    }

    fn references_of(&self, l1: Table) -> Result<Vec<u32>> {
        check::references_of(self.file, &self.header, self.rules, l1)
    }

    /// Fails if a cluster would have more references than its count can hold, after adding `more`
    /// references to each and removing `fewer`.
    fn check_counts(&self, more: &[u32], fewer: &[u32]) -> Result<()> {
        let bits = u32::try_from(self.header.refcount_bits()).unwrap_or(u64::BITS);
        let max = low_bits(u64::MAX, bits);
        for (index, count) in self.references.iter().enumerate() {
            let of = |counts: &[u32]| u64::from(counts.get(index).copied().unwrap_or(0));
            let after = u64::from(*count).saturating_add(of(more));
            if after.saturating_sub(of(fewer)) > max {
                let reason =
                    format!("reference counts of {bits} bits are too narrow for another snapshot");
                return Err(Error::unsupported(reason)
                    .with_hint("widen them with `diskfs amend -o refcount_bits=16`"));
            }
        }
        Ok(())
    }

    /// Writes a new table after all clusters in use.
    fn append(&mut self, bytes: &[u8]) -> Result<HostOffset> {
        let at = self.end;
        let bits = self.header.geometry.cluster_bits();
        self.end = round_up(at.saturating_add(to_u64(bytes.len())), bits);
        extend(self.file, self.end)?;
        self.file.write_at(at, bytes)?;
        Ok(HostOffset(at))
    }

    /// Copies an L1 table; the copy shares all L2 tables.
    fn copy_l1(&mut self, l1: Table, entries: u64) -> Result<Table> {
        let mut bytes = vec![0; to_usize(l1.size_bytes())];
        self.file.read_at(l1.at.0, &mut bytes)?;
        let (words, _) = bytes.as_chunks_mut::<8>();
        for word in words {
            *word = (u64::from_be_bytes(*word) & !COPIED).to_be_bytes();
        }
        let at = self.append(&bytes)?;
        Ok(Table { at, entries })
    }

    /// Returns the entries of the snapshot table as they are stored, without interpreting them.
    fn stored_entries(&self, keep: impl Fn(&SnapshotEntry) -> bool) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for entry in self.snapshots.iter().filter(|entry| keep(entry)) {
            let len = entry.end.0.saturating_sub(entry.at.0);
            let mut stored = vec![0; to_usize(len)];
            self.file.read_at(entry.at.0, &mut stored)?;
            bytes.append(&mut stored);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        Ok(bytes)
    }

    fn write_snapshots(&mut self, count: u64, entries: &[u8]) -> Result<()> {
        self.header.snapshots_at = match count {
            0 => HostOffset(0),
            _ => self.append(entries)?,
        };
        self.header.snapshot_count = u32::try_from(count).unwrap_or(u32::MAX);
        Ok(())
    }

    /// Activates the new tables: one write of one sector, after everything to which it points.
    fn finish(&self) -> Result<()> {
        /// The bytes from the field `size` up to the end of `incompatible_features`.
        const FIELDS: std::ops::Range<usize> = 24..80;
        let header = &self.header;
        self.file.flush()?;
        let mut bytes = [0; FIELDS.end];
        self.file.read_at(0, &mut bytes)?;
        let mut put = |at: usize, field: &[u8]| {
            let end = at.saturating_add(field.len());
            if let Some(place) = bytes.get_mut(at..end) {
                place.copy_from_slice(field);
            }
        };
        let l1_entries = u32::try_from(header.l1.entries).unwrap_or(u32::MAX);
        let incompatible = header.incompatible.0 | Incompatible::DIRTY;
        put(24, &header.size_bytes.to_be_bytes());
        put(36, &l1_entries.to_be_bytes());
        put(40, &header.l1.at.0.to_be_bytes());
        put(60, &header.snapshot_count.to_be_bytes());
        put(64, &header.snapshots_at.0.to_be_bytes());
        put(72, &incompatible.to_be_bytes());
        let fields = bytes.get(FIELDS).unwrap_or_default();
        self.file.write_at(to_u64(FIELDS.start), fields)?;
        self.file.flush()
    }
}
