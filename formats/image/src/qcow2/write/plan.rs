//! Planning of writes: finding clusters for the data.

use std::ops::Range;
use std::sync::Arc;

use diskfs_block::Result;

use crate::numbers::{low_bits, power_of_two, shift_right};
use crate::qcow2::cache::TableSlice;
use crate::qcow2::l2_entry::{L2Entry, StandardCluster, SubclusterKind};
use crate::qcow2::units::{GuestOffset, HostOffset, L2Layout};
use crate::qcow2::write::Writer;
use crate::qcow2::write::allocate::HostRun;
use crate::qcow2::write::freed::Hole;
use crate::qcow2::write::metadata::Locked;

/// The largest range to allocate at once. Larger requests are split, so that buffers for
/// surrounding data stay small and others do not wait long.
const PLAN_MAX_BYTES: u64 = 16 << 20;

/// The purpose of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanFor {
    /// New bytes of the guest.
    Write,
    /// The bytes of the backing file, only where the image stores nothing itself.
    Copy,
}

/// The outcome of planning.
#[derive(Debug)]
pub(super) enum Planned {
    /// Another thread allocated the clusters meanwhile: write in place, or copy nothing.
    InPlace,
    Allocation(Plan),
}

/// The location of a plan's clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// New clusters that were allocated for the plan.
    New(HostRun),
    /// Clusters that the entries already refer to, or that are in an external data file.
    Given,
}

/// A run of clusters that are being allocated. Until the plan is carried out or given up, no other
/// request touches them.
#[derive(Debug)]
#[must_use = "clusters stay in flight until the plan has landed"]
pub(super) struct Plan {
    /// The guest bytes to write.
    pub(super) bytes: Range<u64>,
    /// The guest bytes that are allocated, including those to copy before and after.
    pub(super) span: Range<u64>,
    /// The guest clusters.
    clusters: Range<u64>,
    /// The host offset of the first cluster.
    host: HostOffset,
    placement: Placement,
    slice: Arc<TableSlice>,
    /// True if the host clusters read as zeroes.
    pub(super) untouched: bool,
}

impl Plan {
    pub(super) const fn len_bytes(&self) -> u64 {
        self.bytes.end.saturating_sub(self.bytes.start)
    }

    /// Returns the host offset for a guest byte of the plan.
    pub(super) const fn host_of(&self, guest: u64, cluster_bits: u32) -> HostOffset {
        let start = self
            .clusters
            .start
            .saturating_mul(power_of_two(cluster_bits));
        self.host.plus(guest.saturating_sub(start))
    }
}

/// The cluster of an entry, if it can be written in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InPlaceCluster {
    /// A cluster of its own, at this offset.
    At(HostOffset),
    /// No cluster, or one with other references.
    None,
}

const fn place_of_entry(entry: &L2Entry) -> InPlaceCluster {
    match entry {
        L2Entry::Standard(StandardCluster {
            host: Some(host),
            copied: true,
            ..
        }) => InPlaceCluster::At(*host),
        _ => InPlaceCluster::None,
    }
}

impl Writer {
    /// Finds clusters for the front of the range that [`write_in_place`](Self::write_in_place)
    /// could not write.
    pub(super) fn plan(
        &self,
        at: GuestOffset,
        len_bytes: u64,
        purpose: PlanFor,
    ) -> Result<Planned> {
        let geometry = self.geometry();
        let bits = geometry.cluster_bits();
        let first = shift_right(at.0, bits);
        let mut locked = self.lock().wait_for(&(first..first.saturating_add(1)));
        let slice = locked.writable_slice(at)?;
        let entry = locked.entry(&slice, at)?;
        let to = at.plus(len_bytes.min(geometry.left_in_cluster(at))).0;
        if self.is_writable_in_place(&entry, at.0..to) {
            return Ok(Planned::InPlace);
        }
        let limit = at.plus(
            len_bytes
                .min(geometry.left_in_slice(at))
                .min(PLAN_MAX_BYTES),
        );
        let end = shift_right(limit.0.saturating_sub(1), bits).saturating_add(1);
        let end = locked.next_in_flight(first, end);
        let has = place_of_entry(&entry);
        let mut alike = self.alike(&locked, &slice, first..end, has)?;
        if purpose == PlanFor::Copy {
            alike = self.unallocated(&locked, &slice, alike, at.0..limit.0)?;
            if alike.is_empty() {
                return Ok(Planned::InPlace);
            }
        }
        let (clusters, placement, host) = match has {
            InPlaceCluster::At(host) => (alike, Placement::Given, host),
            InPlaceCluster::None if self.external.is_some() => (
                alike,
                Placement::Given,
                HostOffset(geometry.cluster_start(at).0),
            ),
            InPlaceCluster::None => {
                let run = locked.allocate(alike.end.saturating_sub(alike.start))?;
                let end = alike.start.saturating_add(run.clusters);
                (
                    alike.start..end,
                    Placement::New(run),
                    locked.place_of(run.first),
                )
            }
        };
        let planned = locked.finish_plan(at, limit, clusters, placement, host, slice);
        if let (Err(_), Placement::New(run)) = (&planned, placement) {
            locked.release(run)?;
        }
        planned.map(Planned::Allocation)
    }

