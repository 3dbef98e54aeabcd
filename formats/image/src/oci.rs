//! Disks in OCI images: their names, and the storage of the blobs.

mod hashed;
mod name;

use std::borrow::Cow;
use std::path::Path;

use diskfs_block::{Error, ErrorKind, Result};

pub(crate) use hashed::Hashed;
pub(crate) use name::{OciName, StoreKind};

/// Returns true for the name of a disk in an OCI image: `oci-layout:DIR`, `oci-archive:FILE`.
pub fn is_oci(path: &Path) -> bool {
    OciName::parse(path).is_some()
}

/// Returns the file of the host that opening an image opens first: the image itself, or the index of
/// an OCI image layout.
pub fn host_file(path: &Path) -> Cow<'_, Path> {
    match OciName::parse(path) {
        Some(Ok(name)) => Cow::Owned(name.first_file()),
        Some(Err(_)) | None => Cow::Borrowed(path),
    }
}

/// Refuses the name of a disk in an OCI image for a new image.
pub(crate) fn refuse_new(path: &Path) -> Result<()> {
    if !is_oci(path) {
        return Ok(());
    }
    let reason = "cannot create an image in an OCI image";
    Err(Error::invalid(reason)
        .with_hint("create a file, and put it into an OCI image with `diskfs oci build`"))
}

/// Refuses a disk in an OCI image, where a file is needed.
pub(crate) fn refuse(path: &Path) -> Result<()> {
    if !is_oci(path) {
        return Ok(());
    }
    let reason = "cannot change an OCI image, and cannot use it where a file is needed";
    Err(Error::new(ErrorKind::ReadOnly, reason)
        .in_file(path)
        .with_hint("copy the disk with `diskfs convert IMG new.qcow2`"))
}
