//! Allocation of free clusters.

use diskfs_block::{Error, ErrorKind, Result};

use crate::numbers::{round_up, shift_right};
use crate::qcow2::growth::extend;
use crate::qcow2::units::HostOffset;
use crate::qcow2::write::metadata::Locked;
use crate::qcow2::write::refcount_block::Counts;

/// The end of the offsets that tables can store, in 56 bits.
const HOST_END: u64 = 1 << 56;
/// The step in which the file grows, so that not every cluster changes its length.
const GROWTH_BITS: u32 = 24;

/// A run of clusters with a reference count of one that nothing refers to yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "clusters that are neither used nor released are leaked"]
pub(crate) struct HostRun {
    /// The first cluster.
    pub(crate) first: u64,
    pub(crate) clusters: u64,
    /// True if the clusters were never written and read as zeroes.
    pub(crate) untouched: bool,
}

impl Locked<'_> {
    /// Allocates the next free clusters, at most `wanted`, and extends the file to include them.
    pub(crate) fn allocate(&mut self, wanted: u64) -> Result<HostRun> {
        loop {
            let hint = self.state.hint;
            let Some(counts) = self.counts(hint)? else {
                // No refcount block covers these clusters, so all of them are free.
                self.add_block(self.writer.block_of(hint))?;
                continue;
            };
            let range = hint..counts.end();
            let Some(first) = range.clone().find(|&cluster| counts.get(cluster) == 0) else {
                self.state.hint = counts.end();
                continue;
            };
            self.state.hint = first;
            let limit = first.saturating_add(wanted.max(1)).min(range.end);
            let end = (first..limit)
                .find(|&cluster| counts.get(cluster) != 0)
                .unwrap_or(limit);
            return self.take_run(&counts, first, end.saturating_sub(first));
        }
    }

    /// Allocates free consecutive clusters within one slice of counts.
    fn take_run(&mut self, counts: &Counts, first: u64, clusters: u64) -> Result<HostRun> {
        self.check_free(first, clusters)?;
        let end = first.saturating_add(clusters);
        self.extend_file(self.place_of(end))?;
        for cluster in first..end {
            self.set_count(counts, cluster, 1);
        }
        self.state.hint = end;
        Ok(self.touched(first, clusters))
    }

    /// Returns the run, and marks its clusters as written.
    pub(super) fn touched(&mut self, first: u64, clusters: u64) -> HostRun {
        let untouched = first >= self.state.untouched_from;
        let end = first.saturating_add(clusters);
        self.state.untouched_from = self.state.untouched_from.max(end);
        HostRun {
            first,
            clusters,
            untouched,
        }
    }

    pub(super) fn place_of(&self, cluster: u64) -> HostOffset {
        HostOffset(cluster.saturating_mul(self.writer.geometry().cluster_size()))
    }

    pub(super) fn cluster_at(&self, host: HostOffset) -> u64 {
        shift_right(host.0, self.writer.geometry().cluster_bits())
    }

    /// Fails if wrong reference counts mark the image's own tables as free.
    pub(super) fn check_free(&self, first: u64, clusters: u64) -> Result<()> {
        let at = self.place_of(first);
        let len_bytes = clusters.saturating_mul(self.writer.geometry().cluster_size());
        if at.plus(len_bytes).0 > HOST_END {
            return Err(Error::new(
                ErrorKind::NoSpace,
                "no space left in the image: it has as many clusters as the format allows",
            ));
        }
        if !self.writer.header.overlaps_tables(at, len_bytes) {
            return Ok(());
        }
        let reason = "invalid reference counts: the image's own tables are counted as free";
        Err(Error::corrupt(reason)
            .at(at.0)
            .with_hint("repair it with `qemu-img check -r all`"))
    }

    /// Extends the image file to `end`, if it is shorter.
    pub(super) fn extend_file(&mut self, end: HostOffset) -> Result<()> {
        let image = &self.writer.image;
        if end.0 <= image.size_bytes() {
            return Ok(());
        }
        let step = round_up(end.0, GROWTH_BITS);
        image
            .set_size(step)
            .or_else(|_| extend(image.as_ref(), end.0))
    }

    /// Extends the external data file exactly to `end`, if it is shorter: a raw data file must have
    /// the size of the guest's disk.
    pub(super) fn extend_data_file(&mut self, end: HostOffset) -> Result<()> {
        let end = end.0.min(self.writer.size_bytes);
        match &self.writer.external {
            Some(data) if end > data.size_bytes() => data.set_size(end),
            _ => Ok(()),
        }
    }

    /// Frees clusters to which nothing ever referred.
    pub(crate) fn release(&mut self, run: HostRun) -> Result<()> {
        for cluster in run.first..run.first.saturating_add(run.clusters) {
            self.count_down(cluster)?;
        }
        Ok(())
    }

    /// Removes one reference; a cluster without references is free at once.
    pub(crate) fn count_down(&mut self, cluster: u64) -> Result<()> {
        let counts = self.counts(cluster)?;
        match counts.map(|counts| (counts.get(cluster), counts)) {
            None | Some((0, _)) => {
                let at = self.place_of(cluster);
                tracing::warn!("a cluster in use was counted as free (at byte {at})");
            }
            Some((count, counts)) => {
                self.set_count(&counts, cluster, count.saturating_sub(1));
                if count == 1 {
                    self.state.hint = self.state.hint.min(cluster);
                }
            }
        }
        Ok(())
    }
}
