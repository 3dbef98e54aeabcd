//! References from several states to the same clusters, for internal snapshots.
#![expect(dead_code, reason = "internal snapshots are made with it")]

use diskfs_block::Result;

use crate::qcow2::write::metadata::Locked;

impl Locked<'_> {
    /// Adds one reference to each of some clusters. Fails before any change if one of them has the
    /// largest count or a count of zero.
    pub(crate) fn count_up(&mut self, first: u64, clusters: u64) -> Result<()> {
        let max = self.writer.count_max();
        let end = first.saturating_add(clusters);
        for cluster in first..end {
            let count = self.count(cluster)?;
            if count == 0 || count >= max {
                return Err(self.cannot_count(cluster, count));
            }
        }
        for cluster in first..end {
            if let Some(counts) = self.counts(cluster)? {
                let count = counts.get(cluster).saturating_add(1);
                self.set_count(&counts, cluster, count);
            }
        }
        Ok(())
    }
}
