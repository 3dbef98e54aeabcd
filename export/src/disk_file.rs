//! A disk as the only file of a filesystem.

mod read;
#[cfg(test)]
mod tests;
mod write;

use std::sync::{Arc, Mutex, PoisonError};

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{Error, ErrorKind, InodeNumber, Result, Timestamp};

/// The only file.
const ROOT: InodeNumber = InodeNumber(1);

/// A filesystem whose root is a regular file: a raw image of the disk. Its size can't be changed.
///
/// Mounted at a file ([`fuse::Options::root`](crate::fuse::Options::root)), it gives the disk of an
/// image of any format to programs that can only use raw images.
#[derive(Debug)]
pub struct DiskFile {
    device: Device,
    allocated_bytes: u64,
    owner: (u32, u32),
    modified: Mutex<Timestamp>,
}

#[derive(Debug)]
enum Device {
    ReadOnly(Arc<dyn BlockRead>),
    Writable(Arc<dyn BlockWrite>),
}

impl DiskFile {
    /// Creates the file of a disk that is only read. It belongs to the user of this process.
    /// `allocated_bytes` is what stat(2) returns as the space that the file needs: programs look for
    /// holes if it is less than the size.
    pub fn read_only(device: Arc<dyn BlockRead>, allocated_bytes: u64) -> Self {
        Self::new(Device::ReadOnly(device), allocated_bytes)
    }

    /// Creates the file of a disk that can be written.
    pub fn writable(device: Arc<dyn BlockWrite>, allocated_bytes: u64) -> Self {
        Self::new(Device::Writable(device), allocated_bytes)
    }

    fn new(device: Device, allocated_bytes: u64) -> Self {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        Self {
            device,
            allocated_bytes,
            owner: (user, group),
            modified: Mutex::new(Timestamp::now()),
        }
    }

    fn reader(&self) -> &dyn BlockRead {
        match &self.device {
            Device::ReadOnly(device) => device.as_ref(),
            Device::Writable(device) => device.as_ref(),
        }
    }

    fn writer(&self) -> Result<&dyn BlockWrite> {
        match &self.device {
            Device::ReadOnly(_) => Err(ErrorKind::ReadOnly.into()),
            Device::Writable(device) => Ok(device.as_ref()),
        }
    }

    /// Returns the time of the last change, after a function has changed it.
    fn with_modified(&self, change: impl FnOnce(&mut Timestamp)) -> Timestamp {
        let mut modified = self.modified.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut modified);
        *modified
    }
}

fn check(inode: InodeNumber) -> Result<()> {
    if inode == ROOT {
        return Ok(());
    }
    Err(Error::from(ErrorKind::NotFound).in_inode(inode))
}

fn failed(error: diskfs_block::Error) -> Error {
    use diskfs_block::ErrorKind as Device;
    let kind = match error.kind() {
        Device::NoSpace => ErrorKind::NoSpace,
        Device::ReadOnly => ErrorKind::ReadOnly,
        Device::Unsupported => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    };
    Error::new(kind, "the disk failed")
        .in_inode(ROOT)
        .with_source(error)
}
