//! The interface for encrypted images, which the caller implements.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

/// Unlocks the data of encrypted images. The caller provides ciphers and keys; this crate only
/// knows where the header is and which bytes are encrypted.
pub trait Unlock: Debug + Send + Sync {
    /// Unlocks the image at `path`, whose LUKS header is all of `header`. Returns `None` without a
    /// key for that image: it can be opened, but its data cannot be read.
    ///
    /// # Errors
    /// * `Denied` if no key fits.
    /// * `Unsupported` and `Corrupt` for the contents of the header.
    /// * Read errors of `header`.
    fn unlock(&self, path: &Path, header: &dyn BlockRead) -> Result<Option<Arc<dyn Decrypt>>>;
}

/// The encryption of an image's data, with the key.
///
/// Sectors are numbered by their offset in their file, which QEMU calls the physical offset (its
/// specification of qcow2, section "Data encryption").
pub trait Decrypt: Debug + Send + Sync {
    /// Returns a device of the file's length with every sector decrypted, whether it holds data or
    /// not.
    ///
    /// # Errors
    /// As for [`Unlock::unlock`].
    fn reader(&self, file: Arc<dyn BlockRead>) -> Result<Arc<dyn BlockRead>>;

    /// Returns the same device, which encrypts writes. Its length follows the file's when that
    /// grows.
    ///
    /// # Errors
    /// As for [`Unlock::unlock`].
    fn writer(&self, file: Arc<dyn BlockWrite>) -> Result<Arc<dyn BlockWrite>>;
}

/// The decryption of an image without a key: its tables can be read, its data cannot.
#[derive(Debug)]
pub(crate) struct NoKey {
    path: PathBuf,
}

/// A file whose data cannot be decrypted.
#[derive(Debug)]
struct Locked<D: ?Sized> {
    path: PathBuf,
    file: Arc<D>,
}

impl NoKey {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }
}

impl Decrypt for NoKey {
    fn reader(&self, file: Arc<dyn BlockRead>) -> Result<Arc<dyn BlockRead>> {
        let path = self.path.clone();
        Ok(Arc::new(Locked { path, file }))
    }

    fn writer(&self, file: Arc<dyn BlockWrite>) -> Result<Arc<dyn BlockWrite>> {
        let path = self.path.clone();
        Ok(Arc::new(Locked { path, file }))
    }
}

/// Returns the error for access to the data of the encrypted image at `path` without a key.
pub(crate) fn no_key(path: &Path) -> Error {
    let name = path.file_name().unwrap_or(path.as_os_str()).display();
    let reason = "the image is encrypted with LUKS, and no key was given";
    Error::new(ErrorKind::Denied, reason).with_hint(format!("use --key {name}:ask"))
}

impl<D: BlockRead + ?Sized> BlockRead for Locked<D> {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn read_at(&self, _offset: u64, _buf: &mut [u8]) -> Result<()> {
        Err(no_key(&self.path))
    }
}

impl<D: BlockWrite + ?Sized> BlockWrite for Locked<D> {
    fn write_at(&self, _offset: u64, _buf: &[u8]) -> Result<()> {
        Err(no_key(&self.path))
    }

    fn flush(&self) -> Result<()> {
        self.file.flush()
    }
}
