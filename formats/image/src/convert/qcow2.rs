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
    pub(super) file: &'a File,
    /// The header of the new image, without the places of its tables.
    pub(super) header: NewHeader,
    /// True if what the source stores must hide a backing file, and nothing else.
    pub(super) hides_backing: bool,
    pub(super) packing: Option<Packing>,
    pub(super) threads: NonZeroUsize,
}

impl Qcow2Copy<'_> {
    /// Writes the image. Only its header depends on everything else, so it is written last.
    pub(super) fn run(mut self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        let rules = self.header.l2_rules();
        let size_bytes = self.header.size_bytes;
        let tables = Tables::new(rules, self.header.refcount_order, size_bytes);
        self.header.l1 = tables.l1_table();
        self.header.encode()?; // What makes no valid header is refused before the work.
        let hides_backing = self.hides_backing;
        let mut image = Qcow2Image {
            tables,
            rules,
            hides_backing,
        };
        let (compression, packing) = (self.header.compression, self.packing);
        let new_packer = || {
            let new = |packing: Packing| Packer::new(compression, packing.level);
            packing.map(new).transpose()
        };
        let file = self.file;
        let copy = SequentialCopy {
            from: self.from,
            units: units(rules, hides_backing),
            new_packer: &new_packer,
            write: &|at, bytes| Ok(file.write_all_at(bytes, at)?),
            threads: self.threads,
        };
        copy.run(&mut image, progress)?;
        let mut tables = image.tables;
        let write: &mut WriteAt<'_> = &mut |at, bytes| Ok(file.write_all_at(bytes, at)?);
        self.header.refcount_table = tables.finish(write)?;
        write(self.header.l1.at.0, &tables.l1_bytes())?;
        file.set_len(tables.end())?;
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

/// The tables of the image, to which clusters are added.
struct Qcow2Image {
    tables: Tables,
    rules: L2Rules,
    hides_backing: bool,
}

impl Target for Qcow2Image {
    fn add_zeroes(&mut self, offset: u64, len_bytes: u64, write: &mut WriteAt<'_>) -> Result<()> {
        if !self.hides_backing {
            return Ok(());
        }
        let cluster_size = self.rules.geometry.cluster_size();
        let mut guest = GuestOffset(offset);
        for _ in 0..len_bytes.div_ceil(cluster_size) {
            self.tables.add_zeroes(guest, write)?;
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
        let guest = GuestOffset(offset);
        let place = match form {
            Form::Plain => self.tables.add_data(guest, write)?,
            Form::Packed => self.tables.add_packed(guest, bytes.len(), write)?,
        };
        Ok(Some(place))
    }
}
