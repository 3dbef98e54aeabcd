//! Copying of a disk into a new image of blocks, and into a stream.

use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use diskfs_block::{BlockRead, ImageLayout, Result, WriteAt};
use diskfs_vmdk::{GRAIN_BYTES, StreamWriter};

use super::ConvertOptions;
use super::device::SPARSE_BYTES;
use super::in_order::refuse_places;
use super::packer::{Packer, Packing};
use super::pieces::Skipped;
use super::sequential::{Form, SequentialCopy, Target, Units};

/// A copy into a file whose places a format's layout determines.
#[derive(Clone, Copy)]
pub(super) struct LayoutCopy<'a> {
    pub(super) from: &'a dyn BlockRead,
    pub(super) file: &'a File,
    /// The granularity at which zeroes are found, a power of two; `None` to store everything.
    pub(super) sparse_bytes: Option<u64>,
    pub(super) threads: NonZeroUsize,
}

impl LayoutCopy<'_> {
    /// Writes the image. The tables, which depend on everything else, are written last.
    pub(super) fn run(
        self,
        layout: &mut dyn ImageLayout,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let unit_bytes = self.sparse_bytes.unwrap_or(SPARSE_BYTES);
        let copy = SequentialCopy {
            from: self.from,
            units: Units {
                unit_bytes: unit_bytes.min(layout.block_bytes()),
                skipped: match self.sparse_bytes {
                    Some(_) => Skipped::Zeroes,
                    None => Skipped::None,
                },
                omits_zeroes: self.sparse_bytes.is_some(),
                is_padded: false,
            },
            new_packer: &|| Ok(None),
            write: &|at, bytes| Ok(self.file.write_all_at(bytes, at)?),
            threads: self.threads,
        };
        copy.run(&mut Placed(layout), progress)?;
        let write: &mut WriteAt<'_> = &mut |at, bytes| Ok(self.file.write_all_at(bytes, at)?);
        let end = layout.finish(write)?;
        Ok(self.file.set_len(end)?)
    }
}

/// A target whose units get their places from a layout.
struct Placed<'a>(&'a mut dyn ImageLayout);

impl Target for Placed<'_> {
    fn add(
        &mut self,
        offset: u64,
        _: &[u8],
        _: Form,
        write: &mut WriteAt<'_>,
    ) -> Result<Option<u64>> {
        self.0.place(offset, write).map(Some)
    }
}

/// A copy into a stream of compressed grains.
#[derive(Clone, Copy)]
pub(super) struct GrainCopy<'a> {
    from: &'a dyn BlockRead,
    packing: Option<Packing>,
    threads: NonZeroUsize,
}

impl<'a> GrainCopy<'a> {
    pub(super) fn new(from: &'a dyn BlockRead, options: &ConvertOptions) -> Self {
        Self {
            from,
            packing: options.packing,
            threads: options.threads(),
        }
    }

    /// Writes the image; returns the output, which is flushed.
    pub(super) fn run<W: Write + Send>(
        self,
        stream: StreamWriter<W>,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<W> {
        let level = self.packing.and_then(|packing| packing.level);
        let copy = SequentialCopy {
            from: self.from,
            units: Units {
                unit_bytes: GRAIN_BYTES,
                skipped: Skipped::Zeroes,
                omits_zeroes: true,
                is_padded: true,
            },
            new_packer: &|| Packer::for_grains(level).map(Some),
            write: &refuse_places,
            threads: self.threads,
        };
        let mut grains = Grains(stream);
        copy.run(&mut grains, progress)?;
        grains.0.finish()
    }
}

/// A stream of compressed grains.
struct Grains<W: Write>(StreamWriter<W>);

impl<W: Write + Send> Target for Grains<W> {
    fn add(
        &mut self,
        offset: u64,
        bytes: &[u8],
        _: Form,
        _: &mut WriteAt<'_>,
    ) -> Result<Option<u64>> {
        self.0.write_grain(offset.div_euclid(GRAIN_BYTES), bytes)?;
        Ok(None)
    }
}
