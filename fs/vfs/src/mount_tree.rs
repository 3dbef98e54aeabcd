//! Several filesystems under one root, as mount(2) puts them together.
//!
//! A file's number has the mount that it belongs to in its highest byte, and its number within that
//! filesystem in the others: those of the root's filesystem are as they are. A directory on which
//! something is mounted is not seen; what is mounted there is.
//!
//! Filesystems are opened when somebody first comes to them, so that a look at one file costs what it
//! does without the others. One that does not open then answers with its error and not with the
//! directory below: a program that copies into it would put its files there, where the guest never
//! sees them.
//!
//! A directory that is bound to a second place has a number for each, for it has two parents; a file
//! has the same one at both, so that whoever caches its contents has them once.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use crate::{
    Error, ErrorKind, FileType, Follow, FsRead, FsWrite, InodeNumber, Result, resolve,
    resolve_beneath,
};

mod folders;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use folders::Folders;

/// Bits of a file's number that are its filesystem's. XFS uses no more than these, and those that
/// count from one up never come so far.
const INODE_BITS: u32 = 56;
/// A byte tells the mount.
const MOUNTS_MAX: usize = 256;

/// An open filesystem, to read or to write, too.
#[derive(Debug, Clone)]
pub enum Driver {
    /// Changes answer `ReadOnly`.
    ReadOnly(Arc<dyn FsRead>),
    /// It can be changed.
    Writable(Arc<dyn FsWrite>),
}

impl Driver {
    /// The filesystem, to read.
    pub fn reader(&self) -> &dyn FsRead {
        match self {
            Self::ReadOnly(fs) => &**fs,
            Self::Writable(fs) => &**fs,
        }
    }
}

/// Where the filesystem of a mount comes from when it is first wanted.
enum Source {
    /// It is open already.
    Opened,
    /// This opens it.
    Open(Box<dyn Fn() -> Result<Driver> + Send + Sync>),
    /// An earlier mount has it.
    SameAs(usize),
}

/// One mount of a tree, for [`MountTree::mount_same`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountHandle(usize);

impl MountHandle {
    /// The root's.
    pub const ROOT: Self = Self(0);
}

/// Filesystems, and where they are mounted on each other. See the [module](self).
#[derive(Debug)]
pub struct MountTree {
    /// The root first; none is ever taken away.
    mounts: Vec<Mount>,
}

struct Mount {
    /// As it was asked for, without what is superfluous: `boot/efi`; empty for the root.
    path: Vec<u8>,
    source: Source,
    /// The directory of its filesystem that is its root; the filesystem's own when empty.
    dir: Vec<u8>,
    opened: OnceLock<std::result::Result<Opened, Failed>>,
    place: OnceLock<Place>,
    /// Mounts whose path begins with this one's, with what follows in theirs, until it is open.
    waiting: Vec<(usize, Vec<u8>)>,
}

/// Where something is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    mount: usize,
    dir: InodeNumber,
}

#[derive(Debug)]
struct Opened {
    driver: Driver,
    root: InodeNumber,
    /// The mount that has the same filesystem and opened it: itself, unless it is bound.
    owner: usize,
    /// What is mounted on its directories, by these; the last one that was counts.
    covered: Vec<(InodeNumber, usize)>,
    /// Mounts that have no place in it, and why.
    homeless: Vec<(usize, Failed)>,
    /// Somebody has asked to change something of it.
    changed: AtomicBool,
}

/// An error that is told again and again.
#[derive(Debug, Clone)]
struct Failed {
    kind: ErrorKind,
    text: String,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            kind: error.kind(),
            text: error.to_string(),
        }
    }
}

impl Failed {
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
    fn new(path: Vec<u8>, dir: &[u8], source: Source) -> Self {
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
    /// Begins with the filesystem at the root.
    pub fn new(root: Driver) -> Self {
        let inode = root.reader().root();
        Self::with_root(root, inode)
    }

    /// Begins with a directory of a filesystem as the root: nothing leads out of it.
    ///
    /// # Errors
    /// As [`resolve`]; `NotADirectory`.
    pub fn below(root: Driver, path: impl AsRef<[u8]>) -> Result<Self> {
        let inode = resolve(root.reader(), path.as_ref(), Follow::All)?;
        check_dir(root.reader(), inode).map_err(|e| e.in_path(path))?;
        Ok(Self::with_root(root, inode))
    }

    fn with_root(driver: Driver, root: InodeNumber) -> Self {
        let mount = Mount::new(Vec::new(), b"", Source::Opened);
        let opened = Opened::new(driver, root, 0);
        let _ = mount.opened.set(Ok(opened)); // It is new, and so empty.
        Self {
            mounts: vec![mount],
        }
    }

    /// Mounts at a directory what `open` gives when somebody comes there. The path is one of the tree
    /// as it is now. What is below a mount that nobody has come to yet is looked for when it is open.
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

    /// The same for the directory `dir` of a filesystem: what is mounted is seen from there on, and
    /// nothing leads out of it.
    ///
    /// # Errors
    /// As [`mount`](Self::mount).
    pub fn mount_dir(
        &mut self,
        path: impl AsRef<[u8]>,
        dir: impl AsRef<[u8]>,
        open: impl Fn() -> Result<Driver> + Send + Sync + 'static,
    ) -> Result<MountHandle> {
        let source = Source::Open(Box::new(open));
        self.add(path.as_ref(), dir.as_ref(), source)
            .map(MountHandle)
    }

    /// Shows the directory `from` at `to`, too, without what is mounted below it.
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
        let index = self.add(to, b"", Source::Opened)?;
        if let Some(added) = self.mounts.get(index) {
            let opened = Opened::new(driver, root, owner);
            let _ = added.opened.set(Ok(opened)); // Nobody has come there yet.
        }
        Ok(MountHandle(index))
    }

