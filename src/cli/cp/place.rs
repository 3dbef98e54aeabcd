//! Where copies are written: directories of the host by their descriptors, so that no symlink that
//! the image brought along (or that somebody puts there meanwhile) leads a copy elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    self, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use diskfs::vfs::{self, Metadata};
use diskfs::{Error, ErrorKind, Result};

/// An open directory of the host.
#[derive(Debug)]
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

/// What a file is told to be owned by and to allow, once it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ownership {
    pub(super) mode: u32,
    /// `None` leaves the owner that it has.
    pub(super) owner: Option<(u32, u32)>,
}

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::RDONLY)
    .union(OFlags::CLOEXEC);

impl Directory {
    /// Opens a directory that the user named; symlinks on the way are the user's own.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let fd = fs::open(path, DIRECTORY, Mode::empty()).map_err(|e| failed(e, path))?;
        let path = path.to_owned();
        Ok(Self { fd, path })
    }

    /// The path of `name` in it, for messages.
    pub(super) fn path_of(&self, name: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(name))
    }

    fn fail(&self, errno: Errno, name: &[u8]) -> Error {
        failed(errno, &self.path_of(name))
    }

    /// Makes the directory `name`, or takes the one that is there.
    pub(super) fn make_directory(&self, name: &[u8]) -> Result<Self> {
        match fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(self.fail(e, name)),
        }
        let opened = fs::openat(&self.fd, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        Ok(Self {
            fd: opened.map_err(|e| self.fail(e, name))?,
            path: self.path_of(name),
        })
    }

    /// Makes the file `name`, or empties the one that is there, but never `keep`, which is being
    /// read.
    pub(super) fn make_file(&self, name: &[u8], keep: &Path) -> Result<File> {
        let write = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let new = write | OFlags::CREATE | OFlags::EXCL;
        match fs::openat(&self.fd, name, new, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => return Ok(fd.into()),
            Err(Errno::EXIST) => {}
            Err(e) => return Err(self.fail(e, name)),
        }
        // Non-blocking, or a FIFO would wait for a reader.
        let fd = fs::openat(&self.fd, name, write | OFlags::NONBLOCK, Mode::empty())
            .map_err(|e| self.fail(e, name))?;
        let stat = fs::fstat(&fd).map_err(|e| self.fail(e, name))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let error = Error::new(ErrorKind::Exists, "is there, and no regular file");
            return Err(error.in_file(self.path_of(name)));
        }
        if fs::stat(keep).is_ok_and(|kept| (kept.st_dev, kept.st_ino) == (stat.st_dev, stat.st_ino))
        {
            let error = Error::new(ErrorKind::Invalid, "is the image itself");
            return Err(error.in_file(self.path_of(name)));
        }
        fs::ftruncate(&fd, 0).map_err(|e| self.fail(e, name))?;
        Ok(fd.into())
    }

    /// Makes the symlink `name`, in place of one that is there.
    pub(super) fn make_symlink(&self, name: &[u8], target: &[u8]) -> Result<()> {
        let made = fs::symlinkat(target, &self.fd, name);
        let made = self.again_without(name, FileType::Symlink, made, || {
            fs::symlinkat(target, &self.fd, name)
        });
        made.map_err(|e| self.fail(e, name))
    }

    /// Makes a device, a FIFO or a socket.
    pub(super) fn make_special(&self, name: &[u8], metadata: &Metadata) -> Result<()> {
        let file_type = match metadata.file_type {
            vfs::FileType::CharacterDevice => FileType::CharacterDevice,
            vfs::FileType::BlockDevice => FileType::BlockDevice,
            vfs::FileType::Socket => FileType::Socket,
            _ => FileType::Fifo,
        };
        let device = metadata
            .device
            .map_or(0, |device| fs::makedev(device.major, device.minor));
        let make = || fs::mknodat(&self.fd, name, file_type, Mode::RUSR | Mode::WUSR, device);
        let made = self.again_without(name, file_type, make(), make);
        made.map_err(|e| self.fail(e, name))
    }

    /// Tries once more after removing a file of the same type that was in the way.
    fn again_without(
        &self,
        name: &[u8],
        file_type: FileType,
        first: rustix::io::Result<()>,
        again: impl FnOnce() -> rustix::io::Result<()>,
    ) -> rustix::io::Result<()> {
        if first != Err(Errno::EXIST) {
            return first;
        }
        let there = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(there.st_mode) != file_type {
            return first;
        }
        fs::unlinkat(&self.fd, name, AtFlags::empty())?;
        again()
    }

    /// Gives the file at `first` below `root` the further name `name`. Says whether that was
    /// possible; if not, the file is to be copied again.
    pub(super) fn link(&self, name: &[u8], root: &Self, first: &[u8]) -> bool {
        // By descriptor: a path would be walked again, through whatever is there now.
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let linked = fs::openat2(&root.fd, first, flags, Mode::empty(), beneath).and_then(|file| {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            fs::linkat(CWD, path, &self.fd, name, AtFlags::SYMLINK_FOLLOW)
        });
        linked.is_ok()
    }

    /// Sets owner and mode of this directory itself.
    pub(super) fn set_ownership(&self, ownership: Ownership) -> Result<()> {
        own(&self.fd, ownership).map_err(|e| failed(e, &self.path))
    }

    /// Sets the times of this directory itself.
    pub(super) fn set_times(&self, metadata: &Metadata) -> Result<()> {
        fs::futimens(&self.fd, &times(metadata)).map_err(|e| failed(e, &self.path))
    }

    /// Sets owner, mode and times of what is no file and no directory.
    pub(super) fn set_special(
        &self,
        name: &[u8],
        metadata: &Metadata,
        ownership: Ownership,
    ) -> Result<()> {
        let set = || {
            let no_follow = AtFlags::SYMLINK_NOFOLLOW;
            if let Some((uid, gid)) = ownership.owner {
                let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                fs::chownat(&self.fd, name, Some(uid), Some(gid), no_follow)?;
            }
            if metadata.file_type != vfs::FileType::Symlink {
                // Made by us as no symlink a moment ago; chmodat(2) has no way not to follow.
                fs::chmodat(
                    &self.fd,
                    name,
                    Mode::from_raw_mode(ownership.mode),
                    AtFlags::empty(),
                )?;
            }
            fs::utimensat(&self.fd, name, &times(metadata), no_follow)
        };
        set().map_err(|e| self.fail(e, name))
    }

    /// Sets an extended attribute of this directory itself.
    pub(super) fn set_xattr(&self, name: &[u8], value: &[u8]) -> io::Result<()> {
        Ok(fs::fsetxattr(&self.fd, name, value, XattrFlags::empty())?)
    }

    /// Sets an extended attribute of a symlink or a special file in it.
    pub(super) fn set_special_xattr(
        &self,
        file: &[u8],
        name: &[u8],
        value: &[u8],
    ) -> io::Result<()> {
        let mut path = OsString::from(format!("/proc/self/fd/{}/", self.fd.as_raw_fd()));
        path.push(OsStr::from_bytes(file));
        Ok(fs::lsetxattr(&path, name, value, XattrFlags::empty())?)
    }
}

/// Sets owner and mode of an open file. The owner first: changing it clears the set-user-id bit.
pub(super) fn own(fd: &impl std::os::fd::AsFd, ownership: Ownership) -> rustix::io::Result<()> {
    if let Some((uid, gid)) = ownership.owner {
        fs::fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    fs::fchmod(fd, Mode::from_raw_mode(ownership.mode))
}

/// The times to set.
pub(super) fn times(metadata: &Metadata) -> Timestamps {
    let spec = |time: vfs::Timestamp| Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.into(),
    };
    Timestamps {
        last_access: spec(metadata.accessed),
        last_modification: spec(metadata.modified),
    }
}

fn failed(errno: Errno, path: &Path) -> Error {
    Error::from(io::Error::from(errno)).in_file(path)
}
