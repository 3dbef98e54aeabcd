//! A source on the host, accessed by file descriptor.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::source::{SourceData, SourceFile};
use crate::copy_out::{failed, path_of};
use crate::{
    Device, Error, ErrorKind, FileFlags, FileType, Follow, InodeNumber, Metadata, Result, Timestamp,
};

/// A file of the host that was found but not opened: opening a device or a FIFO has side effects.
#[derive(Debug)]
pub(super) struct HostFile {
    fd: OwnedFd,
    metadata: Metadata,
    /// Device and inode.
    id: (u64, u64),
    /// A path to the file itself (even if it is a symlink), valid while its directory is open.
    path: OsString,
}

impl HostFile {
    /// Finds the file that the user named.
    pub(super) fn source(path: &Path, follow: Follow) -> Result<Self> {
        let nofollow = match follow {
            Follow::All => OFlags::empty(),
            Follow::AllButLast => OFlags::NOFOLLOW,
        };
        Self::open(CWD, path.as_os_str(), nofollow, path.as_os_str().to_owned())
    }

    /// Finds a file by its name in a directory.
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
        let stat =
            rustix::fs::fstat(&fd).map_err(|errno| failed("reading the file's metadata", errno))?;
        let file_type = FileType::from_mode(stat.st_mode)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "unknown type of file"))?;
        Ok(Self {
            fd,
            metadata: metadata(&stat, file_type),
            id: (stat.st_dev, stat.st_ino),
            path,
        })
    }

    /// Opens the file for reading: this inode, even if its name refers to another file by now.
    pub(super) fn open_file(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        rustix::fs::open(path_of(self.fd.as_fd()), flags, Mode::empty())
            .map_err(|errno| failed("opening the file", errno))
    }

    /// Returns the path for calls that take only a path; a symlink can't be accessed otherwise.
    fn by_path(&self) -> OsString {
        match self.metadata.file_type {
            FileType::Symlink => self.path.clone(),
            _ => path_of(self.fd.as_fd()),
        }
    }
}

impl SourceFile for HostFile {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn id(&self) -> (u64, u64) {
        self.id
    }

    fn open(&self) -> Result<Box<dyn SourceData + '_>> {
        let file = self.open_file()?;
        // The result is ignored because this is only a hint.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Sequential);
        Ok(Box::new(file))
    }

    fn link_target(&self) -> Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(&self.fd, "", Vec::new());
        let target = target.map_err(|errno| failed("reading the symlink", errno))?;
        Ok(target.into_bytes())
    }

    /// Returns the names of its extended attributes; empty if the host's filesystem does not
    /// support them.
    fn xattr_names(&self) -> Result<Vec<Vec<u8>>> {
        let path = self.by_path();
        let list = |buffer: &mut [u8]| match self.metadata.file_type {
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
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    /// Returns the value of an extended attribute; `None` if it has just been removed, or can't be
    /// read for lack of permission.
    fn xattr(&self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let (path, name) = (self.by_path(), OsStr::from_bytes(name));
        let get = |buffer: &mut [u8]| match self.metadata.file_type {
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

impl SourceData for OwnedFd {
    /// Returns the next run of data. If the host's filesystem does not report holes, the whole file
    /// is one run of unknown end.
    fn next_run(&mut self, at: u64) -> Result<Option<(u64, u64)>> {
        let start = match rustix::fs::seek(&*self, SeekFrom::Data(at)) {
            Ok(start) => start,
            // There is only a hole up to the end (lseek(2)).
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) if at == 0 => return Ok(Some((0, u64::MAX))),
            Err(errno) => return Err(failed("looking for holes", errno)),
        };
        let end = rustix::fs::seek(&*self, SeekFrom::Hole(start));
        let end = end.map_err(|errno| failed("looking for holes", errno))?;
        Ok(Some((start, end)))
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match rustix::io::pread(&*self, &mut *buffer, at) {
                Err(Errno::INTR) => {}
                read => return read.map_err(|errno| failed("reading", errno)),
            }
        }
    }
}

/// Returns the metadata that the copy needs.
fn metadata(stat: &Stat, file_type: FileType) -> Metadata {
    let is_device = matches!(file_type, FileType::CharacterDevice | FileType::BlockDevice);
    let changed = timestamp(stat.st_ctime, stat.st_ctime_nsec);
    Metadata {
        inode: InodeNumber(stat.st_ino),
        generation: 0,
        file_type,
        permissions: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
        allocated_bytes: u64::try_from(stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(512),
        accessed: timestamp(stat.st_atime, stat.st_atime_nsec),
        modified: timestamp(stat.st_mtime, stat.st_mtime_nsec),
        changed,
        created: None,
        device: is_device.then(|| Device {
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
        }),
        block_size: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: FileFlags::default(),
    }
}

fn timestamp(seconds: i64, nanoseconds: impl TryInto<u32>) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: nanoseconds.try_into().unwrap_or(0),
    }
}

/// Repeats a call with a larger buffer until the result fits.
fn grown(
    mut ask: impl FnMut(&mut [u8]) -> std::result::Result<usize, Errno>,
) -> std::result::Result<Vec<u8>, Errno> {
    /// The kernel's limits (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
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

/// Returns the names in a directory, sorted, without `.` and `..`. The order of the host's
/// filesystem would make two copies of one tree differ.
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
    names.sort_unstable();
    Ok(names)
}
