//! Compressed qcow2 images (QEMU, docs/interop/qcow2.rst, "Cluster mapping").

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use diskfs_block::{BlockRead, Error, ExtentKind, Result, check_cancelled};
use flate2::{Compress, FlushCompress, Status};

use crate::Compression;
use crate::create::{Existing, UnfinishedImage};
use crate::numbers::{to_u64, to_usize};
use crate::qcow2::features::{Autoclear, Compatible, Incompatible};
use crate::qcow2::header::{NewHeader, Table};
use crate::qcow2::units::{Geometry, HostOffset, L2Layout};

/// The exponent of the cluster size, the default of `qemu-img`.
const CLUSTER_BITS: u32 = 16;
const CLUSTER_BYTES: u64 = 1 << CLUSTER_BITS;
const SECTOR_BYTES: u64 = 512;

/// The number of entries of an L2 table.
const L2_ENTRIES: u64 = CLUSTER_BYTES / 8;

/// The number of counts of 16 bits in a refcount block.
const BLOCK_COUNTS: u64 = CLUSTER_BYTES / 2;
const REFCOUNT_ORDER: u32 = 4;

/// The flag of entries whose cluster has a refcount of 1.
const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;

/// The bit at which the number of sectors of a compressed cluster begins.
const SECTORS_SHIFT: u32 = 62 - (CLUSTER_BITS - 8);

/// The window of deflate in QEMU: 4 KiB.
const WINDOW_BITS: u8 = 12;

/// Copies a device into a new qcow2 image with compressed clusters. Clusters of zeroes are not
/// stored. The same contents always make the same file. Calls `progress` with the number of bytes
/// of the device that were copied.
///
/// The file appears only when it is complete and durable.
///
/// # Errors
/// `Exists` if there is such a file; the errors of both files; `Cancelled`.
pub fn compressed_copy(
    from: &dyn BlockRead,
    path: &Path,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    UnfinishedImage::compressed(from, path, Existing::Keep, progress)?.finish()
}

impl UnfinishedImage {
    /// Copies a device into a compressed image, as [`compressed_copy`] does.
    ///
    /// # Errors
    /// As for [`compressed_copy`].
    pub fn compressed(
        from: &dyn BlockRead,
        path: &Path,
        existing: Existing,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Self> {
        let new = Self::empty(path, existing)?;
        let copied = Copier::new(new.file(), from.size_bytes()).copy(from, progress);
        copied.map_err(|error| error.in_file(path))?;
        Ok(new)
    }
}

/// A writer of one image.
struct Copier<'a> {
    file: &'a File,
    size_bytes: u64,
    l1: Vec<u64>,
    /// The refcounts of all clusters before `end`.
    counts: Vec<u16>,
    /// The end of what was written.
    end: u64,
    deflate: Compress,
}

impl<'a> Copier<'a> {
    fn new(file: &'a File, size_bytes: u64) -> Self {
        let entries = size_bytes.div_ceil(CLUSTER_BYTES).div_ceil(L2_ENTRIES);
        let mut copier = Self {
            file,
            size_bytes,
            l1: vec![0; to_usize(entries)],
            counts: Vec::new(),
            end: 0,
            deflate: Compress::new_with_window_bits(
                flate2::Compression::default(),
                false,
                WINDOW_BITS,
            ),
        };
        // The header, and the L1 table after it.
        copier.take(CLUSTER_BYTES);
        copier.take(entries.saturating_mul(8));
        copier
    }

    fn copy(
        mut self,
        from: &dyn BlockRead,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        for index in 0..self.l1.len() {
            let table = self.copy_table(from, to_u64(index), progress)?;
            if let Some(entry) = self.l1.get_mut(index) {
                *entry = table;
            }
        }
        self.finish()
    }

    /// Copies the clusters of one L2 table; returns its entry in the L1 table.
    fn copy_table(
        &mut self,
        from: &dyn BlockRead,
        index: u64,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        let covered = L2_ENTRIES.saturating_mul(CLUSTER_BYTES);
        let start = index.saturating_mul(covered);
        let end = start.saturating_add(covered).min(self.size_bytes);
        let mut table = vec![0; to_usize(L2_ENTRIES)];
        let mut cluster = vec![0; to_usize(CLUSTER_BYTES)];
        let mut at = start;
        while at < end {
            let hole = hole_at(from, at, end)?;
            if hole > 0 {
                at = at.saturating_add(hole);
                continue;
            }
            let len = CLUSTER_BYTES.min(end.saturating_sub(at));
            let (data, rest) = cluster.split_at_mut(to_usize(len));
            from.read_at(at, data)?;
            rest.fill(0);
            let slot = at.saturating_sub(start) / CLUSTER_BYTES;
            if cluster.iter().any(|byte| *byte != 0)
                && let Some(entry) = table.get_mut(to_usize(slot))
            {
                *entry = self.put_cluster(&cluster)?;
            }
            check_cancelled(progress(len))?;
            at = at.saturating_add(len);
        }
        if table.iter().all(|entry| *entry == 0) {
            return Ok(0);
        }
        self.put_table(&table).map(|at| at | COPIED)
    }

    /// Stores a cluster; returns its L2 entry.
    fn put_cluster(&mut self, cluster: &[u8]) -> Result<u64> {
        let Some(packed) = self.packed(cluster)? else {
            let at = self.take(CLUSTER_BYTES);
            self.write(at, cluster)?;
            return Ok(at | COPIED);
        };
        let at = self.end;
        let last = at.saturating_add(to_u64(packed.len())).saturating_sub(1);
        self.count(at, last);
        self.end = last.saturating_add(1);
        self.write(at, &packed)?;
        let sectors = (last / SECTOR_BYTES).saturating_sub(at / SECTOR_BYTES);
        Ok(COMPRESSED | at | (sectors << SECTORS_SHIFT))
    }

