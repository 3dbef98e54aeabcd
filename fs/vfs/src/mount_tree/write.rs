//! The write operations of a [`MountTree`]: each change is made in one filesystem.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Driver, MountTree, OpenedMount};
use crate::{
    Error, ErrorKind, Fallocate, FileAttributes, FsWrite, InodeNumber, NewAttributes, NewKind,
    Remains, RenameMode, Result, SetMetadata, SetXattr, SyncFile,
};

/// A file of a filesystem that can be written.
struct WriteTarget<'t> {
    mount: usize,
    owner: usize,
    fs: &'t Arc<dyn FsWrite>,
    inner: InodeNumber,
}

impl MountTree {
    fn target(&self, inode: InodeNumber) -> Result<WriteTarget<'_>> {
        let (mount, opened, inner) = self.find(inode)?;
        opened.changed.store(true, Ordering::Relaxed);
        Ok(WriteTarget {
            mount,
            owner: opened.owner,
            fs: opened.writer()?,
            inner,
        })
    }

    /// Returns the targets of a call with two directories, or with a file and a directory.
    fn targets(
        &self,
        a: InodeNumber,
        b: InodeNumber,
    ) -> Result<(WriteTarget<'_>, WriteTarget<'_>)> {
        let (a, b) = (self.target(a)?, self.target(b)?);
        if a.owner == b.owner {
            return Ok((a, b));
        }
        Err(ErrorKind::CrossesDevices.into())
    }

    /// Fails if a filesystem is mounted on the file with the name `name`.
    fn check_free(&self, dir: &WriteTarget<'_>, name: &[u8]) -> Result<()> {
        let found = match dir.fs.lookup(dir.inner, name) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // The same directory can also be a mount point at another place of its filesystem.
        let mut mounts = self.mounts.iter();
        let is_covered = mounts.any(|mount| {
            mount.place.get().is_some_and(|place| {
                place.dir == found
                    && self
                        .opened(place.mount)
                        .is_ok_and(|opened| opened.owner == dir.owner)
            })
        });
        if is_covered {
            return Err(Error::new(ErrorKind::Busy, "a filesystem is mounted there"));
        }
        Ok(())
    }

    /// Returns the opened filesystems that can be written, each once.
    fn writers(&self) -> impl DoubleEndedIterator<Item = &Arc<dyn FsWrite>> {
        let mounts = self.mounts.iter().enumerate();
        mounts.filter_map(|(index, mount)| {
            let opened = mount.opened.get()?.as_ref().ok()?;
            opened.writer().ok().filter(|_| opened.owner == index)
        })
    }
}

impl OpenedMount {
    fn writer(&self) -> Result<&Arc<dyn FsWrite>> {
        match &self.driver {
            Driver::Writable(fs) => Ok(fs),
            Driver::ReadOnly(_) => Err(ErrorKind::ReadOnly.into()),
        }
    }
}

/// Calls `work` for each filesystem, even after an error; returns the first error.
fn for_all<'f>(
    all: impl Iterator<Item = &'f Arc<dyn FsWrite>>,
    work: impl Fn(&dyn FsWrite) -> Result<()>,
) -> Result<()> {
    let mut first = Ok(());
    for fs in all {
        first = first.and(work(&**fs));
    }
    first
}

/// Combines the remaining changes of two filesystems.
fn combine_remains(one: Result<Remains>, other: Result<Remains>) -> Result<Remains> {
    let (one, other) = (one?, other?);
    Ok(if one == other { one } else { Remains::Some })
}

impl FsWrite for MountTree {
    fn create(
        &self,
        dir: InodeNumber,
        name: &[u8],
        kind: NewKind<'_>,
        attributes: &NewAttributes,
    ) -> Result<InodeNumber> {
        let at = self.target(dir)?;
        let made = at.fs.create(at.inner, name, kind, attributes)?;
        self.number(at.mount, made, || Ok(kind == NewKind::Directory))
    }

    fn create_unnamed(&self, dir: InodeNumber, attributes: &NewAttributes) -> Result<InodeNumber> {
        let at = self.target(dir)?;
        let made = at.fs.create_unnamed(at.inner, attributes)?;
        self.number(at.mount, made, || Ok(false))
    }

