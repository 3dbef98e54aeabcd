//! The mapping from guest offsets to host offsets: the L1 and L2 tables, without reading any data.

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{low_bits, power_of_two, shift_right, to_usize};
use crate::qcow2::cache::{Caches, LayerId, TableKey, TableSlice};
use crate::qcow2::header::Table;
use crate::qcow2::l1_entry;
use crate::qcow2::l2_entry::{
    CompressedCluster, DataPlace, L2Entry, L2Rules, StandardCluster, SubclusterKind,
};
use crate::qcow2::table_store::TableStore;
use crate::qcow2::units::{GuestOffset, HostOffset};

/// The piece in which the L1 table is read on demand: 8192 entries, which map 4 TiB at QEMU's
/// default cluster size. So a table of 32 MiB costs nothing until it is used.
const L1_PIECE_BITS: u32 = 16;

/// The way in which a run of the guest's disk is stored in one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// Data at this offset of the data file, uncompressed.
    Data(HostOffset),
    /// Zeroes, with the offset of a preallocated cluster, if any.
    Zero(Option<HostOffset>),
    /// Not in this image, so read from the backing file or as zeroes; with the offset of a
    /// preallocated cluster, if any.
    Unallocated(Option<HostOffset>),
    /// Compressed data: the run is (the rest of) one cluster.
    Compressed(CompressedCluster),
}

impl RunKind {
    /// Returns the kind of the rest of the run after `len_bytes`, if the run continues there. That
    /// of a compressed cluster never does.
    const fn after(self, len_bytes: u64) -> Option<Self> {
        Some(match self {
            Self::Data(at) => Self::Data(at.plus(len_bytes)),
            Self::Zero(Some(at)) => Self::Zero(Some(at.plus(len_bytes))),
            Self::Unallocated(Some(at)) => Self::Unallocated(Some(at.plus(len_bytes))),
            Self::Zero(None) | Self::Unallocated(None) => self,
            Self::Compressed(_) => return None,
        })
    }
}

/// A range of the file that holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostRange {
    pub(crate) host: HostOffset,
    pub(crate) len_bytes: u64,
}

/// A run of the guest's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) len_bytes: u64,
    pub(crate) kind: RunKind,
}

/// The L1 table with its L2 tables: those of the current state, or of a snapshot.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) file: Arc<dyn BlockRead>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) layer: LayerId,
    pub(crate) rules: L2Rules,
    pub(crate) l1: Table,
    /// The store that replaces the cache of tables while a writer changes them.
    pub(crate) store: Option<Arc<TableStore>>,
}

impl Mapping {
    /// Returns how the guest's bytes from `guest` on are stored: a run of at most `max_len` bytes,
    /// which must lie within the disk. The run ends at the end of the slice of the L2 table at the
    /// latest.
    pub(crate) fn run_at(&self, guest: GuestOffset, max_len: u64) -> Result<Run> {
        match self.slice(guest)? {
            Some(slice) => self.run_in_slice(&slice, guest, max_len),
            None => self.run_without_table(guest, max_len),
        }
    }

    fn run_in_slice(&self, slice: &TableSlice, guest: GuestOffset, max_len: u64) -> Result<Run> {
        let limit = max_len.min(self.rules.geometry.left_in_slice(guest));
        let mut run = self.piece_at(slice, guest)?;
        while run.len_bytes < limit {
            let Some(expected) = run.kind.after(run.len_bytes) else {
                break;
            };
            let next = self.piece_at(slice, guest.plus(run.len_bytes))?;
            if next.kind != expected {
                break;
            }
            run.len_bytes = run.len_bytes.saturating_add(next.len_bytes);
        }
        run.len_bytes = run.len_bytes.min(limit);
        Ok(run)
    }

    /// Returns the run from `guest` on within its cluster.
    fn piece_at(&self, slice: &TableSlice, guest: GuestOffset) -> Result<Run> {
        match self.entry(slice, guest)? {
            L2Entry::Compressed(cluster) => Ok(Run {
                len_bytes: self.rules.geometry.left_in_cluster(guest),
                kind: RunKind::Compressed(cluster),
            }),
            L2Entry::Standard(cluster) => Ok(self.standard_piece(cluster, guest)),
        }
    }

    /// Decodes the entry for `guest` in its slice.
    pub(crate) fn entry(&self, slice: &TableSlice, guest: GuestOffset) -> Result<L2Entry> {
        let words = self.rules.geometry.layout().words();
        let index = self.word_in_slice(guest);
        let (descriptor, bitmap) = match words {
            1 => (slice.word(index), 0),
            _ => slice.pair(index),
        };
        let at = slice.place_of(index);
        let entry = L2Entry::decode(descriptor, bitmap, self.rules, at)?;
        if let L2Entry::Standard(cluster) = entry {
            self.check_external(cluster, guest, at)?;
        }
        Ok(entry)
    }

    /// Returns the index of the first word of the entry for `guest` in its slice.
    pub(crate) fn word_in_slice(&self, guest: GuestOffset) -> usize {
        let geometry = self.rules.geometry;
        geometry
            .index_in_slice(guest)
            .saturating_mul(geometry.layout().words())
    }

