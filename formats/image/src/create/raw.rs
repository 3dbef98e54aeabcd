//! Creation of a raw image: a file of a given length.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_block::{Error, Result};

use super::{CreateOptions, Created, NewFile, Preallocation, whole_sectors};

pub(super) fn write(
    path: &Path,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(NewFile, Created)> {
    let size_bytes = size_bytes(options)?;
    if options.preallocation == Preallocation::Metadata {
        let reason =
            "preallocation=metadata is not supported for raw images, which have no metadata";
        return Err(Error::invalid(reason).with_hint("use off, falloc or full"));
    }
    let file = NewFile::begin(path, options.existing)?;
    file.set_len(size_bytes)?;
    file.preallocate(0, size_bytes, options.preallocation, progress)?;
    let created = Created {
        virtual_size_bytes: size_bytes,
        file_size_bytes: size_bytes,
    };
    Ok((file, created))
}

/// Returns the size of the disk in whole sectors.
pub(super) fn size_bytes(options: &CreateOptions) -> Result<u64> {
    let missing = || Error::invalid("missing size");
    whole_sectors(options.size_bytes.ok_or_else(missing)?)
}