    fn link(&self, inode: InodeNumber, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let (file, at) = self.targets(inode, dir)?;
        at.fs.link(file.inner, at.inner, name)
    }

    fn unlink(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let at = self.target(dir)?;
        at.fs.unlink(at.inner, name)
    }

    fn rmdir(&self, dir: InodeNumber, name: &[u8]) -> Result<()> {
        let at = self.target(dir)?;
        self.check_free(&at, name)?;
        at.fs.rmdir(at.inner, name)
    }

    fn rename(
        &self,
        dir: InodeNumber,
        name: &[u8],
        to_dir: InodeNumber,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        let (from, to) = self.targets(dir, to_dir)?;
        self.check_free(&from, name)?;
        self.check_free(&to, to_name)?;
        from.fs.rename(from.inner, name, to.inner, to_name, mode)
    }

    fn write_at(&self, inode: InodeNumber, offset: u64, data: &[u8]) -> Result<usize> {
        let at = self.target(inode)?;
        at.fs.write_at(at.inner, offset, data)
    }

    fn set_len(&self, inode: InodeNumber, size_bytes: u64) -> Result<()> {
        let at = self.target(inode)?;
        at.fs.set_len(at.inner, size_bytes)
    }

    fn fallocate(
        &self,
        inode: InodeNumber,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        let at = self.target(inode)?;
        at.fs.fallocate(at.inner, offset, len_bytes, what)
    }

    fn set_metadata(&self, inode: InodeNumber, change: &SetMetadata) -> Result<()> {
        let at = self.target(inode)?;
        at.fs.set_metadata(at.inner, change)
    }

    fn set_file_attributes(&self, inode: InodeNumber, wanted: FileAttributes) -> Result<()> {
        let at = self.target(inode)?;
        at.fs.set_file_attributes(at.inner, wanted)
    }

    fn set_xattr(
        &self,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        let at = self.target(inode)?;
        at.fs.set_xattr(at.inner, name, value, how)
    }

    fn remove_xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<()> {
        let at = self.target(inode)?;
        at.fs.remove_xattr(at.inner, name)
    }

    fn hold(&self, inode: InodeNumber) {
        // In a filesystem that can't be written, no file is ever freed.
        if let Ok(at) = self.target(inode) {
            at.fs.hold(at.inner);
        }
    }

    fn release(&self, inode: InodeNumber) -> Result<()> {
        match self.target(inode) {
            Ok(at) => at.fs.release(at.inner),
            Err(_) => Ok(()),
        }
    }

    fn set_uuid(&self, inode: InodeNumber, uuid: [u8; 16]) -> Result<()> {
        let at = self.target(inode)?;
        at.fs.set_uuid(at.inner, uuid)
    }

    fn sync_file(&self, inode: InodeNumber, what: SyncFile) -> Result<()> {
        match self.target(inode) {
            Err(error) if error.kind() == ErrorKind::ReadOnly => Ok(()),
            at => {
                let at = at?;
                at.fs.sync_file(at.inner, what)
            }
        }
    }

    fn sync(&self) -> Result<()> {
        for_all(self.writers(), |fs| fs.sync())
    }

    fn close(&self) -> Result<()> {
        for_all(self.writers().rev(), |fs| fs.close())
    }

    /// Returns true: two filesystems can't be committed in one transaction.
    fn is_in_parts(&self) -> bool {
        let is_changed = |owner: &usize| {
            let mut mounts = self.mounts.iter().filter_map(|mount| mount.opened.get());
            mounts.any(|opened| {
                let opened = opened.as_ref().ok();
                opened.is_some_and(|it| it.owner == *owner && it.changed.load(Ordering::Relaxed))
            })
        };
        let all = 0..self.mounts.len();
        let changed: Vec<usize> = all.filter(is_changed).collect();
        match &*changed {
            [] => false,
            [owner] => match self.opened(*owner).and_then(OpenedMount::writer) {
                Ok(fs) => fs.is_in_parts(),
                Err(_) => true,
            },
            _ => true,
        }
    }

    /// Abandons all filesystems, even if one of them fails.
    fn abandon(&self) -> Result<Remains> {
        let all: Vec<_> = self.writers().rev().map(|fs| fs.abandon()).collect();
        all.into_iter()
            .reduce(combine_remains)
            .unwrap_or(Ok(Remains::Nothing))
    }
}
