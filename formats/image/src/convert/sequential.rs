//! Copying of a disk into a new qcow2 image, which is written from its beginning to its end.

use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use diskfs_block::bytes::is_zero;
use diskfs_block::{BlockRead, Result};

use super::packer::Packer;
use super::parallel::{Turn, for_each};
use super::pieces::{Piece, Pieces, Skipped};
use super::tables::Tables;
use crate::Compression;
use crate::numbers::{to_u64, to_usize};
use crate::qcow2::header::{NewHeader, Table};
use crate::qcow2::l2_entry::{L2Rules, ZeroClusters};
use crate::qcow2::units::GuestOffset;

/// The compression of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// The level, 1 to 9 for zlib and 1 to 22 for zstd; `None` for the default.
    pub level: Option<u32>,
}

/// A copy into a new qcow2 image.
pub(super) struct SequentialCopy<'a> {
    pub(super) from: &'a dyn BlockRead,
    pub(super) file: &'a File,
    /// The header of the new image, without the places of its tables.
    pub(super) header: NewHeader,
    pub(super) packing: Option<Packing>,
    pub(super) threads: NonZeroUsize,
}

/// The form in which a cluster is stored, with its part of the buffer that is to be written.
enum Stored {
    Zeroes,
    Data(Range<usize>),
    Packed(Range<usize>),
}

/// The buffers of one thread.
struct Buffers {
    data: Vec<u8>,
    packed: Vec<u8>,
    packer: Option<Packer>,
    clusters: Vec<Stored>,
    writes: Vec<PendingWrite>,
}

/// A part of a buffer, with its offset in the image.
struct PendingWrite {
    at: u64,
    range: Range<usize>,
    is_packed: bool,
}