    /// Checks that a cluster in an external data file is at the guest's own offset (specification,
    /// incompatible bit 2).
    fn check_external(
        &self,
        cluster: StandardCluster,
        guest: GuestOffset,
        at: HostOffset,
    ) -> Result<()> {
        let expected = self.rules.geometry.cluster_start(guest);
        match (self.rules.data, cluster.host) {
            (DataPlace::External, Some(host)) if host.0 != expected.0 => {
                let reason = format!(
                    "invalid L2 entry: it points to {host} of the external data file, not to its \
                     guest offset {expected}"
                );
                Err(Error::corrupt(reason).at(at.0))
            }
            _ => Ok(()),
        }
    }

    fn standard_piece(&self, cluster: StandardCluster, guest: GuestOffset) -> Run {
        let geometry = self.rules.geometry;
        let in_cluster = geometry.offset_in_cluster(guest.0);
        let bits = geometry.subcluster_bits();
        // Without subclusters the index is 0, and bit 0 of the bitmaps applies to the whole
        // cluster.
        let index = u32::try_from(shift_right(in_cluster, bits)).unwrap_or(0);
        let host = cluster.host.map(|host| host.plus(in_cluster));
        let kind = match (cluster.kind_of(index), host) {
            (SubclusterKind::Data, Some(host)) => RunKind::Data(host),
            (SubclusterKind::Zero, host) => RunKind::Zero(host),
            // Decoding an entry refuses data without an offset.
            (SubclusterKind::Data | SubclusterKind::Unallocated, host) => {
                RunKind::Unallocated(host)
            }
        };
        let len_bytes = u64::from(cluster.run_from(index))
            .saturating_mul(power_of_two(bits))
            .saturating_sub(low_bits(in_cluster, bits))
            .min(geometry.left_in_cluster(guest));
        Run { len_bytes, kind }
    }

    /// Returns the run from `guest` on that is stored in clusters without other references, so that
    /// it can be overwritten; `None` if it begins with other clusters.
    pub(crate) fn overwritable_run(
        &self,
        guest: GuestOffset,
        max_len: u64,
    ) -> Result<Option<HostRange>> {
        let Some(slice) = self.slice(guest)? else {
            return Ok(None);
        };
        let limit = max_len.min(self.rules.geometry.left_in_slice(guest));
        let mut found: Option<HostRange> = None;
        loop {
            let len_bytes = found.map_or(0, |run| run.len_bytes);
            let at = guest.plus(len_bytes);
            let piece = match self.entry(&slice, at)? {
                L2Entry::Standard(cluster) if cluster.copied => self.standard_piece(cluster, at),
                _ => return Ok(found),
            };
            let RunKind::Data(host) = piece.kind else {
                return Ok(found);
            };
            let start = found.map_or(host, |run| run.host);
            if start.plus(len_bytes) != host {
                return Ok(found);
            }
            let run = HostRange {
                host: start,
                len_bytes: len_bytes.saturating_add(piece.len_bytes).min(limit),
            };
            if run.len_bytes == limit {
                return Ok(Some(run));
            }
            found = Some(run);
        }
    }

    /// Returns a run over whole L1 entries without an L2 table, within one piece of the L1 table.
    fn run_without_table(&self, guest: GuestOffset, max_len: u64) -> Result<Run> {
        let geometry = self.rules.geometry;
        let first = self.l1_piece(guest)?;
        let mut len_bytes = geometry.left_in_l1_entry(guest);
        let mut index = first.index.saturating_add(1);
        while len_bytes < max_len && index < first.piece.len() && first.piece.word(index) == 0 {
            len_bytes = len_bytes.saturating_add(geometry.l1_coverage());
            index = index.saturating_add(1);
        }
        Ok(Run {
            len_bytes: len_bytes.min(max_len),
            kind: RunKind::Unallocated(None),
        })
    }

    /// Returns the slice of the L2 table that maps `guest`; `None` if there is no table.
    pub(crate) fn slice(&self, guest: GuestOffset) -> Result<Option<Arc<TableSlice>>> {
        let key = self.slice_key(guest);
        if let Some(store) = &self.store {
            return store.get_or_load(key, || self.load_slice(guest));
        }
        // The L1 table is only needed if the slice is not cached.
        if let Some(slice) = self.caches.tables.get(&key) {
            return Ok(Some(slice));
        }
        let Some(at) = self.slice_place(guest)? else {
            return Ok(None);
        };
        self.read_cached(key, at, self.rules.geometry.slice_size(), "L2 table")
            .map(Some)
    }

    pub(crate) fn slice_key(&self, guest: GuestOffset) -> TableKey {
        TableKey::L2(self.layer, self.rules.geometry.slice_index(guest))
    }

    fn slice_place(&self, guest: GuestOffset) -> Result<Option<HostOffset>> {
        let in_table = self.rules.geometry.slice_offset_in_table(guest);
        Ok(self.l2_table(guest)?.map(|table| table.plus(in_table)))
    }

