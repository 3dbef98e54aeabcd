//! Changing the properties of an existing qcow2 image, as `qemu-img amend` does.
//!
//! One sector of the header activates all changes, so that an interruption leaves the old
//! properties or the new ones. Before an image becomes one of version 2, its zero clusters are
//! written as zeroes if they hide a backing file, and else made unallocated.

use std::path::Path;

use diskfs_block::{BlockWrite, Error, Result};

use crate::create::{Compat, RefcountUpdates};
use crate::numbers::{to_u64, to_usize};
use crate::open::Opener;
use crate::qcow2::amend::{HeaderChange, amend as amend_tables, check as check_header};
use crate::{OpenOptions, Repair, ResizeOptions, WritableImage, repair, resize};

/// The number of zeroes to write at once.
const PIECE_BYTES: usize = 1 << 20;

/// The object of errors about images of other formats.
const WHAT: &str = "these properties are";

/// The wanted properties; `None` for those that stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amend {
    /// The version of the format.
    pub compat: Option<Compat>,
    /// The time at which reference counts are written.
    pub refcounts: Option<RefcountUpdates>,
    /// The width of a refcount in bits: a power of two up to 64.
    pub refcount_bits: Option<u32>,
    /// The size of the disk in bytes, as [`resize()`] changes it.
    pub size_bytes: Option<u64>,
}

impl Amend {
    fn of_header(self) -> HeaderChange {
        HeaderChange {
            version: self.compat.map(|compat| match compat {
                Compat::V0_10 => 2,
                Compat::V1_1 => 3,
            }),
            lazy_refcounts: self
                .refcounts
                .map(|refcounts| refcounts == RefcountUpdates::Lazy),
            refcount_bits: self.refcount_bits,
        }
    }
}

/// Checks that [`amend`] can change the properties of the qcow2 image at `path`, except for its
/// size, and for zero clusters of its snapshots. Changes nothing.
///
/// # Errors
/// As for [`amend`].
pub fn check(path: &Path, change: Amend, options: &OpenOptions) -> Result<()> {
    let check = |file: &dyn BlockWrite| check_header(file, change.of_header());
    let opener = Opener::for_writing(options);
    let checked = opener.and_then(|opener| opener.edit_tables(path, WHAT, check));
    checked.map(|_| ()).map_err(|e| e.in_file(path))
}

/// Changes the properties of the qcow2 image at `path`.
///
/// # Errors
/// * As for [`WritableImage::open`](crate::WritableImage::open).
/// * [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for a raw image, for an image with features
///   or snapshots that version 2 does not have, and for refcounts that are too narrow for the image's
///   snapshots.
/// * [`Invalid`](diskfs_block::ErrorKind::Invalid) for properties that version 2 does not have, for
///   a smaller size, and for a size together with other properties.
/// * [`Corrupt`](diskfs_block::ErrorKind::Corrupt) if the reference counts are wrong, and their width
///   is to change.
pub fn amend(path: &Path, change: Amend, options: &OpenOptions) -> Result<()> {
    let header = change.of_header();
    if let Some(size_bytes) = change.size_bytes {
        if header != HeaderChange::default() {
            let reason = "cannot change the size together with other properties";
            return Err(Error::invalid(reason)
                .with_hint("use two commands")
                .in_file(path));
        }
        return resize(path, size_bytes, ResizeOptions::default(), options).map(|_| ());
    }
    change_header(path, header, options).map_err(|e| e.in_file(path))
}

/// Changes the LUKS header of an encrypted image, which `change` gets as a device: that of the qcow2
/// image at `path`, or the start of a raw image, which may be a LUKS volume. Other processes cannot
/// use the image meanwhile. The image is not unlocked.
///
/// # Errors
/// * As for [`WritableImage::open`](crate::WritableImage::open).
/// * [`Invalid`](diskfs_block::ErrorKind::Invalid) for a qcow2 image that is not encrypted.
/// * The errors of `change`.
pub fn edit_luks_header<T>(
    path: &Path,
    options: &OpenOptions,
    change: impl FnOnce(&dyn BlockWrite) -> Result<T>,
) -> Result<T> {
    let options = OpenOptions {
        unlock: None,
        ..options.clone()
    };
    let opener = Opener::for_writing(&options);
    let changed = opener.and_then(|opener| opener.edit_luks_header(path, change));
    changed.map_err(|e| e.in_file(path))
}

fn change_header(path: &Path, change: HeaderChange, options: &OpenOptions) -> Result<()> {
    let edit = |work: &dyn Fn(&dyn BlockWrite) -> Result<bool>| {
        Opener::for_writing(options)?.edit_tables(path, WHAT, work)
    };
    if edit(&|file| check_header(file, change))? {
        write_hiding_zeroes(path, options)?;
    }
    if edit(&|file| amend_tables(file, change))? {
        repair(path, Repair::Leaks, options)?;
    }
    Ok(())
}

/// Writes zeroes where zero clusters hide a backing file, because version 2 has no such clusters.
fn write_hiding_zeroes(path: &Path, options: &OpenOptions) -> Result<()> {
    let image = WritableImage::open(path, options)?;
    let qcow2 = image.description().qcow2.as_ref();
    if qcow2.is_some_and(|qcow2| qcow2.backing_name.is_some()) {
        let device = image.device();
        for entry in image.map() {
            let entry = entry?;
            if entry.depth == 0 && entry.present && entry.zero {
                write_zeroes(device.as_ref(), entry.start, entry.len_bytes)?;
            }
        }
    }
    image.close()
}

/// Writes zeroes as data.
fn write_zeroes(device: &dyn BlockWrite, start: u64, len_bytes: u64) -> Result<()> {
    let zeroes = vec![0; PIECE_BYTES];
    let mut done = 0;
    while done < len_bytes {
        let len = to_usize(len_bytes.saturating_sub(done)).min(zeroes.len());
        let piece = zeroes.get(..len).unwrap_or_default();
        device.write_at(start.saturating_add(done), piece)?;
        done = done.saturating_add(to_u64(len));
    }
    Ok(())
}