impl SequentialCopy<'_> {
    /// Writes the image. Only its header depends on everything else, so it is written last.
    pub(super) fn run(mut self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        let rules = self.rules();
        let size_bytes = self.header.size_bytes;
        let tables = Tables::new(rules, self.header.refcount_order, size_bytes);
        self.header.l1 = tables.l1_table();
        self.header.encode()?; // What makes no valid header is refused before the work.
        let tables = Mutex::new(tables);
        let skipped = match self.header.backing {
            Some(_) => Skipped::Backed,
            None => Skipped::Zeroes,
        };
        let mut pieces = Pieces::new(self.from, rules.geometry.cluster_size(), skipped);
        if rules.zero_clusters == ZeroClusters::Reserved {
            pieces = pieces.with_small_zeroes(); // They are stored like data.
        }
        let work = |buffers: &mut Buffers, piece: Piece, turn: Turn<'_>| {
            self.prepare(buffers, piece)?;
            turn.take(|| {
                let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
                self.place(&mut tables, buffers, piece)
            })?;
            self.write(buffers)
        };
        for_each(pieces, self.threads, || self.buffers(), work, progress)?;
        let mut tables = tables.into_inner().unwrap_or_else(PoisonError::into_inner);
        let refcounts = tables.finish(&mut |at, bytes| Ok(self.file.write_all_at(bytes, at)?))?;
        self.write_header(refcounts, tables.end())
    }

    fn rules(&self) -> L2Rules {
        self.header.l2_rules()
    }

    fn write_header(mut self, refcounts: Table, end: u64) -> Result<()> {
        self.header.refcount_table = refcounts;
        self.file.set_len(end)?;
        Ok(self.file.write_all_at(&self.header.encode()?, 0)?)
    }

    fn new_packer(&self) -> Result<Option<Packer>> {
        let compression: Compression = self.header.compression;
        let new = |packing: Packing| Packer::new(compression, packing.level);
        self.packing.map(new).transpose()
    }

    fn buffers(&self) -> Result<Buffers> {
        Ok(Buffers {
            data: Vec::new(),
            packed: Vec::new(),
            packer: self.new_packer()?,
            clusters: Vec::new(),
            writes: Vec::new(),
        })
    }

    /// Reads a piece, and compresses its clusters.
    fn prepare(&self, buffers: &mut Buffers, piece: Piece) -> Result<()> {
        buffers.clusters.clear();
        buffers.packed.clear();
        buffers.writes.clear();
        if piece.is_zero && self.rules().zero_clusters == ZeroClusters::Allowed {
            return Ok(());
        }
        let cluster = to_usize(self.rules().geometry.cluster_size());
        let len = to_usize(piece.len_bytes);
        buffers.data.resize(len.next_multiple_of(cluster), 0);
        let (data, rest) = buffers.data.split_at_mut(len);
        self.from.read_at(piece.offset, data)?;
        rest.fill(0);
        let mut start = 0_usize;
        for bytes in buffers.data.chunks(cluster) {
            let data = start..start.saturating_add(bytes.len());
            start = data.end;
            let stored = if self.can_omit(bytes) {
                Stored::Zeroes
            } else if let Some(packer) = &mut buffers.packer
                && let before = buffers.packed.len()
                && packer.pack(bytes, &mut buffers.packed)?.is_some()
            {
                Stored::Packed(before..buffers.packed.len())
            } else {
                Stored::Data(data)
            };
            buffers.clusters.push(stored);
        }
        Ok(())
    }

    /// Returns true if a cluster reads as zeroes, and need not be stored for that.
    fn can_omit(&self, cluster: &[u8]) -> bool {
        let hides_backing = self.header.backing.is_some();
        let has_zero_flag = self.rules().zero_clusters == ZeroClusters::Allowed;
        (!hides_backing || has_zero_flag) && is_zero(cluster)
    }

    /// Allocates the clusters of a piece.
    fn place(&self, tables: &mut Tables, buffers: &mut Buffers, piece: Piece) -> Result<()> {
        let mut write = |at: u64, bytes: &[u8]| Ok(self.file.write_all_at(bytes, at)?);
        let cluster_size = self.rules().geometry.cluster_size();
        let hides_backing = self.header.backing.is_some();
        let mut guest = GuestOffset(piece.offset);
        if buffers.clusters.is_empty() {
            let clusters = piece.len_bytes.div_ceil(cluster_size);
            for _ in 0..clusters {
                tables.add_zeroes(guest, &mut write)?;
                guest = guest.plus(cluster_size);
            }
            return Ok(());
        }
        for stored in buffers.clusters.drain(..) {
            let (at, range, is_packed) = match stored {
                Stored::Zeroes => {
                    if hides_backing {
                        tables.add_zeroes(guest, &mut write)?;
                    }
                    guest = guest.plus(cluster_size);
                    continue;
                }
                Stored::Data(range) => (tables.add_data(guest, &mut write)?, range, false),
                Stored::Packed(range) => {
                    let at = tables.add_packed(guest, range.len(), &mut write)?;
                    (at, range, true)
                }
            };
            guest = guest.plus(cluster_size);
            let new = PendingWrite {
                at,
                range,
                is_packed,
            };
            if !buffers
                .writes
                .last_mut()
                .is_some_and(|last| last.extend(&new))
            {
                buffers.writes.push(new);
            }
        }
        Ok(())
    }

    fn write(&self, buffers: &Buffers) -> Result<()> {
        for write in &buffers.writes {
            let buffer = if write.is_packed {
                &buffers.packed
            } else {
                &buffers.data
            };
            let bytes = buffer.get(write.range.clone()).unwrap_or_default();
            self.file.write_all_at(bytes, write.at)?;
        }
        Ok(())
    }
}

impl PendingWrite {
    /// Appends a write that continues this one in the image and in the buffer.
    fn extend(&mut self, next: &Self) -> bool {
        let continues = self.is_packed == next.is_packed
            && self.range.end == next.range.start
            && self.at.saturating_add(to_u64(self.range.len())) == next.at;
        if continues {
            self.range.end = next.range.end;
        }
        continues
    }
}
