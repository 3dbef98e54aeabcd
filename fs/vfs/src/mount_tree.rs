//! A tree of several filesystems under one root, like that of mount(2).
//!
//! The highest byte of an inode number in the tree is the index of the mount, and the other bytes
//! are the inode number in its filesystem. The numbers of the root filesystem are therefore
//! unchanged. A mount hides the directory that is its mount point.
//!
//! Filesystems are opened at first access, so that an access to one file does not cost the opening
//! of the others. The mount point of a filesystem that can't be opened returns the error of opening
//! it, and does not show the directory below: a program that copies into that directory would write
//! files where the guest never sees them.
//!
//! A directory that is bound to a second place has a number for each place, because it has two
//! parents. A file has the same number at both, so that its contents are cached once.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use crate::{
    Error, ErrorKind, FileType, Follow, FsRead, FsWrite, InodeNumber, Result, resolve,
    resolve_beneath,
};

mod mount_point_fs;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use mount_point_fs::MountPointFs;

/// The number of bits that hold the inode number of the filesystem. XFS uses no more, and
/// filesystems that number from 1 upwards never reach that many.
const INODE_BITS: u32 = 56;
/// The limit on mounts: one byte holds the index.
const MOUNTS_MAX: usize = 256;

/// An open filesystem, for reading or also for writing.
#[derive(Debug, Clone)]
pub enum Driver {
    /// A filesystem whose changes fail with `ReadOnly`.
    ReadOnly(Arc<dyn FsRead>),
    /// A filesystem that can be changed.
    Writable(Arc<dyn FsWrite>),
}

impl Driver {
    /// Returns the filesystem for reading.
    pub fn reader(&self) -> &dyn FsRead {
        match self {
            Self::ReadOnly(fs) => &**fs,
            Self::Writable(fs) => &**fs,
        }
    }
}

/// The source of a mount's filesystem at the first access.
enum MountSource {
    /// The filesystem is open already.
    Opened,
    /// The function that opens the filesystem.
    Open(Box<dyn Fn() -> Result<Driver> + Send + Sync>),
    /// The mount with this index, which comes earlier, has the filesystem.
    SameAs(usize),
}

/// A handle to a mount of a tree, for [`MountTree::mount_same`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountHandle(usize);

impl MountHandle {
    /// The handle to the mount of the root.
    pub const ROOT: Self = Self(0);
}

/// Filesystems that are mounted on each other. See the [module](self).
#[derive(Debug)]
pub struct MountTree {
    /// The mounts, the root first; none is ever removed.
    mounts: Vec<Mount>,
}

struct Mount {
    /// The requested path in normal form: `boot/efi`; empty for the root.
    path: Vec<u8>,
    source: MountSource,
    /// The directory of its filesystem that is its root; empty for the filesystem's own root.
    dir: Vec<u8>,
    opened: OnceLock<std::result::Result<OpenedMount, RepeatedError>>,
    place: OnceLock<MountPoint>,
    /// The mounts below this one that wait until it is open, each with the rest of its path.
    waiting: Vec<(usize, Vec<u8>)>,
}

/// The mount point of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MountPoint {
    mount: usize,
    dir: InodeNumber,
}

#[derive(Debug)]
struct OpenedMount {
    driver: Driver,
    root: InodeNumber,
    /// The index of the mount that opened the filesystem: its own index, except for a bind mount.
    owner: usize,
    /// The mounts on its directories, by directory; the last one for a directory counts.
    covered: Vec<(InodeNumber, usize)>,
    /// The mounts whose mount point does not exist in it, with the error.
    unmounted: Vec<(usize, RepeatedError)>,
    /// True after the first request to change the filesystem.
    changed: AtomicBool,
}

/// An error that is returned repeatedly.
#[derive(Debug, Clone)]
struct RepeatedError {
    kind: ErrorKind,
    text: String,
}

impl From<Error> for RepeatedError {
    fn from(error: Error) -> Self {
        Self {
            kind: error.kind(),
            text: error.to_string(),
        }
    }
}

