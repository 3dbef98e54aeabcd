//! The source: files of the host, by descriptor.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::copy_out::{failed, path_of};
use crate::{Device, Error, ErrorKind, FileType, Follow, Result, Timestamp};

/// A file of the host that was found, and not opened yet: opening a device or a FIFO does things.
#[derive(Debug)]
pub(super) struct Found {
    fd: OwnedFd,
    pub(super) file_type: FileType,
    pub(super) stat: Stat,
    /// A path that leads to the file itself, be it a symlink, as long as its directory is open.
    path: OsString,
}

impl Found {
    /// What the user named.
    pub(super) fn source(path: &Path, follow: Follow) -> Result<Self> {
        let nofollow = match follow {
            Follow::All => OFlags::empty(),
            Follow::AllButLast => OFlags::NOFOLLOW,
        };
        Self::open(CWD, path.as_os_str(), nofollow, path.as_os_str().to_owned())
    }

    /// A name of a directory.
    pub(super) fn in_dir(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Self> {
        let mut path = path_of(dir);
        path.push("/");
        path.push(name);
        Self::open(dir, name, OFlags::NOFOLLOW, path)
    }

    fn open(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags, path: OsString) -> Result<Self> {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, name, flags, Mode::empty())
            .map_err(|errno| failed("finding the file", errno))?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| failed("looking at the file", errno))?;
        let file_type = FileType::from_mode(stat.st_mode)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "a type of file without a name"))?;
        Ok(Self {
            fd,
            file_type,
            stat,
            path,
        })
    }

    /// Opens it to read: this very file, whatever has its name by now.
    pub(super) fn read(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        rustix::fs::open(path_of(self.fd.as_fd()), flags, Mode::empty())
            .map_err(|errno| failed("opening the file", errno))
    }

    /// Device and inode.
    pub(super) fn id(&self) -> (u64, u64) {
        (self.stat.st_dev, self.stat.st_ino)
    }

    pub(super) fn permissions(&self) -> u16 {
        u16::try_from(self.stat.st_mode & 0o7777).unwrap_or(0)
    }

    /// The number of a device node.
    pub(super) fn device(&self) -> Device {
        Device {
            major: rustix::fs::major(self.stat.st_rdev),
            minor: rustix::fs::minor(self.stat.st_rdev),
        }
    }

    pub(super) fn accessed(&self) -> Timestamp {
        timestamp(self.stat.st_atime, self.stat.st_atime_nsec)
    }

    pub(super) fn modified(&self) -> Timestamp {
        timestamp(self.stat.st_mtime, self.stat.st_mtime_nsec)
    }

    pub(super) fn link_target(&self) -> Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(&self.fd, "", Vec::new());
        let target = target.map_err(|errno| failed("reading the symlink", errno))?;
        Ok(target.into_bytes())
    }

    /// The path for what works by path only; a symlink has no other way.
    fn by_path(&self) -> OsString {
        match self.file_type {
            FileType::Symlink => self.path.clone(),
            _ => path_of(self.fd.as_fd()),
        }
    }

    /// The names of its extended attributes; none where the host has none.
    pub(super) fn xattr_names(&self) -> Result<Vec<OsString>> {
        let path = self.by_path();
        let list = |buffer: &mut [u8]| match self.file_type {
            FileType::Symlink => rustix::fs::llistxattr(&path, buffer),
            _ => rustix::fs::listxattr(&path, buffer),
        };
        let names = match grown(list) {
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            names => names.map_err(|errno| failed("listing extended attributes", errno))?,
        };
        let names = names
            .split(|&byte| byte == 0)
            .filter(|name| !name.is_empty());
        Ok(names
            .map(|name| OsString::from_vec(name.to_vec()))
            .collect())
    }

    /// The value of one; `None` when it has just gone, or may not be read.
    pub(super) fn xattr(&self, name: &OsStr) -> Result<Option<Vec<u8>>> {
        let path = self.by_path();
        let get = |buffer: &mut [u8]| match self.file_type {
            FileType::Symlink => rustix::fs::lgetxattr(&path, name, buffer),
            _ => rustix::fs::getxattr(&path, name, buffer),
        };
        match grown(get) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(failed("reading an extended attribute", errno)),
        }
    }
}

fn timestamp(seconds: i64, nanoseconds: impl TryInto<u32>) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: nanoseconds.try_into().unwrap_or(0),
    }
}

/// Asks with a larger buffer until the answer fits.
fn grown(
    mut ask: impl FnMut(&mut [u8]) -> std::result::Result<usize, Errno>,
) -> std::result::Result<Vec<u8>, Errno> {
    /// What the kernel has at most (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
    const LIMIT: usize = 64 << 10;
    let mut buffer = vec![0; 256];
    loop {
        match ask(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < LIMIT => buffer = vec![0; LIMIT],
            Err(errno) => return Err(errno),
        }
    }
}

/// The names in a directory, without `.` and `..`.
pub(super) fn names_in(dir: &OwnedFd) -> Result<Vec<OsString>> {
    let entries = rustix::fs::Dir::read_from(dir);
    let mut names = Vec::new();
    for entry in entries.map_err(|errno| failed("reading the directory", errno))? {
        let entry = entry.map_err(|errno| failed("reading the directory", errno))?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Says that an open file will be read from its start to its end.
pub(super) fn will_read_all(file: &OwnedFd) {
    // Advice only.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Sequential);
}
