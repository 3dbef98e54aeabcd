//! Images whose data is encrypted: what the caller provides to get at it.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result};

/// Gets at the data of images that are encrypted. Ciphers and keys are the caller's: here is only
/// known where the header is and which bytes are encrypted.
pub trait Unlock: Debug + Send + Sync {
    /// The data of the image at `path`, whose LUKS header is all of `header`. `None` when there is
    /// no key for that image: it opens all the same, and its data cannot be read.
    ///
    /// # Errors
    /// `Denied` when no key fits; `Unsupported` and `Corrupt` for what the header says; what
    /// `header` answers when it cannot be read.
    fn unlock(&self, path: &Path, header: &dyn BlockRead) -> Result<Option<Arc<dyn Decrypt>>>;
}

/// How the data of an image is encrypted, with the key.
///
/// Sectors are numbered by their place in the file that they are in, which QEMU calls the physical
/// offset (its specification of qcow2, section "Data encryption").
pub trait Decrypt: Debug + Send + Sync {
    /// The file with every sector decrypted, whether it holds data or not. As long as the file.
    ///
    /// # Errors
    /// As [`Unlock::unlock`].
    fn reader(&self, file: Arc<dyn BlockRead>) -> Result<Arc<dyn BlockRead>>;

    /// The same, and what is written is encrypted. It follows when the file grows.
    ///
    /// # Errors
    /// As [`Unlock::unlock`].
    fn writer(&self, file: Arc<dyn BlockWrite>) -> Result<Arc<dyn BlockWrite>>;
}

/// An encrypted image without a key: its tables can be read, its data can't.
#[derive(Debug)]
pub(crate) struct NoKey {
    path: PathBuf,
}

/// A file whose data nobody has the key of.
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

/// What one gets who wants data of the image at `path` and has no key.
pub(crate) fn no_key(path: &Path) -> Error {
    let name = path.file_name().unwrap_or(path.as_os_str()).display();
    let reason = "the image is encrypted (LUKS), and there is no key for it";
    Error::new(ErrorKind::Denied, reason).with_hint(format!("give its key, as in --key {name}:ask"))
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
