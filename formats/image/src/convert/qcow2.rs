//! A new qcow2 image that is written from its beginning to its end.

use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

use diskfs_block::{BlockRead, Result, WriteAt};

use super::packer::{Packer, Packing};
use super::pieces::Skipped;
use super::sequential::{Form, SequentialCopy, Target, Units};
use super::tables::Tables;
use crate::qcow2::header::NewHeader;
use crate::qcow2::l2_entry::{L2Rules, ZeroClusters};
use crate::qcow2::units::GuestOffset;

/// A copy into a new qcow2 image.
pub(super) struct Qcow2Copy<'a> {
    pub(super) from: &'a dyn BlockRead,
    /// The place in the new image's disk of the first byte of `from`, a multiple of its clusters.
    pub(super) start: u64,
    pub(super) file: &'a File,
    pub(super) packing: Option<Packing>,
    pub(super) threads: NonZeroUsize,
}

impl Qcow2Copy<'_> {
    /// Adds the clusters of the disk to the image.
    pub(super) fn run(
        self,
        image: &mut Qcow2Image,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let (compression, packing) = (image.header.compression, self.packing);
        let new_packer = || {
            let new = |packing: Packing| Packer::new(compression, packing.level);
            packing.map(new).transpose()
        };
        let file = self.file;
        let copy = SequentialCopy {
            from: self.from,
            units: units(image.header.l2_rules(), image.hides_backing),
            new_packer: &new_packer,
            write: &|at, bytes| Ok(file.write_all_at(bytes, at)?),
            threads: self.threads,
        };
        let start = self.start;
        copy.run(&mut Part { image, start }, progress)
    }
}

/// A new qcow2 image as far as it was written.
pub(super) struct Qcow2Image {
    /// The header, without the places of its tables.
    header: NewHeader,
    tables: Tables,
    /// True if what the source stores must hide a backing file, and nothing else.
    hides_backing: bool,
}

impl Qcow2Image {
    /// Begins an image. `header` is without the places of its tables.
    pub(super) fn new(mut header: NewHeader, hides_backing: bool) -> Result<Self> {
        let rules = header.l2_rules();
        let tables = Tables::new(rules, header.refcount_order, header.size_bytes);
        header.l1 = tables.l1_table();
        header.encode()?; // What makes no valid header is refused before the work.
        Ok(Self {
            header,
            tables,
            hides_backing,
        })
    }

    /// Continues an image of which [`store`](Self::store) returned `end` after the first
    /// `done_bytes` of the disk.
    pub(super) fn restore(
        &mut self,
        stored: &dyn BlockRead,
        done_bytes: u64,
        end: u64,
    ) -> Result<()> {
        self.tables.restore(stored, done_bytes, end)
    }

    /// Makes what was added durable; returns the end of the image.
    pub(super) fn store(&mut self, file: &File) -> Result<u64> {
        let end = self
            .tables
            .store(&mut |at, bytes| Ok(file.write_all_at(bytes, at)?))?;
        file.set_len(end)?;
        file.sync_data()?;
        Ok(end)
    }

    /// Completes the image. Only its header depends on everything else, so it is written last.
    pub(super) fn finish(mut self, file: &File) -> Result<()> {
        let write: &mut WriteAt<'_> = &mut |at, bytes| Ok(file.write_all_at(bytes, at)?);
        self.header.refcount_table = self.tables.finish(write)?;
        write(self.header.l1.at.0, &self.tables.l1_bytes())?;
        file.set_len(self.tables.end())?;
        Ok(file.write_all_at(&self.header.encode()?, 0)?)
    }
}

/// Returns the units: clusters.
fn units(rules: L2Rules, hides_backing: bool) -> Units {
    let has_zero_flag = rules.zero_clusters == ZeroClusters::Allowed;
    Units {
        unit_bytes: rules.geometry.cluster_size(),
        skipped: if hides_backing {
            Skipped::Backed
        } else {
            Skipped::Zeroes
        },
        // Without the flag, only what no backing file has reads as zeroes.
        omits_zeroes: !hides_backing || has_zero_flag,
        is_padded: true,
    }
}

/// A part of the disk that is added to an image, with its place.
struct Part<'a> {
    image: &'a mut Qcow2Image,
    start: u64,
}

impl Target for Part<'_> {
    fn add_zeroes(&mut self, offset: u64, len_bytes: u64, write: &mut WriteAt<'_>) -> Result<()> {
        if !self.image.hides_backing {
            return Ok(());
        }
        let cluster_size = self.image.header.geometry.cluster_size();
        let mut guest = GuestOffset(self.start).plus(offset);
        for _ in 0..len_bytes.div_ceil(cluster_size) {
            self.image.tables.add_zeroes(guest, write)?;
            guest = guest.plus(cluster_size);
        }
        Ok(())
    }

    fn add(
        &mut self,
        offset: u64,
        bytes: &[u8],
        form: Form,
        write: &mut WriteAt<'_>,
    ) -> Result<Option<u64>> {
        let guest = GuestOffset(self.start).plus(offset);
        let tables = &mut self.image.tables;
        let place = match form {
            Form::Plain => tables.add_data(guest, write)?,
            Form::Packed => tables.add_packed(guest, bytes.len(), write)?,
        };
        Ok(Some(place))
    }
}
