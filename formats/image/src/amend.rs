//! Changing the properties of an existing qcow2 image, as `qemu-img amend` does.
//!
//! One sector of the header activates all changes, so that an interruption leaves the old
//! properties or the new ones.

use std::path::Path;

use diskfs_block::{Error, Result};

use crate::create::{Compat, RefcountUpdates};
use crate::open::Opener;
use crate::qcow2::amend::{HeaderChange, amend as amend_tables};
use crate::{OpenOptions, ResizeOptions, resize};

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

/// Changes the properties of the qcow2 image at `path`.
///
/// # Errors
/// * As for [`WritableImage::open`](crate::WritableImage::open).
/// * [`Unsupported`](diskfs_block::ErrorKind::Unsupported) for a raw image, for a change from version
///   3 to version 2, and for refcounts that are too narrow for the image's snapshots.
/// * [`Invalid`](diskfs_block::ErrorKind::Invalid) for properties that version 2 does not have, for
///   a smaller size, and for a size together with other properties.
/// * [`Corrupt`](diskfs_block::ErrorKind::Corrupt) if the reference counts are wrong, and their width
///   is to change.
pub fn amend(path: &Path, change: Amend, options: &OpenOptions) -> Result<()> {
    let header = HeaderChange {
        version: change.compat.map(|compat| match compat {
            Compat::V0_10 => 2,
            Compat::V1_1 => 3,
        }),
        lazy_refcounts: change
            .refcounts
            .map(|refcounts| refcounts == RefcountUpdates::Lazy),
        refcount_bits: change.refcount_bits,
    };
    if let Some(size_bytes) = change.size_bytes {
        if header != HeaderChange::default() {
            let reason = "cannot change the size together with other properties";
            return Err(Error::invalid(reason)
                .with_hint("use two commands")
                .in_file(path));
        }
        return resize(path, size_bytes, ResizeOptions::default(), options).map(|_| ());
    }
    Opener::for_writing(options)
        .and_then(|opener| {
            opener.edit_tables(path, "these properties are", |file| {
                amend_tables(file, header)
            })
        })
        .map_err(|e| e.in_file(path))
}