    fn load_slice(&self, guest: GuestOffset) -> Result<Option<Arc<TableSlice>>> {
        let Some(at) = self.slice_place(guest)? else {
            return Ok(None);
        };
        let len_bytes = self.rules.geometry.slice_size();
        read_table(self.file.as_ref(), at, len_bytes, "L2 table").map(Some)
    }

    fn l2_table(&self, guest: GuestOffset) -> Result<Option<HostOffset>> {
        let L1Place { piece, index } = self.l1_piece(guest)?;
        l1_entry::l2_table(
            piece.word(index),
            self.rules.geometry,
            piece.place_of(index),
        )
    }

    /// Returns the piece of the L1 table that maps `guest`, and the entry's index in it.
    pub(crate) fn l1_piece(&self, guest: GuestOffset) -> Result<L1Place> {
        let entries_bits = L1_PIECE_BITS.saturating_sub(3);
        let index = self.rules.geometry.l1_index(guest);
        let number = shift_right(index, entries_bits);
        let start = number.saturating_mul(power_of_two(L1_PIECE_BITS));
        let len_bytes = self
            .l1
            .size_bytes()
            .saturating_sub(start)
            .min(power_of_two(L1_PIECE_BITS));
        let key = TableKey::L1(self.layer, number);
        let piece = self.read_cached(key, self.l1.at.plus(start), len_bytes, "L1 table")?;
        Ok(L1Place {
            piece,
            index: to_usize(low_bits(index, entries_bits)),
        })
    }

    /// Replaces the L1 table by a longer copy of it, which the file already has.
    pub(crate) fn move_l1(&mut self, l1: Table) {
        let pieces = shift_right(self.l1.size_bytes(), L1_PIECE_BITS);
        if let Some(store) = &self.store {
            for number in 0..=pieces {
                store.remove(TableKey::L1(self.layer, number));
            }
        }
        self.l1 = l1;
    }

    /// Returns a piece of a table from the cache, and reads it on a miss. Two threads that miss the
    /// same piece read it once.
    fn read_cached(
        &self,
        key: TableKey,
        at: HostOffset,
        len_bytes: u64,
        what: &str,
    ) -> Result<Arc<TableSlice>> {
        let file = self.file.as_ref();
        let load = || read_table(file, at, len_bytes, what);
        match &self.store {
            None => self.caches.tables.get_or_insert_with(&key, load),
            Some(store) => store.get_or_load(key, || load().map(Some))?.ok_or_else(|| {
                Error::invalid("a table that was read is missing from the table store").at(at.0)
            }),
        }
    }
}

/// Reads a piece of a table, which must lie within the file.
pub(crate) fn read_table(
    file: &dyn BlockRead,
    at: HostOffset,
    len_bytes: u64,
    what: &str,
) -> Result<Arc<TableSlice>> {
    let end = at.plus(len_bytes).0;
    let size_bytes = file.size_bytes();
    if end > size_bytes {
        let reason =
            format!("{what} extends to {end:#x}, past the end of the file ({size_bytes:#x})");
        return Err(Error::corrupt(reason).at(at.0));
    }
    TableSlice::read(file, at, len_bytes).map(Arc::new)
}

/// The location of an L1 table entry.
#[derive(Debug)]
pub(crate) struct L1Place {
    pub(crate) piece: Arc<TableSlice>,
    pub(crate) index: usize,
}

/// An iterator over the runs of a range of the disk, each as long as possible.
#[derive(Debug)]
pub(crate) struct Runs<'a> {
    mapping: &'a Mapping,
    at: GuestOffset,
    left_bytes: u64,
    pending: Option<Run>,
}

impl<'a> Runs<'a> {
    pub(crate) const fn new(mapping: &'a Mapping, at: GuestOffset, len_bytes: u64) -> Self {
        Self {
            mapping,
            at,
            left_bytes: len_bytes,
            pending: None,
        }
    }

    /// Returns the next run, merged with the following ones across the borders of slices; `None` at
    /// the end of the range.
    pub(crate) fn next_run(&mut self) -> Result<Option<Run>> {
        let Some(mut run) = self.next_unmerged()? else {
            return Ok(None);
        };
        while let Some(expected) = run.kind.after(run.len_bytes) {
            match self.next_unmerged()? {
                Some(next) if next.kind == expected => {
                    run.len_bytes = run.len_bytes.saturating_add(next.len_bytes);
                }
                other => {
                    self.pending = other;
                    break;
                }
            }
        }
        Ok(Some(run))
    }

    /// Returns `first` and all remaining runs.
    pub(crate) fn collect_after(mut self, first: Run) -> Result<Vec<Run>> {
        let mut all = vec![first];
        while let Some(run) = self.next_run()? {
            all.push(run);
        }
        Ok(all)
    }

    fn next_unmerged(&mut self) -> Result<Option<Run>> {
        if let Some(run) = self.pending.take() {
            return Ok(Some(run));
        }
        if self.left_bytes == 0 {
            return Ok(None);
        }
        let run = self.mapping.run_at(self.at, self.left_bytes)?;
        self.at = self.at.plus(run.len_bytes);
        self.left_bytes = self.left_bytes.saturating_sub(run.len_bytes);
        Ok(Some(run))
    }
}
