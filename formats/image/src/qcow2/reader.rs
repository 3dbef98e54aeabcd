//! Reading the guest's bytes.

use std::sync::Arc;

use diskfs_block::{BlockRead, Error, Result};

use crate::node::Node;
use crate::numbers::{round_up, to_u64, to_usize};
use crate::qcow2::cache::{Cluster, ClusterKey};
use crate::qcow2::decompress::Decompressor;
use crate::qcow2::l2_entry::CompressedCluster;
use crate::qcow2::mapping::{Mapping, RunKind, Runs};
use crate::qcow2::units::{GuestOffset, HostOffset};

/// The guest's bytes of one image and what is behind it.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) mapping: Mapping,
    /// Where plain clusters are: the image file, or the external data file.
    pub(crate) data: Arc<dyn BlockRead>,
    pub(crate) decompressor: Decompressor,
    pub(crate) backing: Option<Arc<Node>>,
}

impl Reader {
    /// Fills `buf` with the guest's bytes at `offset`; the caller has checked the range.
    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut at = GuestOffset(offset);
        let mut rest = buf;
        let mut runs = Runs::new(&self.mapping, at, to_u64(rest.len()));
        while let Some(run) = runs.next_run()? {
            let (piece, after) = split(rest, run.len_bytes);
            match run.kind {
                RunKind::Data(host) => self.read_data(host, piece)?,
                RunKind::Zero(_) => piece.fill(0),
                RunKind::Unallocated(_) => self.read_backing(at, piece)?,
                RunKind::Compressed(cluster) => self.read_compressed(cluster, at, piece)?,
            }
            at = at.plus(run.len_bytes);
            rest = after;
        }
        Ok(())
    }

    /// Reads plain clusters. The last cluster of a file may be cut short and reads as zeroes from
    /// there on, as in QEMU; one that begins past the end is corrupt.
    fn read_data(&self, host: HostOffset, buf: &mut [u8]) -> Result<()> {
        let len_bytes = self.stored_len(host, to_u64(buf.len()))?;
        let (stored, missing) = split(buf, len_bytes);
        missing.fill(0);
        self.data.read_at(host.0, stored)
    }

    /// How many of `len_bytes` at `host` the file holds.
    pub(crate) fn stored_len(&self, host: HostOffset, len_bytes: u64) -> Result<u64> {
        let size_bytes = self.data.size_bytes();
        let end = host.plus(len_bytes).0;
        if end <= size_bytes {
            return Ok(len_bytes);
        }
        if end > round_up(size_bytes, self.mapping.rules.geometry.cluster_bits()) {
            let reason = format!(
                "data cluster lies past the end of the file ({size_bytes:#x}); was it cut short?"
            );
            return Err(Error::corrupt(reason).at(host.0.max(size_bytes)));
        }
        Ok(size_bytes.saturating_sub(host.0))
    }

    fn read_backing(&self, at: GuestOffset, buf: &mut [u8]) -> Result<()> {
        let Some(backing) = &self.backing else {
            buf.fill(0);
            return Ok(());
        };
        // What a shorter backing file does not have reads as zeroes.
        let there = backing.size_bytes().saturating_sub(at.0);
        let (stored, missing) = split(buf, there);
        missing.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        backing.read_at(at.0, stored)
    }

    fn read_compressed(
        &self,
        cluster: CompressedCluster,
        at: GuestOffset,
        buf: &mut [u8],
    ) -> Result<()> {
        let key = ClusterKey(self.mapping.layer, cluster.host);
        let cached = self.mapping.caches.clusters.get_or_insert_with(&key, || {
            let mut bytes = vec![0; to_usize(self.mapping.rules.geometry.cluster_size())];
            self.decompress(cluster, &mut bytes)?;
            Ok::<Cluster, Error>(Arc::new(bytes))
        })?;
        let start = to_usize(self.mapping.rules.geometry.offset_in_cluster(at.0));
        let stored = cached.get(start..start.saturating_add(buf.len()));
        buf.copy_from_slice(stored.ok_or_else(|| Error::invalid("read past a cluster"))?);
        Ok(())
    }

    fn decompress(&self, cluster: CompressedCluster, output: &mut [u8]) -> Result<()> {
        let file = &self.mapping.file;
        // The descriptor counts whole sectors, of which the last may go on past the file's end.
        let there = file.size_bytes().saturating_sub(cluster.host.0);
        if there == 0 {
            let reason = "compressed cluster lies past the end of the file; was it cut short?";
            return Err(Error::corrupt(reason).at(cluster.host.0));
        }
        let len_bytes = cluster.len_bytes.min(there);
        self.decompressor
            .run(len_bytes, output, |input| {
                file.read_at(cluster.host.0, input)
            })
            .map_err(|e| e.at(cluster.host.0))
    }
}

/// Splits `buf` after `len_bytes`, or at its end.
fn split(buf: &mut [u8], len_bytes: u64) -> (&mut [u8], &mut [u8]) {
    let at = to_usize(len_bytes).min(buf.len());
    buf.split_at_mut(at)
}