    /// Compresses a cluster; `None` if that saves less than a sector.
    fn packed(&mut self, cluster: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut packed = Vec::with_capacity(to_usize(CLUSTER_BYTES - SECTOR_BYTES));
        self.deflate.reset();
        let status = self
            .deflate
            .compress_vec(cluster, &mut packed, FlushCompress::Finish)
            .map_err(|error| Error::invalid(format!("cannot compress a cluster: {error}")))?;
        Ok((status == Status::StreamEnd).then_some(packed))
    }

    fn put_table(&mut self, entries: &[u64]) -> Result<u64> {
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(|entry| entry.to_be_bytes())
            .collect();
        let at = self.take(to_u64(bytes.len()));
        self.write(at, &bytes)?;
        Ok(at)
    }

    /// Allocates whole clusters, whose refcount is 1; returns their offset.
    fn take(&mut self, len_bytes: u64) -> u64 {
        let at = self.end.next_multiple_of(CLUSTER_BYTES);
        let len_bytes = len_bytes.max(1).next_multiple_of(CLUSTER_BYTES);
        self.end = at.saturating_add(len_bytes);
        self.count(at, self.end.saturating_sub(1));
        at
    }

    /// Counts a reference to each cluster of a range.
    fn count(&mut self, first: u64, last: u64) {
        let clusters = (last / CLUSTER_BYTES).saturating_add(1);
        if to_u64(self.counts.len()) < clusters {
            self.counts.resize(to_usize(clusters), 0);
        }
        let range = to_usize(first / CLUSTER_BYTES)..to_usize(clusters);
        for count in self.counts.get_mut(range).unwrap_or_default() {
            *count = count.saturating_add(1);
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.file.write_all_at(bytes, at)?)
    }

    /// Writes the refcounts, the L1 table and the header.
    fn finish(mut self) -> Result<()> {
        let (table_at, table_entries) = self.put_refcounts()?;
        let l1_at = CLUSTER_BYTES;
        let l1: Vec<u8> = self
            .l1
            .iter()
            .flat_map(|entry| entry.to_be_bytes())
            .collect();
        self.write(l1_at, &l1)?;
        let header = NewHeader {
            version: 3,
            geometry: Geometry::new(CLUSTER_BITS, L2Layout::Standard),
            size_bytes: self.size_bytes,
            l1: Table {
                at: HostOffset(l1_at),
                entries: to_u64(self.l1.len()),
            },
            refcount_table: Table {
                at: HostOffset(table_at),
                entries: table_entries,
            },
            refcount_order: REFCOUNT_ORDER,
            incompatible: Incompatible(0),
            compatible: Compatible(0),
            autoclear: Autoclear(0),
            compression: Compression::Zlib,
            backing: None,
            data_file: None,
        };
        self.file.set_len(self.end)?;
        self.write(0, &header.encode()?)
    }

    /// Writes the refcount blocks and their table; returns the offset and the entries of the table.
    fn put_refcounts(&mut self) -> Result<(u64, u64)> {
        let used = self.end.div_ceil(CLUSTER_BYTES);
        // The blocks and the table count themselves, too.
        let (mut blocks, mut table_clusters) = (1_u64, 1_u64);
        loop {
            let clusters = used.saturating_add(blocks).saturating_add(table_clusters);
            let needed = clusters.div_ceil(BLOCK_COUNTS);
            let table_needed = needed.saturating_mul(8).div_ceil(CLUSTER_BYTES);
            if (needed, table_needed) == (blocks, table_clusters) {
                break;
            }
            (blocks, table_clusters) = (needed, table_needed);
        }
        let table_at = self.take(table_clusters.saturating_mul(CLUSTER_BYTES));
        let blocks_at = self.take(blocks.saturating_mul(CLUSTER_BYTES));
        let counts = self.counts.clone();
        let mut table = vec![0; to_usize(table_clusters.saturating_mul(L2_ENTRIES))];
        for (index, counts) in (0_u64..).zip(counts.chunks(to_usize(BLOCK_COUNTS))) {
            let at = blocks_at.saturating_add(index.saturating_mul(CLUSTER_BYTES));
            let bytes: Vec<u8> = counts
                .iter()
                .flat_map(|count| count.to_be_bytes())
                .collect();
            self.write(at, &bytes)?;
            if let Some(entry) = table.get_mut(to_usize(index)) {
                *entry = at;
            }
        }
        let bytes: Vec<u8> = table.iter().flat_map(|entry| entry.to_be_bytes()).collect();
        self.write(table_at, &bytes)?;
        Ok((table_at, to_u64(table.len())))
    }
}

/// Returns the number of bytes of whole clusters from `at` on that read as zeros without storage.
fn hole_at(from: &dyn BlockRead, at: u64, end: u64) -> Result<u64> {
    let extent = from.extent_at(at)?;
    if extent.kind == ExtentKind::Data {
        return Ok(0);
    }
    let left = end.saturating_sub(at);
    if extent.len_bytes >= left {
        return Ok(left);
    }
    let clusters = extent.len_bytes / CLUSTER_BYTES;
    Ok(clusters.saturating_mul(CLUSTER_BYTES))
}
