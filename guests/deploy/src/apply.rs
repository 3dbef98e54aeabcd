//! Writes what a stage changes.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

use diskfs_vfs::{
    self as vfs, Fallocate, FileWriter, Follow, FsWrite, InodeNumber, NewAttributes, NewKind,
    Remains, SetMetadata, SetXattr,
    edit::{Removed, remove_tree},
    replace_contents, resolve, resolve_parent,
};

use super::stage::{Aspect, Change, Contents, Entry, Kind};
use super::volumes::VolumeChanges;
use diskfs_disk::{Error, ErrorKind, Filesystem, Result, WritableFilesystem};

/// Besides its contents, what a new file takes at most: an inode and a name, both in blocks that may be new.
const NEW_FILE_BYTES: u64 = 8 << 10;

/// How the changes were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// In one transaction: a crash at any moment left all of them or none.
    Whole,
    /// In several steps: there were more than one transaction of the journal holds, several filesystems, or one without a
    /// journal. A crash meanwhile would have left a part of them.
    InParts,
}

/// Writes the changes, with the new UUIDs of filesystems, and ends writing: when this returns all of them are durable, and
/// with an error none is where the filesystem has a journal. `progress` is called with the number of bytes of contents
/// that were just written, and with that of all of them.
///
/// # Errors
/// `NoSpace` before anything is written, where that can be seen; `Cancelled` when `progress` says so; what writing
/// answers.
pub fn apply(
    changes: &[Change],
    volumes: &VolumeChanges,
    target: &WritableFilesystem,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Applied> {
    let room = check_room(changes, target.reader());
    let applied = room.and_then(|()| write_all(changes, target, progress));
    let applied = applied.and_then(|()| volumes.apply_to(target));
    let applied = applied.and_then(|()| {
        let applied = if target.as_fs().is_in_parts() {
            Applied::InParts
        } else {
            Applied::Whole
        };
        target.close().map(|()| applied)
    });
    applied.inspect_err(|_| {
        // Once more tells the same to a caller who wants to know.
        let remains = target.abandon();
        if !matches!(remains, Ok(Remains::Nothing)) {
            tracing::warn!(?remains, "the plan, or a part of it, may have been written");
        }
    })
}

fn write_all(
    changes: &[Change],
    target: &WritableFilesystem,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<()> {
    let total = changes.iter().map(contents_bytes);
    let total = total.fold(0, u64::saturating_add);
    let mut writer = Writer {
        fs: target.as_fs(),
        target,
        told: &mut |bytes| progress(bytes, total),
    };
    // What is one more name of a file comes when all files are there.
    let (names, files): (Vec<&Change>, Vec<&Change>) = changes
        .iter()
        .partition(|change| first_name(change).is_some());
    let mut all = files.into_iter().chain(names);
    all.try_for_each(|change| writer.write(change))
}

/// That a guest has room for the changes, as far as it can be said before.
///
/// # Errors
/// `NoSpace`, with the bytes that are needed and those that are free.
pub(super) fn check_room(changes: &[Change], guest: &Filesystem) -> Result<()> {
    let needed: u64 = changes
        .iter()
        .map(needed_bytes)
        .fold(0, u64::saturating_add);
    let statistics = guest.statistics()?;
    let free = statistics
        .blocks_free
        .saturating_mul(statistics.block_size.into());
    if needed <= free {
        return Ok(());
    }
    let reason = format!("the plan needs {needed} bytes, and {free} are free");
    Err(Error::new(ErrorKind::NoSpace, reason)
        .in_file(guest.image_path())
        .with_hint("grow the disk first, as with `diskfs resize`, or leave out what is large"))
}

fn needed_bytes(change: &Change) -> u64 {
    if change.after.is_none() {
        return 0;
    }
    let new = if change.before.is_none() {
        NEW_FILE_BYTES
    } else {
        0
    };
    new.saturating_add(contents_bytes(change))
}

fn contents_bytes(change: &Change) -> u64 {
    match change.after.as_ref().map(|after| &after.kind) {
        Some(Kind::File(contents)) => contents.size_bytes(),
        _ => 0,
    }
}

/// The file that a path is to be one more name of.
fn first_name(change: &Change) -> Option<&str> {
    match &change.after.as_ref()?.kind {
        Kind::File(Contents::SameAs(first)) => Some(first),
        _ => None,
    }
}

struct Writer<'a> {
    fs: &'a dyn FsWrite,
    target: &'a WritableFilesystem,
    /// Told how many bytes of contents more were written.
    told: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Writer<'_> {
    fn write(&mut self, change: &Change) -> Result<()> {
        let target = self.target;
        let failed = |error: vfs::Error| target.in_image(error.in_path(&change.path));
        let path = change.path.as_bytes();
        match (&change.before, &change.after) {
            (Some(_), None) => self.remove(path).map_err(failed),
            (before, Some(after)) => {
                let stays = before.as_ref().is_some_and(|before| stays(before, after));
                if before.is_some() && !stays {
                    self.remove(path).map_err(failed)?;
                }
                if let Some(first) = first_name(change) {
                    self.link(path, first).map_err(failed)
                } else if stays {
                    let inode = resolve(self.fs, path, Follow::AllButLast).map_err(failed)?;
                    self.change(inode, change, after)
                } else {
                    let inode = self.create(path, after).map_err(failed)?;
                    self.fill(inode, after, path)?;
                    self.set_xattrs(inode, after).map_err(failed)
                }
            }
            (None, None) => Ok(()),
        }
    }

    fn remove(&self, path: &[u8]) -> vfs::Result<()> {
        let mut first = Ok(());
        remove_tree(self.fs, path, &mut |removed| {
            if let (Removed::Failed(error), Ok(())) = (removed, &first) {
                first = Err(error);
            }
        })?;
        first
    }

    fn link(&self, path: &[u8], first: &str) -> vfs::Result<()> {
        let inode = resolve(self.fs, first.as_bytes(), Follow::AllButLast)?;
        let (dir, name) = resolve_parent(self.fs, path)?;
        self.fs.link(inode, dir, &name)
    }

    fn create(&self, path: &[u8], entry: &Entry) -> vfs::Result<InodeNumber> {
        let (dir, name) = resolve_parent(self.fs, path)?;
        let kind = match &entry.kind {
            Kind::File(_) => NewKind::Regular,
            Kind::Directory => NewKind::Directory,
            Kind::Symlink(target) => NewKind::Symlink(target.as_bytes()),
            Kind::Other(_) => {
                let reason = "devices, FIFOs and sockets are not made";
                return Err(vfs::Error::new(vfs::ErrorKind::Unsupported, reason));
            }
        };
        let attributes = NewAttributes {
            permissions: entry.permissions,
            umask: 0,
            uid: entry.uid,
            gid: entry.gid,
        };
        let inode = self.fs.create(dir, &name, kind, &attributes)?;
        // A directory's set-group-id bit or default ACL may have decided otherwise.
        let made = self.fs.metadata(inode)?;
        let wanted = (entry.permissions, entry.uid, entry.gid);
        let is_symlink = matches!(entry.kind, Kind::Symlink(_));
        if (made.permissions, made.uid, made.gid) != wanted && !is_symlink {
            self.fs.set_metadata(inode, &attributes_of(entry))?;
        }
        Ok(inode)
    }

    fn change(&mut self, inode: InodeNumber, change: &Change, after: &Entry) -> Result<()> {
        let target = self.target;
        let failed = |error: vfs::Error| target.in_image(error.in_path(&change.path));
        let has = |aspect| change.aspects.contains(&aspect);
        if has(Aspect::Contents) {
            self.fill(inode, after, change.path.as_bytes())?;
        }
        if has(Aspect::Mode) || has(Aspect::Owner) {
            let attributes = attributes_of(after);
            self.fs.set_metadata(inode, &attributes).map_err(failed)?;
        }
        if has(Aspect::Xattrs) {
            self.set_xattrs(inode, after).map_err(failed)?;
        }
        Ok(())
    }

    /// Puts the contents into a regular file, which is nothing for what has none.
    fn fill(&mut self, inode: InodeNumber, entry: &Entry, path: &[u8]) -> Result<()> {
        let target = self.target;
        let failed = |error: vfs::Error| target.in_image(error.in_path(path));
        let told = &mut *self.told;
        match &entry.kind {
            Kind::File(Contents::Bytes(bytes)) => {
                replace_contents(self.fs, inode, &mut &bytes[..], told).map_err(failed)?;
            }
            Kind::File(Contents::Host { path, .. }) => {
                let file = File::open(path).map_err(|e| Error::from(e).in_file(path))?;
                replace_contents(self.fs, inode, &mut &file, told).map_err(failed)?;
            }
            Kind::File(Contents::Part(part)) => {
                replace_contents(self.fs, inode, &mut part.reader(), told).map_err(failed)?;
            }
            Kind::File(Contents::Allocated { start, size_bytes }) => {
                self.allocate(inode, start, *size_bytes).map_err(failed)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Fills a file with these bytes and zeroes behind them, and leaves no hole in it.
    fn allocate(&self, inode: InodeNumber, start: &[u8], size_bytes: u64) -> vfs::Result<()> {
        let told = &mut |_| ControlFlow::Continue(());
        let rest = size_bytes.saturating_sub(start.len() as u64);
        replace_contents(self.fs, inode, &mut &*start, told)?;
        let allocated = self.fs.fallocate(inode, 0, size_bytes, Fallocate::Allocate);
        match allocated {
            Err(error) if error.kind() == vfs::ErrorKind::Unsupported => {
                let mut writer = FileWriter::new(self.fs, inode, start.len() as u64);
                writer.put_all(&mut io::repeat(0).take(rest), told)
            }
            allocated => allocated,
        }
    }

    /// What a filesystem has no place for is left out: a guest would find it without, too.
    fn set_xattrs(&self, inode: InodeNumber, entry: &Entry) -> vfs::Result<()> {
        for (name, value) in &entry.xattrs {
            let set = self
                .fs
                .set_xattr(inode, name.as_bytes(), value, SetXattr::Any);
            match set {
                Err(error) if error.kind() == vfs::ErrorKind::Unsupported => {
                    tracing::warn!(name, "the filesystem has no such attributes");
                }
                set => set?,
            }
        }
        Ok(())
    }
}

/// Whether the file stays the one that it is, with what is not named of it.
fn stays(before: &Entry, after: &Entry) -> bool {
    match (&before.kind, &after.kind) {
        (Kind::File(_), Kind::File(Contents::SameAs(_))) => false,
        (Kind::File(_), Kind::File(_)) => true,
        (Kind::Directory, Kind::Directory) => !after.is_new,
        (before, after) => before == after,
    }
}

fn attributes_of(entry: &Entry) -> SetMetadata {
    SetMetadata {
        permissions: Some(entry.permissions),
        uid: Some(entry.uid),
        gid: Some(entry.gid),
        ..SetMetadata::default()
    }
}
