//! Reading the guest's bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use diskfs_block::{BlockRead, Error, Result};

use crate::layer::Layer;
use crate::numbers::{round_up, to_u64, to_usize};
use crate::qcow2::compressed::{CompressedClusters, Piece};
use crate::qcow2::l2_entry::CompressedCluster;
use crate::qcow2::mapping::{Mapping, Run, RunKind, Runs};
use crate::qcow2::units::{GuestOffset, HostOffset};

/// A reader of the guest's bytes from one image and its backing files.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) mapping: Mapping,
    /// The file with uncompressed clusters: the image file or the external data file, decrypted.
    pub(crate) data: Arc<dyn BlockRead>,
    /// True if the data in the file is encrypted, so that unwritten parts would decrypt to noise.
    pub(crate) is_encrypted: bool,
    pub(crate) compressed: CompressedClusters,
    pub(crate) backing: Backing,
}

/// The backing file, if there is one, until the image is detached from it.
#[derive(Debug)]
pub(crate) struct Backing {
    layer: Option<Arc<dyn Layer>>,
    is_detached: AtomicBool,
}

impl Backing {
    pub(crate) const fn new(layer: Option<Arc<dyn Layer>>) -> Self {
        Self {
            layer,
            is_detached: AtomicBool::new(false),
        }
    }

    pub(crate) fn get(&self) -> Option<&dyn Layer> {
        let is_detached = self.is_detached.load(Ordering::Acquire);
        self.layer.as_deref().filter(|_| !is_detached)
    }

    /// Lets everything that the image does not store read as zeroes.
    pub(crate) fn detach(&self) {
        self.is_detached.store(true, Ordering::Release);
    }
}

/// The largest number of runs to prefetch in one call. Looking up more would be wasted if the
/// caller stops earlier.
const AHEAD_RUNS_MAX: usize = 1024;
/// The largest distance to look ahead in one call. Tables can map a huge disk to the same few
/// clusters, so a limit on the number of runs alone is not enough.
const AHEAD_MAX_BYTES: u64 = 256 << 20;
/// The smallest run that is worth a system call to prefetch: a page.
const ADVISE_MIN_BYTES: u64 = 4096;