    /// Returns true if all of the range, which lies within the entry's cluster, can be written in
    /// place.
    fn is_writable_in_place(&self, entry: &L2Entry, range: Range<u64>) -> bool {
        let L2Entry::Standard(cluster) = entry else {
            return false;
        };
        let touched = self.subclusters(range);
        cluster.copied
            && cluster.host.is_some()
            && touched
                .clone()
                .all(|i| cluster.kind_of(i) == SubclusterKind::Data)
    }

    /// Returns the clusters from the first on in which nothing of the bytes is stored.
    fn unallocated(
        &self,
        locked: &Locked<'_>,
        slice: &TableSlice,
        clusters: Range<u64>,
        bytes: Range<u64>,
    ) -> Result<Range<u64>> {
        let cluster_size = self.geometry().cluster_size();
        for cluster in clusters.clone() {
            let start = cluster.saturating_mul(cluster_size);
            let end = start.saturating_add(cluster_size).min(bytes.end);
            let L2Entry::Standard(entry) = locked.entry(slice, GuestOffset(start))? else {
                return Ok(clusters.start..cluster);
            };
            let is_stored = |i| entry.kind_of(i) != SubclusterKind::Unallocated;
            if self.subclusters(start.max(bytes.start)..end).any(is_stored) {
                return Ok(clusters.start..cluster);
            }
        }
        Ok(clusters)
    }

    /// Returns the subclusters of a range within one cluster.
    pub(super) fn subclusters(&self, range: Range<u64>) -> Range<u32> {
        let geometry = self.geometry();
        let bits = geometry.subcluster_bits();
        let index = |at: u64| {
            let in_cluster = geometry.offset_in_cluster(at);
            u32::try_from(shift_right(in_cluster, bits)).unwrap_or(0)
        };
        let last = range.end.saturating_sub(1).max(range.start);
        index(range.start)..index(last).saturating_add(1)
    }

    /// Returns the clusters from the first on that can be treated like it: either all need a new
    /// cluster, or all have one and these are consecutive.
    fn alike(
        &self,
        locked: &Locked<'_>,
        slice: &TableSlice,
        range: Range<u64>,
        first: InPlaceCluster,
    ) -> Result<Range<u64>> {
        let cluster_size = self.geometry().cluster_size();
        let mut expected = first;
        for cluster in range.start.saturating_add(1)..range.end {
            let at = GuestOffset(cluster.saturating_mul(cluster_size));
            if let InPlaceCluster::At(host) = expected {
                expected = InPlaceCluster::At(host.plus(cluster_size));
            }
            let entry = locked.entry(slice, at)?;
            let whole = at.0..at.plus(cluster_size).0;
            if place_of_entry(&entry) != expected || self.is_writable_in_place(&entry, whole) {
                return Ok(range.start..cluster);
            }
        }
        Ok(range)
    }
}

