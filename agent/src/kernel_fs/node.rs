//! An open file.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use diskfs_vfs::{ErrorKind, FileType, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, openat, statx};

use super::errors::failed;

/// A file as descriptors: one that identifies it, and others for reading and writing that are
/// opened when needed.
#[derive(Debug)]
pub(crate) struct Node {
    fd: OwnedFd,
    access: Access,
    for_reading: OnceLock<OwnedFd>,
    for_writing: OnceLock<OwnedFd>,
}

/// The access that the first descriptor allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Name,
    Read,
    ReadAndWrite,
}

impl Node {
    /// Creates a node from a descriptor that was opened with `O_PATH`.
    pub(crate) fn of_path(fd: OwnedFd) -> Self {
        Self::new(fd, Access::Name)
    }

    /// Creates a node from a descriptor that reads a regular file.
    pub(crate) fn of_readable_file(fd: OwnedFd) -> Self {
        Self::new(fd, Access::Read)
    }

    /// Creates a node from a descriptor that reads and writes a regular file.
    pub(crate) fn of_open_file(fd: OwnedFd) -> Self {
        Self::new(fd, Access::ReadAndWrite)
    }

    fn new(fd: OwnedFd, access: Access) -> Self {
        Self {
            fd,
            access,
            for_reading: OnceLock::new(),
            for_writing: OnceLock::new(),
        }
    }

    /// Returns the descriptor that identifies the file.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the stat of the file.
    pub(crate) fn statx(&self) -> Result<Statx> {
        statx(
            self.fd(),
            c"",
            AtFlags::EMPTY_PATH,
            StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID,
        )
        .map_err(failed)
    }

    /// Returns the path in `/proc` of the file itself, even for a symlink or a file without a name.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    /// Returns a descriptor that reads the regular file.
    pub(crate) fn reader(&self) -> Result<BorrowedFd<'_>> {
        if self.access != Access::Name {
            return Ok(self.fd());
        }
        let open = self.for_writing.get().or_else(|| self.for_reading.get());
        if let Some(open) = open {
            return Ok(open.as_fd());
        }
        self.check_contents()?;
        let fd = self.reopen(OFlags::RDONLY).map_err(failed)?;
        Ok(self.for_reading.get_or_init(|| fd).as_fd())
    }

    /// Returns a descriptor that reads and writes the regular file.
    pub(crate) fn writer(&self) -> Result<BorrowedFd<'_>> {
        self.try_writer()?.map_err(failed)
    }

    /// Returns the same, or the errno of opening the file.
    pub(crate) fn try_writer(&self) -> Result<rustix::io::Result<BorrowedFd<'_>>> {
        if self.access == Access::ReadAndWrite {
            return Ok(Ok(self.fd()));
        }
        if let Some(open) = self.for_writing.get() {
            return Ok(Ok(open.as_fd()));
        }
        self.check_contents()?;
        Ok(self
            .reopen(OFlags::RDWR)
            .map(|fd| self.for_writing.get_or_init(|| fd).as_fd()))
    }

    /// Opens a regular file or a directory again. This must not be called for other types: opening
    /// a FIFO blocks, and opening a device may have side effects.
    pub(crate) fn reopen(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        openat(
            CWD,
            self.path(),
            flags | OFlags::CLOEXEC | OFlags::NONBLOCK,
            Mode::empty(),
        )
    }

    pub(crate) fn file_type(&self) -> Result<FileType> {
        let mode = u32::from(self.statx()?.stx_mode);
        FileType::from_mode(mode).ok_or_else(|| ErrorKind::Corrupt.into())
    }

    fn check_contents(&self) -> Result<()> {
        match self.file_type()? {
            FileType::Regular => Ok(()),
            FileType::Directory => Err(ErrorKind::IsADirectory.into()),
            _ => Err(ErrorKind::Invalid.into()),
        }
    }
}
