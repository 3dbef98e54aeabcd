//! Compression of clusters and grains.

use diskfs_block::{Error, Result};
use diskfs_vmdk::GrainCompressor;
use flate2::{Compress, FlushCompress, Status};
use zstd::bulk::Compressor;

use crate::Compression;
use crate::numbers::to_usize;

/// The window of deflate in QEMU: 4 KiB.
const WINDOW_BITS: u8 = 12;
/// A compressed cluster must be smaller than the cluster by a sector, or it is stored as it is.
const SECTOR_BYTES: usize = 512;
/// The room for the output beyond the length of the cluster. A smaller output would be enough, but
/// at level 1 `zlib-rs` 0.6 panics if it is full.
const SLACK_BYTES: usize = 1024;

/// The compression of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// The level, 1 to 9 for zlib and 1 to 22 for zstd; `None` for the default.
    pub level: Option<u32>,
}

/// A compressor of one thread.
pub(super) enum Packer {
    Deflate(Compress),
    Zstd(Compressor<'static>),
    /// For grains of a VMDK stream, which are all compressed.
    Grains(GrainCompressor),
}

impl Packer {
    /// Creates a compressor. `level` is 1 to 9 for zlib and 1 to 22 for zstd; `None` for the
    /// default.
    ///
    /// # Errors
    /// `Invalid` for another level.
    pub(super) fn new(compression: Compression, level: Option<u32>) -> Result<Self> {
        let levels = match compression {
            Compression::Zlib => 1..=9,
            Compression::Zstd => 1..=22,
        };
        if let Some(level) = level.filter(|level| !levels.contains(level)) {
            let (first, last) = levels.into_inner();
            let name = compression.name();
            let reason = format!("invalid level {level} of {name}: expected {first} to {last}");
            return Err(Error::invalid(reason));
        }
        Ok(match compression {
            Compression::Zlib => {
                let level =
                    level.map_or_else(flate2::Compression::default, flate2::Compression::new);
                Self::Deflate(Compress::new_with_window_bits(level, false, WINDOW_BITS))
            }
            Compression::Zstd => {
                let level = level.and_then(|level| i32::try_from(level).ok());
                let level = level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
                Self::Zstd(Compressor::new(level).map_err(failed)?)
            }
        })
    }

    /// Creates a compressor for the grains of a VMDK stream. `level` is 1 to 9; `None` for the
    /// default.
    ///
    /// # Errors
    /// `Invalid` for another level.
    pub(super) fn for_grains(level: Option<u32>) -> Result<Self> {
        let compressor = level.map_or_else(
            || Ok(GrainCompressor::default()),
            GrainCompressor::with_level,
        );
        compressor.map(Self::Grains)
    }

    /// Appends the compressed form of a unit; returns its length, or `None` if compression saves
    /// less than a sector. Nothing is appended then.
    pub(super) fn pack(&mut self, unit: &[u8], output: &mut Vec<u8>) -> Result<Option<usize>> {
        if let Self::Grains(compressor) = self {
            let grain = compressor.compress(unit)?;
            output.extend_from_slice(&grain);
            return Ok(Some(grain.len()));
        }
        self.pack_cluster(unit, output)
    }

    fn pack_cluster(&mut self, cluster: &[u8], output: &mut Vec<u8>) -> Result<Option<usize>> {
        let before = output.len();
        let room = cluster.len() / 8;
        let room = room
            .saturating_add(cluster.len())
            .saturating_add(SLACK_BYTES);
        output.resize(before.saturating_add(room), 0);
        let room = output.get_mut(before..).unwrap_or_default();
        let packed = match self {
            Self::Deflate(codec) => deflate(codec, cluster, room)?,
            Self::Zstd(codec) => Some(codec.compress_to_buffer(cluster, room).map_err(failed)?),
            Self::Grains(_) => None,
        };
        let packed = packed.filter(|len| *len <= cluster.len().saturating_sub(SECTOR_BYTES));
        output.truncate(before.saturating_add(packed.unwrap_or(0)));
        Ok(packed)
    }
}

/// Compresses a cluster; returns the length of the output, or `None` if it does not fit.
fn deflate(codec: &mut Compress, cluster: &[u8], output: &mut [u8]) -> Result<Option<usize>> {
    codec.reset();
    let status = codec.compress(cluster, output, FlushCompress::Finish);
    let has_ended = status.map_err(failed)? == Status::StreamEnd;
    Ok(has_ended.then(|| to_usize(codec.total_out())))
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("cannot compress a cluster: {error}"))
}
