//! A directory of the host as a filesystem: the kernel's mount, for running the same operations.
//!
//! Each known file is kept open with an `O_PATH` descriptor, so that it keeps its number for as
//! long as it exists, whatever happens to its names.

mod read;
mod write;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{
    Error, ErrorKind, FileFlags, FileType, FsRead, FsWrite, InodeNumber, NewAttributes, Result,
    SetMetadata,
};
use rustix::fs::{IFlags, Mode, OFlags};
use rustix::io::Errno;

/// The size up to which files are read completely, with or without holes.
const SMALL_BYTES: u64 = 4 << 20;

const PAGE_BYTES: u64 = 4096;

/// The size below which contents may be stored in the inode.
const LARGEST_INODE_BYTES: u64 = 4096;

/// A mounted directory.
#[derive(Debug)]
pub struct Host {
    root: InodeNumber,
    files: Mutex<HashMap<InodeNumber, Known>>,
}

#[derive(Debug)]
struct Known {
    file: Arc<OwnedFd>,
    holds: u64,
}

impl Host {
    /// Opens the filesystem mounted at `path`. Sets the process's umask to 0.
    ///
    /// # Errors
    /// The errors of the host.
    pub fn open(path: &Path) -> Result<Self> {
        rustix::process::umask(Mode::empty());
        let root = rustix::fs::open(
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(error)?;
        let host = Self {
            root: number_of(root.as_fd())?,
            files: Mutex::default(),
        };
        host.meet(root)?;
        host.meet_all()?;
        Ok(host)
    }

    /// Opens every file that has a name, so that it is known by its number.
    fn meet_all(&self) -> Result<()> {
        let mut pending = vec![self.root];
        while let Some(dir) = pending.pop() {
            for entry in self.read_dir(dir, 0)? {
                let inode = entry?.inode;
                if self.metadata(inode)?.is_dir() {
                    pending.push(inode);
                }
            }
        }
        Ok(())
    }

    fn files(&self) -> MutexGuard<'_, HashMap<InodeNumber, Known>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meet(&self, file: OwnedFd) -> Result<InodeNumber> {
        let number = number_of(file.as_fd())?;
        self.files().entry(number).or_insert_with(|| Known {
            file: Arc::new(file),
            holds: 0,
        });
        Ok(number)
    }

    fn file(&self, inode: InodeNumber) -> Result<Arc<OwnedFd>> {
        let files = self.files();
        let known = files.get(&inode).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::clone(&known.file))
    }

    /// Returns a path to the file itself, whatever its names are.
    fn path(&self, inode: InodeNumber) -> Result<PathBuf> {
        let file = self.file(inode)?;
        Ok(format!("/proc/self/fd/{}", file.as_raw_fd()).into())
    }

    fn open_as(&self, inode: InodeNumber, flags: OFlags) -> Result<File> {
        // Closed in child processes: otherwise the filesystem could not be unmounted while they
        // run.
        let flags = flags | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.path(inode)?, flags, Mode::empty()).map_err(error)?;
        Ok(file.into())
    }

    fn writable(&self, inode: InodeNumber) -> Result<File> {
        match self.metadata(inode)?.file_type {
            FileType::Regular => {}
            FileType::Directory => return Err(ErrorKind::IsADirectory.into()),
            _ => return Err(ErrorKind::Invalid.into()),
        }
        let flags = self.metadata(inode)?.flags;
        if flags.append_only {
            return self.open_as(inode, OFlags::WRONLY | OFlags::APPEND);
        }
        self.open_as(inode, OFlags::RDWR)
    }

    fn open_child(&self, dir: InodeNumber, name: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&*self.file(dir)?, name, flags, Mode::empty()).map_err(error)
    }

    /// Closes a file that has no name and is not held.
    fn forget_if_gone(&self, inode: InodeNumber) -> Result<()> {
        let links = self.metadata(inode)?.links;
        let mut files = self.files();
        if links == 0 && files.get(&inode).is_some_and(|known| known.holds == 0) {
            files.remove(&inode);
        }
        Ok(())
    }

    /// Returns the file that a name refers to, so that the caller can check afterwards whether it
    /// is gone.
    fn victim(&self, dir: InodeNumber, name: &[u8]) -> Option<InodeNumber> {
        self.lookup(dir, name).ok()
    }

    /// Sets the requested owner of a new file. Sets the group only if it is not inherited.
    fn set_new_owner(
        &self,
        dir: InodeNumber,
        inode: InodeNumber,
        attributes: &NewAttributes,
    ) -> Result<()> {
        let inherits = self.metadata(dir)?.permissions & 0o2000 != 0;
        let made = self.metadata(inode)?;
        let change = SetMetadata {
            uid: (made.uid != attributes.uid).then_some(attributes.uid),
            gid: (!inherits && made.gid != attributes.gid).then_some(attributes.gid),
            ..SetMetadata::default()
        };
        self.set_metadata(inode, &change)
    }

    fn set_flags(&self, inode: InodeNumber, flags: FileFlags) -> Result<()> {
        let file = self.open_as(inode, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let mut now = rustix::fs::ioctl_getflags(&file).map_err(error)?;
        now.set(IFlags::IMMUTABLE, flags.immutable);
        now.set(IFlags::APPEND, flags.append_only);
        now.set(IFlags::NODUMP, flags.no_dump);
        rustix::fs::ioctl_setflags(&file, now).map_err(error)
    }
}

fn number_of(file: BorrowedFd<'_>) -> Result<InodeNumber> {
    Ok(InodeNumber(rustix::fs::fstat(file).map_err(error)?.st_ino))
}

fn error(errno: Errno) -> Error {
    let kind = match errno {
        // The error for seeking past the end, and for opening a file without contents.
        Errno::NXIO => ErrorKind::Invalid,
        errno => ErrorKind::from_errno(errno),
    };
    Error::new(kind, format!("the kernel failed: {errno}"))
}

fn io_error(found: &std::io::Error) -> Error {
    match found.raw_os_error() {
        Some(code) => error(Errno::from_raw_os_error(code)),
        None => Error::new(ErrorKind::Io, found.to_string()),
    }
}
