//! Clusters that the tables no longer refer to.
//!
//! They keep their count and contents until the tables without the reference are durable and all
//! requests that may still read them have ended. Then they are free.

use diskfs_block::Result;

use crate::numbers::to_u64;
use crate::qcow2::l2_entry::{CompressedCluster, L2Entry};
use crate::qcow2::units::HostOffset;
use crate::qcow2::write::Writer;
use crate::qcow2::write::metadata::Locked;

/// A run of clusters that lose one reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Freed {
    pub(super) first: u64,
    pub(super) clusters: u64,
    pub(super) hole: Hole,
}

/// The treatment of freed clusters' space in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hole {
    /// Return the space to the host, because the guest discarded it.
    Punch,
    /// Keep the space, because it will soon be reused.
    Keep,
}

impl Locked<'_> {
    /// Frees the clusters to which an L2 entry referred.
    pub(super) fn free_entry(&mut self, old: &L2Entry, hole: Hole) {
        match *old {
            L2Entry::Compressed(CompressedCluster { host, len_bytes }) => {
                let first = self.cluster_at(host);
                let last = self.cluster_at(host.plus(len_bytes.saturating_sub(1)));
                let clusters = last.saturating_sub(first).saturating_add(1);
                self.free_run(first, clusters, hole);
            }
            L2Entry::Standard(cluster) => {
                if let (Some(host), None) = (cluster.host, &self.writer.external) {
                    self.free_run(self.cluster_at(host), 1, hole);
                }
            }
        }
    }

    pub(super) fn free_cluster(&mut self, host: HostOffset) {
        self.free_run(self.cluster_at(host), 1, Hole::Keep);
    }

    fn free_run(&mut self, first: u64, clusters: u64, hole: Hole) {
        if let Some(last) = self.state.freed.last_mut()
            && last.first.saturating_add(last.clusters) == first
            && last.hole == hole
        {
            last.clusters = last.clusters.saturating_add(clusters);
            return;
        }
        self.state.freed.push(Freed {
            first,
            clusters,
            hole,
        });
    }
}

impl Writer {
    /// Frees clusters to which no durable table refers any more.
    pub(super) fn free_all(&self, freed: &[Freed]) -> Result<()> {
        if freed.is_empty() {
            return Ok(());
        }
        self.requests.wait_for_all();
        for run in freed {
            if run.hole == Hole::Punch {
                self.punch(run)?;
            }
            let mut locked = self.lock();
            for cluster in run.first..run.first.saturating_add(run.clusters) {
                locked.count_down(cluster)?;
            }
        }
        Ok(())
    }

    /// Punches holes for clusters that lose their last reference. No other writer can allocate them
    /// yet, because they are still counted.
    fn punch(&self, run: &Freed) -> Result<()> {
        let last: Vec<u64> = {
            let locked = self.lock();
            let mut last = Vec::new();
            for cluster in run.first..run.first.saturating_add(run.clusters) {
                if locked.count(cluster)? == 1 {
                    last.push(cluster);
                }
            }
            last
        };
        let cluster_size = self.geometry().cluster_size();
        for part in last.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
            let Some(first) = part.first() else {
                continue;
            };
            let at = first.saturating_mul(cluster_size);
            let len_bytes = to_u64(part.len()).saturating_mul(cluster_size);
            let there = self.image.size_bytes().saturating_sub(at).min(len_bytes);
            // A failure is harmless: the clusters are free whether or not the host releases their
            // space.
            if let Err(e) = self.image.discard(at, there) {
                tracing::debug!("freed clusters keep their space: {e}");
            }
        }
        Ok(())
    }
}
