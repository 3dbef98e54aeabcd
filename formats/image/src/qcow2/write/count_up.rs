//! References from several states to the same clusters: what internal snapshots are made of.
#![expect(dead_code, reason = "internal snapshots are made with it")]

use diskfs_block::{Error, Result};

use crate::numbers::low_bits;
use crate::qcow2::write::Writer;
use crate::qcow2::write::metadata::Locked;

impl Writer {
    /// The largest count.
    fn count_max(&self) -> u64 {
        let bits = u32::try_from(self.header.refcount_bits()).unwrap_or(u64::BITS);
        low_bits(u64::MAX, bits)
    }
}

impl Locked<'_> {
    /// One more reference to each of some clusters. Fails before any is counted when one of them
    /// is counted as often as can be, or not at all.
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

    fn cannot_count(&self, cluster: u64, count: u64) -> Error {
        let at = cluster.saturating_mul(self.writer.geometry().cluster_size());
        if count == 0 {
            return Error::corrupt("a cluster that is in use is counted as free")
                .at(at)
                .hint("run `qemu-img check` on the image");
        }
        let bits = self.writer.header.refcount_bits();
        let reason = format!("a cluster is referred to {count} times, the most for {bits} bits");
        Error::unsupported(reason)
            .at(at)
            .hint("convert the image to one with `refcount_bits=16`")
    }
}
