//! A new qcow2 image that is written to a stream.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use diskfs_block::{BlockRead, Error, ErrorKind, Result, WriteAt, check_cancelled};

use super::in_order::{InOrder, refuse_places};
use super::pieces::{Pieces, Skipped};
use super::sequential::{Form, SequentialCopy, Target, Units};
use super::tables::Tables;
use crate::qcow2::header::NewHeader;
use crate::qcow2::units::GuestOffset;

/// A copy into a stream, without compression.
///
/// An image states the places of its tables at its beginning. They follow from the source's map
/// alone, so that is read first. Zeroes in the source's data are stored, because the map does not
/// tell them.
pub(super) struct Qcow2Stream<'a> {
    pub(super) from: &'a dyn BlockRead,
    /// The header of the new image, without the places of its tables.
    pub(super) header: NewHeader,
    pub(super) threads: NonZeroUsize,
}

impl Qcow2Stream<'_> {
    pub(super) fn run(
        mut self,
        out: &mut (dyn Write + Send),
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        self.header.l1 = self.tables().l1_table();
        self.header.encode()?; // What makes no valid header is refused before the work.
        let mut planned = self.planned(progress)?;
        self.header.refcount_table = planned.finish(&mut |_, _| Ok(()))?;
        let mut out = InOrder::new(out);
        out.write_at(0, &self.header.encode()?)?;
        out.write_at(self.header.l1.at.0, &planned.l1_bytes())?;
        let copy = SequentialCopy {
            from: self.from,
            units: Units {
                unit_bytes: self.cluster_bytes(),
                skipped: Skipped::Zeroes,
                omits_zeroes: false,
                is_padded: true,
            },
            new_packer: &|| Ok(None),
            write: &refuse_places,
            threads: self.threads,
        };
        let tables = self.tables();
        let mut image = StreamedImage { tables, out };
        copy.run(&mut image, progress)?;
        image.finish(&planned)
    }

    fn cluster_bytes(&self) -> u64 {
        self.header.geometry.cluster_size()
    }

    fn tables(&self) -> Tables {
        let rules = self.header.l2_rules();
        Tables::new(rules, self.header.refcount_order, self.header.size_bytes)
    }

    /// Returns the tables of the complete image, except for its refcounts.
    fn planned(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Tables> {
        let mut tables = self.tables();
        let cluster_bytes = self.cluster_bytes();
        for piece in Pieces::new(self.from, cluster_bytes, Skipped::Zeroes) {
            let piece = piece?;
            let mut guest = GuestOffset(piece.offset);
            for _ in 0..piece.len_bytes.div_ceil(cluster_bytes) {
                tables.add_data(guest, &mut |_, _| Ok(()))?;
                guest = guest.plus(cluster_bytes);
            }
            check_cancelled(progress(0))?;
        }
        Ok(tables)
    }
}

/// The image as far as it was written.
struct StreamedImage<'a> {
    tables: Tables,
    out: InOrder<'a>,
}

impl StreamedImage<'_> {
    /// Writes the rest, if it is what the beginning of the image states.
    fn finish(mut self, planned: &Tables) -> Result<()> {
        self.tables
            .finish(&mut |at, bytes| self.out.write_at(at, bytes))?;
        let is_planned =
            self.tables.end() == planned.end() && self.tables.l1_bytes() == planned.l1_bytes();
        if !is_planned {
            let reason = "the source was changed meanwhile, so the image is not valid";
            return Err(Error::new(ErrorKind::Io, reason));
        }
        self.out.pad_to(planned.end())
    }
}

impl Target for StreamedImage<'_> {
    fn add(
        &mut self,
        offset: u64,
        bytes: &[u8],
        _: Form,
        _: &mut WriteAt<'_>,
    ) -> Result<Option<u64>> {
        let Self { tables, out } = self;
        let guest = GuestOffset(offset);
        let place = tables.add_data(guest, &mut |at, bytes| out.write_at(at, bytes))?;
        out.write_at(place, bytes)?;
        Ok(None)
    }
}
