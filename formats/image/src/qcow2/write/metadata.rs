//! The state that all writers share, under one lock. The lock is held for a few instructions, or
//! while a table that is not cached is read.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::{round_up, shift_right, to_usize};
use crate::qcow2::header::Header;
use crate::qcow2::units::HostOffset;
use crate::qcow2::write::Writer;
use crate::qcow2::write::dirty::DirtySlices;
use crate::qcow2::write::freed::Freed;

/// The number of dirty slices at which a writer flushes: 8 MiB at most, which map 64 GiB at QEMU's
/// default cluster size.
const DIRTY_MAX: usize = 128;
/// The number of freed runs that wait for a flush. More would cost more memory than the flush costs
/// time.
const FREED_MAX: usize = 4096;

/// The changes of the image's tables that are not in the file yet, and the allocations in flight.
#[derive(Debug)]
pub(super) struct Metadata {
    /// The refcount table: offsets of refcount blocks, zero for unallocated ones.
    pub(super) refcount_table: Vec<u64>,
    pub(super) refcount_table_at: HostOffset,
    /// The indices of new refcount table entries.
    pub(super) added_blocks: BTreeSet<usize>,
    /// The changed refcount blocks.
    pub(super) counts: DirtySlices,
    /// The changed slices of L1 and L2 tables.
    pub(super) mapping: DirtySlices,
    /// True if some of those changes point to clusters whose data and counts must be durable first.
    pub(super) exposes_clusters: bool,
    /// The clusters that the tables no longer refer to. They are kept until the tables are durable.
    pub(super) freed: Vec<Freed>,
    /// The guest clusters that are being allocated.
    pub(super) in_flight: Vec<Range<u64>>,
    /// The first cluster that may be free; all before it are in use.
    pub(super) hint: u64,
    /// The first cluster of the file that was never written: from it on the file reads as zeroes.
    pub(super) untouched_from: u64,
}

impl Metadata {
    pub(super) fn load(image: &dyn BlockRead, header: &Header) -> Result<Self> {
        let table = header.refcount_table;
        if table.at.plus(table.size_bytes()).0 > image.size_bytes() || table.entries == 0 {
            let reason = "refcount table extends past the end of the file, or is empty";
            return Err(Error::corrupt(reason)
                .at(table.at.0)
                .with_hint("rebuild it with `qemu-img check -r all`"));
        }
        let mut bytes = vec![0; to_usize(table.size_bytes())];
        image.read_at(table.at.0, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        let bits = header.geometry.cluster_bits();
        Ok(Self {
            refcount_table: words.iter().map(|word| u64::from_be_bytes(*word)).collect(),
            refcount_table_at: table.at,
            added_blocks: BTreeSet::new(),
            counts: DirtySlices::default(),
            mapping: DirtySlices::default(),
            exposes_clusters: false,
            freed: Vec::new(),
            in_flight: Vec::new(),
            hint: 0,
            untouched_from: shift_right(round_up(image.size_bytes(), bits), bits),
        })
    }
}

/// The locked metadata, with its writer.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    pub(super) writer: &'a Writer,
    pub(super) state: MutexGuard<'a, Metadata>,
}

impl<'a> Locked<'a> {
    pub(super) const fn new(writer: &'a Writer, state: MutexGuard<'a, Metadata>) -> Self {
        Self { writer, state }
    }

    pub(super) fn has_freed(&self) -> bool {
        !self.state.freed.is_empty()
    }

    /// Returns true if a flush is due.
    pub(super) fn is_full(&self) -> bool {
        let dirty = self
            .state
            .mapping
            .len()
            .saturating_add(self.state.counts.len());
        dirty > DIRTY_MAX || self.state.freed.len() > FREED_MAX
    }

    /// Waits until no cluster of the range is being allocated.
    pub(super) fn wait_for(self, clusters: &Range<u64>) -> Self {
        let Self { writer, mut state } = self;
        let overlaps =
            |other: &Range<u64>| other.start < clusters.end && clusters.start < other.end;
        while state.in_flight.iter().any(overlaps) {
            let woken = writer.landed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        Self { writer, state }
    }

    /// Returns the next cluster from `start` on that is being allocated, or `end`.
    pub(super) fn next_in_flight(&self, start: u64, end: u64) -> u64 {
        let starts = self.state.in_flight.iter().map(|range| range.start);
        starts.filter(|&at| at >= start).fold(end, u64::min)
    }

    pub(super) fn begin_write(&mut self, clusters: Range<u64>) {
        self.state.in_flight.push(clusters);
    }

    pub(super) fn end_write(&mut self, clusters: &Range<u64>) {
        let found = self
            .state
            .in_flight
            .iter()
            .position(|range| range == clusters);
        if let Some(index) = found {
            self.state.in_flight.swap_remove(index);
        }
        self.writer.landed.notify_all();
        self.writer.full.store(self.is_full(), Ordering::Relaxed);
    }
}