impl Locked<'_> {
    /// Determines the data to write and the surrounding data to copy, and marks the clusters as in
    /// flight.
    fn finish_plan(
        &mut self,
        at: GuestOffset,
        limit: GuestOffset,
        clusters: Range<u64>,
        placement: Placement,
        host: HostOffset,
        slice: Arc<TableSlice>,
    ) -> Result<Plan> {
        let bits = self.writer.geometry().cluster_bits();
        let place = |cluster: u64| cluster.saturating_mul(power_of_two(bits));
        let bytes = at.0..limit.0.min(place(clusters.end));
        let span = self.span(&slice, &bytes, placement)?;
        let mut plan = Plan {
            bytes,
            span,
            clusters,
            host,
            placement,
            slice,
            untouched: false,
        };
        let untouched = match placement {
            Placement::New(run) => run.untouched,
            Placement::Given => self.extend_to_existing(&mut plan)?,
        };
        plan.untouched = untouched && !self.writer.reader.is_encrypted;
        self.begin_write(plan.clusters.clone());
        Ok(plan)
    }

    /// Extends the file to include existing clusters of a plan; returns whether they read as
    /// zeroes.
    fn extend_to_existing(&mut self, plan: &mut Plan) -> Result<bool> {
        let writer = self.writer;
        let bits = writer.geometry().cluster_bits();
        let len_bytes = plan
            .clusters
            .end
            .saturating_sub(plan.clusters.start)
            .saturating_mul(power_of_two(bits));
        let end = plan.host.plus(len_bytes);
        if let Some(data) = &writer.external {
            // The guest's disk ends within the last cluster, and so does its file.
            plan.span.end = plan.span.end.min(writer.size_bytes);
            let untouched = plan.host.0 >= data.size_bytes();
            self.extend_data_file(end)?;
            return Ok(untouched);
        }
        writer.check_target(plan.host, len_bytes)?;
        if end.0 > writer.image.size_bytes() {
            writer.reader.stored_len(plan.host, len_bytes)?;
            self.extend_file(end)?;
        }
        Ok(false)
    }

    /// Returns the bytes to allocate for `bytes`: from the start of what must be copied in the
    /// first cluster to its end in the last one.
    fn span(
        &self,
        slice: &TableSlice,
        bytes: &Range<u64>,
        placement: Placement,
    ) -> Result<Range<u64>> {
        let geometry = self.writer.geometry();
        let last_start = geometry.cluster_start(GuestOffset(bytes.end.saturating_sub(1)));
        let first_end = geometry
            .cluster_start(GuestOffset(bytes.start))
            .plus(geometry.cluster_size())
            .0;
        let first = bytes.start..bytes.end.min(first_end);
        let last = bytes.start.max(last_start.0)..bytes.end;
        let start = self.span_in_cluster(slice, first, placement)?.start;
        let end = self.span_in_cluster(slice, last, placement)?.end;
        Ok(start..end)
    }

    /// Returns the bytes to allocate for bytes within one cluster.
    fn span_in_cluster(
        &self,
        slice: &TableSlice,
        bytes: Range<u64>,
        placement: Placement,
    ) -> Result<Range<u64>> {
        let geometry = self.writer.geometry();
        let cluster_at = geometry.cluster_start(GuestOffset(bytes.start));
        let whole = cluster_at.0..cluster_at.plus(geometry.cluster_size()).0;
        let entry = self.entry(slice, GuestOffset(bytes.start))?;
        let cluster = match entry {
            L2Entry::Standard(cluster) if geometry.layout() == L2Layout::Extended => cluster,
            _ => return Ok(whole),
        };
        let bits = geometry.subcluster_bits();
        let place = |index: u32| {
            let in_cluster = u64::from(index).saturating_mul(power_of_two(bits));
            cluster_at.plus(in_cluster).0
        };
        let touched = self.writer.subclusters(bytes.clone());
        let is_stored = |index: u32| cluster.kind_of(index) == SubclusterKind::Data;
        if placement == Placement::Given {
            // Data that is already stored in place needs no copy.
            let last = touched.end.saturating_sub(1);
            let start = if is_stored(touched.start) {
                bytes.start
            } else {
                place(touched.start)
            };
            let end = if is_stored(last) {
                bytes.end
            } else {
                place(touched.end)
            };
            return Ok(start..end);
        }
        let first = touched.start.min(cluster.allocated.trailing_zeros());
        let stored_end = u32::BITS.saturating_sub(cluster.allocated.leading_zeros());
        Ok(place(first)..place(touched.end.max(stored_end)))
    }

    /// Updates the L2 table after a plan was carried out.
    pub(super) fn link(&mut self, plan: &Plan) -> Result<()> {
        let linked = plan
            .clusters
            .clone()
            .try_for_each(|cluster| self.link_cluster(plan, cluster));
        self.state.exposes_clusters = true;
        self.end_write(&plan.clusters);
        linked
    }

    fn link_cluster(&mut self, plan: &Plan, cluster: u64) -> Result<()> {
        let rules = self.rules();
        let bits = rules.geometry.cluster_bits();
        let start = cluster.saturating_mul(power_of_two(bits));
        let old = self.entry(&plan.slice, GuestOffset(start))?;
        let end = start.saturating_add(power_of_two(bits));
        let covered = plan.span.start.max(start)..plan.span.end.min(end);
        let stored = bitmap(self.writer.subclusters(covered), rules.geometry.layout());
        let before = match old {
            L2Entry::Standard(cluster) => cluster,
            L2Entry::Compressed(_) => StandardCluster::default(),
        };
        let entry = StandardCluster {
            host: Some(plan.host_of(start, bits)),
            allocated: before.allocated | stored,
            zero: before.zero & !stored,
            copied: true,
        };
        self.set_entry(&plan.slice, GuestOffset(start), entry);
        if let Placement::New(_) = plan.placement {
            self.free_entry(&old, Hole::Keep);
        }
        Ok(())
    }

    /// Frees the clusters of a plan.
    pub(super) fn abandon(&mut self, plan: &Plan) -> Result<()> {
        self.end_write(&plan.clusters);
        match plan.placement {
            Placement::New(run) => self.release(run),
            Placement::Given => Ok(()),
        }
    }
}

/// Returns the bits of some subclusters; all bits without subclusters.
pub(super) fn bitmap(subclusters: Range<u32>, layout: L2Layout) -> u32 {
    if layout == L2Layout::Standard {
        return u32::MAX;
    }
    let below = |end: u32| low_bits(u64::MAX, end);
    let bits = below(subclusters.end) & !below(subclusters.start);
    u32::try_from(bits).unwrap_or(u32::MAX)
}