impl Reader {
    /// Fills `buf` with the guest's bytes at `offset`; the caller has checked the range.
    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let at = GuestOffset(offset);
        let len_bytes = to_u64(buf.len());
        let mut runs = Runs::new(&self.mapping, at, len_bytes);
        match runs.next_run()? {
            None => Ok(()),
            Some(run) if run.len_bytes >= len_bytes => self.read_runs(at, &[run], buf),
            Some(first) => {
                let runs = runs.collect_after(first)?;
                self.advise(at, &runs);
                self.read_runs(at, &runs, buf)
            }
        }
    }

    /// Has the files below prefetch all runs but the first, so that a disk works on them in
    /// parallel while the first is read.
    fn advise(&self, start: GuestOffset, runs: &[Run]) {
        let mut at = start;
        for (index, run) in runs.iter().enumerate() {
            if index > 0 && run.len_bytes >= ADVISE_MIN_BYTES {
                match run.kind {
                    RunKind::Data(host) => self.data.will_need(host.0, run.len_bytes),
                    RunKind::Unallocated(_) => self.backing_will_need(at, *run),
                    // Compressed clusters are prefetched elsewhere.
                    RunKind::Zero(_) | RunKind::Compressed(_) => {}
                }
            }
            at = at.plus(run.len_bytes);
        }
    }

    fn read_runs(&self, start: GuestOffset, runs: &[Run], buf: &mut [u8]) -> Result<()> {
        let mut at = start;
        let mut rest = buf;
        // The batch collects consecutive compressed clusters, whose bytes are the first of `rest`.
        let mut batch = Batch::default();
        for run in runs {
            if let RunKind::Compressed(cluster) = run.kind {
                batch.push(cluster, self.offset_in_cluster(at), run.len_bytes);
            } else {
                rest = self.read_batch(&mut batch, rest)?;
                let (piece, after) = split(rest, run.len_bytes);
                self.read_plain(run.kind, at, piece)?;
                rest = after;
            }
            at = at.plus(run.len_bytes);
        }
        self.read_batch(&mut batch, rest).map(|_| ())
    }

    /// Fills the front of `buf` with the clusters of the batch, empties the batch, and returns the
    /// rest of `buf`.
    fn read_batch<'a>(&self, batch: &mut Batch, buf: &'a mut [u8]) -> Result<&'a mut [u8]> {
        let (part, after) = split(buf, batch.len_bytes);
        match batch.pieces.as_slice() {
            [] => {}
            [piece] => self.compressed.read_one(*piece, part)?,
            pieces => self.compressed.read_all(pieces, part)?,
        }
        *batch = Batch::default();
        Ok(after)
    }

    fn offset_in_cluster(&self, at: GuestOffset) -> u64 {
        self.mapping.rules.geometry.offset_in_cluster(at.0)
    }

    fn read_plain(&self, kind: RunKind, at: GuestOffset, buf: &mut [u8]) -> Result<()> {
        match kind {
            RunKind::Data(host) => self.read_data(host, buf),
            RunKind::Unallocated(_) => self.read_backing(at, buf),
            RunKind::Zero(_) | RunKind::Compressed(_) => {
                buf.fill(0);
                Ok(())
            }
        }
    }

    /// Reads uncompressed clusters. The last cluster of a file may be truncated and reads as zeroes
    /// from there on, as in QEMU. A cluster that begins past the end is corrupt.
    fn read_data(&self, host: HostOffset, buf: &mut [u8]) -> Result<()> {
        let len_bytes = self.stored_len(host, to_u64(buf.len()))?;
        let (stored, missing) = split(buf, len_bytes);
        missing.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        self.data.read_at(host.0, stored)
    }

    /// Returns how many of `len_bytes` at `host` the file has.
    pub(crate) fn stored_len(&self, host: HostOffset, len_bytes: u64) -> Result<u64> {
        let size_bytes = self.data.size_bytes();
        let end = host.plus(len_bytes).0;
        if end <= size_bytes {
            return Ok(len_bytes);
        }
        // Encrypted clusters are written whole, because decrypting missing zeroes would yield
        // noise.
        let leeway_bits = if self.is_encrypted {
            0
        } else {
            self.mapping.rules.geometry.cluster_bits()
        };
        if end > round_up(size_bytes, leeway_bits) {
            let reason = format!(
                "data cluster is past the end of the file ({size_bytes:#x}); the file may be \
                 truncated"
            );
            return Err(Error::corrupt(reason).at(host.0.max(size_bytes)));
        }
        Ok(size_bytes.saturating_sub(host.0))
    }

    fn read_backing(&self, at: GuestOffset, buf: &mut [u8]) -> Result<()> {
        let Some(backing) = self.backing.get() else {
            buf.fill(0);
            return Ok(());
        };
        // Bytes past the end of a shorter backing file read as zeroes.
        let there = backing.size_bytes().saturating_sub(at.0);
        let (stored, missing) = split(buf, there);
        missing.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        backing.read_at(at.0, stored)
    }

    /// Prefetches the range: the file below reads uncompressed clusters ahead, and compressed ones
    /// are decompressed into the cache.
    pub(crate) fn will_need(&self, offset: u64, len_bytes: u64) {
        let mut at = GuestOffset(offset);
        let mut runs = Runs::new(&self.mapping, at, len_bytes.min(AHEAD_MAX_BYTES));
        let mut compressed = Vec::new();
        for _ in 0..AHEAD_RUNS_MAX {
            // The read that follows will report the error, with its place.
            let Ok(Some(run)) = runs.next_run() else {
                break;
            };
            match run.kind {
                RunKind::Data(host) => self.data.will_need(host.0, run.len_bytes),
                RunKind::Compressed(cluster) => compressed.push(cluster),
                RunKind::Unallocated(_) => self.backing_will_need(at, run),
                RunKind::Zero(_) => {}
            }
            at = at.plus(run.len_bytes);
        }
        self.compressed.decompress_ahead(compressed.into_iter());
    }

    fn backing_will_need(&self, at: GuestOffset, run: Run) {
        if let Some(backing) = self.backing.get() {
            backing.will_need(at.0, run.len_bytes);
        }
    }
}

/// A batch of consecutive compressed clusters.
#[derive(Debug, Default)]
struct Batch {
    pieces: Vec<Piece>,
    len_bytes: u64,
}

impl Batch {
    fn push(&mut self, cluster: CompressedCluster, start: u64, len_bytes: u64) {
        self.pieces.push(Piece {
            cluster,
            start,
            len_bytes,
        });
        self.len_bytes = self.len_bytes.saturating_add(len_bytes);
    }
}

/// Splits `buf` after `len_bytes`, or at its end.
fn split(buf: &mut [u8], len_bytes: u64) -> (&mut [u8], &mut [u8]) {
    let at = to_usize(len_bytes).min(buf.len());
    buf.split_at_mut(at)
}
