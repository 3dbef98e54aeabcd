//! Check and repair of qcow2 metadata, as with `qemu-img check -r`.
//!
//! [`Image::check`](crate::Image::check) finds errors without a change. A repair changes only
//! reference counts, "copied" flags and the marks in the header, never the guest's data: leaked
//! clusters are freed, counts are corrected, and missing or broken refcount blocks are built anew.
//! Invalid entries of L1 tables, L2 tables, snapshots and bitmaps are reported and kept, because
//! their right value is unknown. While there are some, no cluster is freed, because it may belong to
//! them.
//!
//! A repair that is interrupted can be started again.

use std::path::Path;

use diskfs_block::{BlockWrite, Error, Result};

use crate::open::Opener;
use crate::qcow2::repair::repair as repair_tables;
use crate::{Format, OpenOptions, probe};

pub use crate::qcow2::repair::{Repair, Repaired};

/// Repairs the qcow2 image at `path`, also if it is marked corrupt, which
/// [`WritableImage::open`](crate::WritableImage::open) refuses. Files that the image names are not
/// opened. The dirty bit and the corrupt bit are cleared if nothing but leaks is left.
///
/// # Errors
/// * [`Unsupported`] for raw images, which have no metadata, and for files with too many clusters.
/// * [`Corrupt`] if the header or the snapshot table is too broken to begin.
/// * [`Locked`] if another process uses the image.
/// * [`NoSpace`] if the host's disk is full. Nothing is changed then.
/// * [`Io`] if the host cannot read or write the file.
///
/// [`Unsupported`]: diskfs_block::ErrorKind::Unsupported
/// [`Corrupt`]: diskfs_block::ErrorKind::Corrupt
/// [`Locked`]: diskfs_block::ErrorKind::Locked
/// [`NoSpace`]: diskfs_block::ErrorKind::NoSpace
/// [`Io`]: diskfs_block::ErrorKind::Io
pub fn repair(path: &Path, what: Repair, options: &OpenOptions) -> Result<Repaired> {
    Opener::for_writing(options)
        .and_then(|opener| opener.edit_file(path, |file| repair_device(file, what, options.format)))
        .map_err(|e| e.in_file(path))
}

/// Repairs a qcow2 image that is not a file: in memory or inside another image. It is not locked.
/// `format` is probed if it is `None`.
///
/// # Errors
/// As for [`repair()`].
pub fn repair_device(
    device: &dyn BlockWrite,
    what: Repair,
    format: Option<Format>,
) -> Result<Repaired> {
    let format = format.map_or_else(|| probe::probe(device), Ok)?;
    if format == Format::Raw {
        return Err(Error::unsupported(
            "a raw image has no metadata to check or repair",
        ));
    }
    if format != Format::Qcow2 {
        let reason = format!("repair is not supported for {format} images, only for qcow2");
        return Err(Error::unsupported(reason));
    }
    repair_tables(device, what)
}