    /// Mounts the directory `dir` of what another mount has opened, or will: a filesystem that is
    /// seen at two places is open once.
    ///
    /// # Errors
    /// As [`mount`](Self::mount).
    pub fn mount_same(
        &mut self,
        path: impl AsRef<[u8]>,
        dir: impl AsRef<[u8]>,
        of: MountHandle,
    ) -> Result<MountHandle> {
        self.add(path.as_ref(), dir.as_ref(), Source::SameAs(of.0))
            .map(MountHandle)
    }

    fn add(&mut self, path: &[u8], dir: &[u8], source: Source) -> Result<usize> {
        let index = self.mounts.len();
        if index >= MOUNTS_MAX {
            let reason = format!("no more than {MOUNTS_MAX} filesystems fit under one root");
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
                let _ = mount.place.set(Place { mount: at, dir });
                let opened = self.mounts.get_mut(at).and_then(|at| at.opened.get_mut());
                if let Some(Ok(opened)) = opened {
                    opened.covered.push((dir, index));
                }
            }
        }
        self.mounts.push(mount);
        Ok(index)
    }

    /// The mount with the longest path that `path` begins with, the last of several, and what of
    /// `path` follows.
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

    /// Opens what is mounted there if it isn't open yet, and what is on the way to it.
    ///
    /// # Errors
    /// What keeps it from being seen: as opening it, or looking for its directory.
    pub fn check(&self, mount: MountHandle) -> Result<()> {
        let index = mount.0;
        let is_waiting = |above: &&Mount| above.waiting.iter().any(|(child, _)| *child == index);
        for (above, _) in self
            .mounts
            .iter()
            .enumerate()
            .filter(|(_, above)| is_waiting(above))
        {
            let mut homeless = self.opened(above)?.homeless.iter();
            if let Some((_, failed)) = homeless.find(|(child, _)| *child == index) {
                return Err(failed.to_error());
            }
        }
        self.opened(index).map(|_| ())
    }

    /// The mount of that number, opened now if it isn't.
    fn opened(&self, index: usize) -> Result<&Opened> {
        let none = || Error::new(ErrorKind::NotFound, "no such inode");
        let mount = self.mounts.get(index).ok_or_else(none)?;
        let opened = mount
            .opened
            .get_or_init(|| self.open(index, mount).map_err(Failed::from));
        opened.as_ref().map_err(Failed::to_error)
    }

    fn open(&self, index: usize, mount: &Mount) -> Result<Opened> {
        let (driver, owner) = match &mount.source {
            Source::Open(open) => (open()?, index),
            // Of an earlier one, so that this comes to an end.
            Source::SameAs(other) => {
                let other = self.opened(*other)?;
                (other.driver.clone(), other.owner)
            }
            Source::Opened => return Err(ErrorKind::Invalid.into()),
        };
        let root = resolve(driver.reader(), &mount.dir, Follow::All)?;
        check_dir(driver.reader(), root).map_err(|e| e.in_path(&mount.dir))?;
        let mut opened = Opened::new(driver, root, owner);
        for (child, rest) in &mount.waiting {
            let fs = opened.driver.reader();
            let found = resolve_beneath(fs, root, rest, Follow::All);
            let dir = found.and_then(|dir| check_dir(fs, dir).map(|()| dir));
            match dir {
                Ok(dir) => {
                    opened.covered.push((dir, *child));
                    if let Some(child) = self.mounts.get(*child) {
                        let _ = child.place.set(Place { mount: index, dir }); // Set only here.
                    }
                }
                Err(error) => opened.homeless.push((*child, error.into())),
            }
        }
        Ok(opened)
    }

    fn find(&self, inode: InodeNumber) -> Result<(usize, &Opened, InodeNumber)> {
        let (mount, inner) = split(inode);
        Ok((mount, self.opened(mount)?, inner))
    }

    /// The number of a file of a mount in the tree. `is_dir` is asked only where it matters.
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

    /// What is seen at a directory: what is mounted there, or itself.
    fn cross(&self, mount: usize, inner: InodeNumber) -> Result<Option<InodeNumber>> {
        let mut at = Place { mount, dir: inner };
        let mut crossed = None;
        while let Some(child) = self.opened(at.mount)?.mounted_on(at.dir) {
            let root = self.opened(child)?.root;
            at = Place {
                mount: child,
                dir: root,
            };
            crossed = Some(join(child, root)?);
        }
        Ok(crossed)
    }

    /// The directory above a mount's root.
    fn above(&self, mount: usize) -> Result<Option<InodeNumber>> {
        let Some(place) = self.mounts.get(mount).and_then(|mount| mount.place.get()) else {
            return Ok(None);
        };
        let dir = join(place.mount, place.dir)?;
        self.lookup(dir, b"..").map(Some)
    }
}

impl Opened {
    fn new(driver: Driver, root: InodeNumber, owner: usize) -> Self {
        Self {
            driver,
            root,
            owner,
            covered: Vec::new(),
            homeless: Vec::new(),
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

/// The mount and the number within its filesystem.
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
            "inode number is too large to be shown among other filesystems",
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

/// The names of a path with single slashes between them, without `.`; `..` stays.
fn normal(path: &[u8]) -> Vec<u8> {
    let names = path.split(|&byte| byte == b'/');
    let names: Vec<&[u8]> = names
        .filter(|name| !name.is_empty() && *name != b".")
        .collect();
    names.join(&b'/')
}
