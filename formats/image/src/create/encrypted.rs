//! The encryption of new images.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, File, Result, Slice};

use super::file::NewFile;
use super::{CreateOptions, Created, NewImage, Preallocation, raw};
use crate::encryption::{Decrypt, Unlock};
use crate::numbers::to_u64;

/// The encryption of a new image: a LUKS header, which the caller made, and its key.
#[derive(Debug, Clone)]
pub struct NewEncryption {
    /// The bytes of the header and its key slots. In a file that is a LUKS volume, the data follows.
    pub header: Arc<[u8]>,
    /// The encryption with the key of that header.
    pub key: Arc<dyn Decrypt>,
}

impl NewEncryption {
    /// Returns the length of the header in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        to_u64(self.header.len())
    }

    /// Returns what unlocks the image at this path.
    pub(crate) fn unlocker(&self, path: &Path) -> Arc<dyn Unlock> {
        Arc::new(KeyOfNew {
            path: path.to_owned(),
            key: Arc::clone(&self.key),
        })
    }

    /// Returns the contents of a file that begins with the header.
    pub(crate) fn contents(&self, file: File) -> Result<Arc<dyn BlockWrite>> {
        let file: Arc<dyn BlockWrite> = Arc::new(file);
        let len_bytes = file.size_bytes().saturating_sub(self.len_bytes());
        self.key
            .writer(Arc::new(Slice::new(file, self.len_bytes(), len_bytes)?))
    }
}

impl NewImage {
    /// Returns the encryption, if the image has one.
    pub(crate) const fn encryption(&self) -> Option<&NewEncryption> {
        match self {
            Self::Luks(new) => Some(new),
            Self::Qcow2(new) => new.encryption.as_ref(),
            _ => None,
        }
    }
}

/// Writes a file that is a LUKS volume.
pub(super) fn write(
    path: &Path,
    encryption: &NewEncryption,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(NewFile, Created)> {
    let size_bytes = raw::size_bytes(options)?;
    if options.preallocation == Preallocation::Metadata {
        let reason = "preallocation=metadata is not supported for LUKS volumes";
        return Err(Error::invalid(reason).with_hint("use off, falloc or full"));
    }
    let start = encryption.len_bytes();
    let too_large = || Error::invalid("the disk is too large");
    let file_size_bytes = start.checked_add(size_bytes).ok_or_else(too_large)?;
    let file = NewFile::begin(path, options.existing)?;
    file.set_len(file_size_bytes)?;
    file.preallocate(start, size_bytes, options.preallocation, progress)?;
    file.device()?.write_at(0, &encryption.header)?;
    let created = Created {
        virtual_size_bytes: size_bytes,
        file_size_bytes,
    };
    Ok((file, created))
}

/// The key of one image.
#[derive(Debug)]
struct KeyOfNew {
    path: PathBuf,
    key: Arc<dyn Decrypt>,
}

impl Unlock for KeyOfNew {
    fn unlock(&self, path: &Path, _header: &dyn BlockRead) -> Result<Option<Arc<dyn Decrypt>>> {
        Ok((path == self.path).then(|| Arc::clone(&self.key)))
    }
}