impl RepeatedError {
    fn to_error(&self) -> Error {
        Error::new(self.kind, self.text.clone())
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount")
            .field("path", &String::from_utf8_lossy(&self.path))
            .field("opened", &self.opened)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Mount {
    fn new(path: Vec<u8>, dir: &[u8], source: MountSource) -> Self {
        Self {
            path,
            source,
            dir: dir.to_vec(),
            opened: OnceLock::new(),
            place: OnceLock::new(),
            waiting: Vec::new(),
        }
    }
}

impl MountTree {
    /// Returns a tree with a filesystem as its root.
    pub fn new(root: Driver) -> Self {
        let inode = root.reader().root();
        Self::with_root(root, inode)
    }

    /// Returns a tree with a directory of a filesystem as its root. No path leads out of it.
    ///
    /// # Errors
    /// As [`resolve`]; `NotADirectory`.
    pub fn below(root: Driver, path: impl AsRef<[u8]>) -> Result<Self> {
        let inode = resolve(root.reader(), path.as_ref(), Follow::All)?;
        check_dir(root.reader(), inode).map_err(|e| e.in_path(path))?;
        Ok(Self::with_root(root, inode))
    }

    fn with_root(driver: Driver, root: InodeNumber) -> Self {
        let mount = Mount::new(Vec::new(), b"", MountSource::Opened);
        let opened = OpenedMount::new(driver, root, 0);
        let _ = mount.opened.set(Ok(opened)); // The mount is new, so the cell is empty.
        Self {
            mounts: vec![mount],
        }
    }

    /// Mounts a filesystem at a directory of the present tree. `open` is called at the first
    /// access. A mount point below a mount that is not open yet is resolved when that is opened.
    ///
    /// # Errors
    /// As [`resolve`]; `NotADirectory`; `Invalid` for more than 255 mounts.
    pub fn mount(
        &mut self,
        path: impl AsRef<[u8]>,
        open: impl Fn() -> Result<Driver> + Send + Sync + 'static,
    ) -> Result<MountHandle> {
        self.mount_dir(path, b"", open)
    }

    /// Mounts the directory `dir` of a filesystem: `dir` is the root of the mount, and no path
    /// leads out of it.
    ///
    /// # Errors
    /// As [`mount`](Self::mount).
    pub fn mount_dir(
        &mut self,
        path: impl AsRef<[u8]>,
        dir: impl AsRef<[u8]>,
        open: impl Fn() -> Result<Driver> + Send + Sync + 'static,
    ) -> Result<MountHandle> {
        let source = MountSource::Open(Box::new(open));
        self.add(path.as_ref(), dir.as_ref(), source)
            .map(MountHandle)
    }

    /// Binds the directory `from` to `to`, without the mounts below it.
    ///
    /// # Errors
    /// As [`mount`](Self::mount), for both.
    pub fn bind(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<MountHandle> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let found = resolve(self, from, Follow::All)?;
        check_dir(self, found).map_err(|e| e.in_path(from))?;
        let (mount, root) = split(found);
        let source = self.opened(mount)?;
        let (driver, owner) = (source.driver.clone(), source.owner);
        let index = self.add(to, b"", MountSource::Opened)?;
        if let Some(added) = self.mounts.get(index) {
            let opened = OpenedMount::new(driver, root, owner);
            let _ = added.opened.set(Ok(opened)); // The mount is new, so the cell is empty.
        }
        Ok(MountHandle(index))
    }

    /// Mounts the directory `dir` of a filesystem that another mount has opened, or will open. So a
    /// filesystem that is mounted at two places is opened once.
    ///
    /// # Errors
    /// As [`mount`](Self::mount).
    pub fn mount_same(
        &mut self,
        path: impl AsRef<[u8]>,
        dir: impl AsRef<[u8]>,
        of: MountHandle,
    ) -> Result<MountHandle> {
        self.add(path.as_ref(), dir.as_ref(), MountSource::SameAs(of.0))
            .map(MountHandle)
    }

    fn add(&mut self, path: &[u8], dir: &[u8], source: MountSource) -> Result<usize> {
        let index = self.mounts.len();
        if index >= MOUNTS_MAX {
            let reason = format!("too many mounts, at most {MOUNTS_MAX}");
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let path = normal(path);
        let mount = Mount::new(path.clone(), dir, source);
        let (above, rest) = self.lexical_parent(&path);
        match self.mounts.get_mut(above) {
            Some(parent) if parent.opened.get().is_none() => {
                parent.waiting.push((index, rest));
            }
            _ => {
                let dir = resolve(self, &path, Follow::All)?;
                check_dir(self, dir).map_err(|e| e.in_path(&path))?;
                let (at, dir) = split(dir);
                let _ = mount.place.set(MountPoint { mount: at, dir });
                let opened = self.mounts.get_mut(at).and_then(|at| at.opened.get_mut());
                if let Some(Ok(opened)) = opened {
                    opened.covered.push((dir, index));
                }
            }
        }
        self.mounts.push(mount);
        Ok(index)
    }

    /// Returns the mount with the longest path that is a prefix of `path` (the last of several),
    /// and the rest of `path`.
    fn lexical_parent(&self, path: &[u8]) -> (usize, Vec<u8>) {
        let mut best = (0, path);
        for (index, mount) in self.mounts.iter().enumerate() {
            let rest = path
                .strip_prefix(mount.path.as_slice())
                .and_then(|rest| match rest {
                    [] => Some(rest),
                    [b'/', below @ ..] => Some(below),
                    _ => None,
                });
            if let Some(rest) = rest.filter(|rest| rest.len() <= best.1.len()) {
                best = (index, rest);
            }
        }
        (best.0, best.1.to_vec())
    }

    /// Opens a mount, and the mounts above it, if they are not open yet.
    ///
    /// # Errors
    /// The reason why it is not accessible: the errors of opening it, or of finding its mount
    /// point.
    pub fn check(&self, mount: MountHandle) -> Result<()> {
        let index = mount.0;
        let is_waiting = |above: &&Mount| above.waiting.iter().any(|(child, _)| *child == index);
        for (above, _) in self
            .mounts
            .iter()
            .enumerate()
            .filter(|(_, above)| is_waiting(above))
        {
            let mut unmounted = self.opened(above)?.unmounted.iter();
            if let Some((_, failed)) = unmounted.find(|(child, _)| *child == index) {
                return Err(failed.to_error());
            }
        }
        self.opened(index).map(|_| ())
    }

    /// Returns the mount with this index, and opens it if necessary.
    fn opened(&self, index: usize) -> Result<&OpenedMount> {
        let none = || Error::new(ErrorKind::NotFound, "no such inode");
        let mount = self.mounts.get(index).ok_or_else(none)?;
        let opened = mount
            .opened
            .get_or_init(|| self.open(index, mount).map_err(RepeatedError::from));
        opened.as_ref().map_err(RepeatedError::to_error)
    }

    fn open(&self, index: usize, mount: &Mount) -> Result<OpenedMount> {
        let (driver, owner) = match &mount.source {
            MountSource::Open(open) => (open()?, index),
            // The index is that of an earlier mount, so the recursion ends.
            MountSource::SameAs(other) => {
                let other = self.opened(*other)?;
                (other.driver.clone(), other.owner)
            }
            MountSource::Opened => return Err(ErrorKind::Invalid.into()),
        };
        let root = resolve(driver.reader(), &mount.dir, Follow::All)?;
        check_dir(driver.reader(), root).map_err(|e| e.in_path(&mount.dir))?;
        let mut opened = OpenedMount::new(driver, root, owner);
        for (child, rest) in &mount.waiting {
            let fs = opened.driver.reader();
            let found = resolve_beneath(fs, root, rest, Follow::All);
            let dir = found.and_then(|dir| check_dir(fs, dir).map(|()| dir));
            match dir {
                Ok(dir) => {
                    opened.covered.push((dir, *child));
                    if let Some(child) = self.mounts.get(*child) {
                        let _ = child.place.set(MountPoint { mount: index, dir }); // Set only here.
                    }
                }
                Err(error) => opened.unmounted.push((*child, error.into())),
            }
        }
        Ok(opened)
    }

    fn find(&self, inode: InodeNumber) -> Result<(usize, &OpenedMount, InodeNumber)> {
        let (mount, inner) = split(inode);
        Ok((mount, self.opened(mount)?, inner))
    }

    /// Returns the inode number in the tree of a file of a mount. Calls `is_dir` only if it
    /// matters.
    fn number(
        &self,
        mount: usize,
        inner: InodeNumber,
        is_dir: impl FnOnce() -> Result<bool>,
    ) -> Result<InodeNumber> {
        let owner = self.opened(mount)?.owner;
        let mount = if owner == mount || is_dir()? {
            mount
        } else {
            owner
        };
        join(mount, inner)
    }

    /// Returns the root of the mount on a directory, or the directory itself.
    fn cross(&self, mount: usize, inner: InodeNumber) -> Result<Option<InodeNumber>> {
        let mut at = MountPoint { mount, dir: inner };
        let mut crossed = None;
        while let Some(child) = self.opened(at.mount)?.mounted_on(at.dir) {
            let root = self.opened(child)?.root;
            at = MountPoint {
                mount: child,
                dir: root,
            };
            crossed = Some(join(child, root)?);
        }
        Ok(crossed)
    }

    /// Returns the parent directory of a mount's root.
    fn above(&self, mount: usize) -> Result<Option<InodeNumber>> {
        let Some(place) = self.mounts.get(mount).and_then(|mount| mount.place.get()) else {
            return Ok(None);
        };
        let dir = join(place.mount, place.dir)?;
        self.lookup(dir, b"..").map(Some)
    }
}

impl OpenedMount {
    fn new(driver: Driver, root: InodeNumber, owner: usize) -> Self {
        Self {
            driver,
            root,
            owner,
            covered: Vec::new(),
            unmounted: Vec::new(),
            changed: AtomicBool::new(false),
        }
    }

    fn reader(&self) -> &dyn FsRead {
        self.driver.reader()
    }

    fn mounted_on(&self, dir: InodeNumber) -> Option<usize> {
        let mut covered = self.covered.iter().rev();
        covered
            .find(|(covered, _)| *covered == dir)
            .map(|(_, at)| *at)
    }
}

/// Splits an inode number into the mount and the number within its filesystem.
fn split(inode: InodeNumber) -> (usize, InodeNumber) {
    let mask = u64::MAX.wrapping_shr(64_u32.saturating_sub(INODE_BITS));
    let mount = usize::try_from(inode.0.wrapping_shr(INODE_BITS)).unwrap_or(usize::MAX);
    (mount, InodeNumber(inode.0 & mask))
}

fn join(mount: usize, inner: InodeNumber) -> Result<InodeNumber> {
    let high = u64::try_from(mount).ok().and_then(|mount| {
        let high = mount.checked_shl(INODE_BITS)?;
        (inner.0.wrapping_shr(INODE_BITS) == 0).then_some(high)
    });
    let high = high.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the inode number is too large for a tree of several filesystems",
        )
        .in_inode(inner)
    })?;
    Ok(InodeNumber(high | inner.0))
}

fn check_dir(fs: &dyn FsRead, inode: InodeNumber) -> Result<()> {
    if fs.metadata(inode)?.file_type == FileType::Directory {
        return Ok(());
    }
    Err(ErrorKind::NotADirectory.into())
}

/// Normalises a path: single slashes between the names, without `.`; `..` is kept.
fn normal(path: &[u8]) -> Vec<u8> {
    let names = path.split(|&byte| byte == b'/');
    let names: Vec<&[u8]> = names
        .filter(|name| !name.is_empty() && *name != b".")
        .collect();
    names.join(&b'/')
}
