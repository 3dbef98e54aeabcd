//! Writing of a stage's changes to the guest.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

use diskfs_vfs::{
    self as vfs, Fallocate, FileWriter, Follow, FsWrite, InodeNumber, NewAttributes, NewKind,
    Remains, SetMetadata, SetXattr,
    edit::{Removed, remove_tree},
    replace_contents, resolve, resolve_parent,
};

use super::stage::{Aspect, Change, Contents, Entry, EntryKind};
use super::volumes::VolumeChanges;
use diskfs_disk::{Error, ErrorKind, Filesystem, Result, WritableFilesystem};

/// The space that a new file needs at most in addition to its contents: an inode and a name, both
/// in blocks that may be new.
const NEW_FILE_BYTES: u64 = 8 << 10;

/// The way in which the changes were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// In one transaction: after a crash at any moment, all changes or none are visible.
    OneTransaction,
    /// In several steps. The changes exceeded one transaction of the journal, they are on several
    /// filesystems, or a filesystem has no journal. A crash in between would have left a part of
    /// them.
    InParts,
}

/// Writes the changes and the new UUIDs of filesystems, and closes the filesystem for writing. On
/// success, all changes are durable. On error, none is written if the filesystem has a journal.
/// `progress` is called with the number of bytes of contents that were just written, and with the
/// total number.
///
/// # Errors
/// `NoSpace` before anything is written, if the lack of space can be predicted; `Cancelled` if
/// `progress` requests it; the errors of writing.
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
            Applied::OneTransaction
        };
        target.close().map(|()| applied)
    });
    applied.inspect_err(|_| {
        // A later call of `abandon` returns the same to a caller who needs to know.
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
        progress: &mut |bytes| progress(bytes, total),
    };
    // Hard links are created after all files exist.
    let (names, files): (Vec<&Change>, Vec<&Change>) = changes
        .iter()
        .partition(|change| first_name(change).is_some());
    let mut all = files.into_iter().chain(names);
    all.try_for_each(|change| writer.write(change))
}

/// Checks that the guest has space for the changes, as far as that can be predicted.
///
/// # Errors
/// `NoSpace` with the required and the free number of bytes.
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
    let reason = format!("no space left: the plan needs {needed} bytes, and {free} bytes are free");
    Err(Error::new(ErrorKind::NoSpace, reason)
        .in_file(guest.image_path())
        .with_hint("enlarge the disk first, as with `diskfs resize`, or omit large files"))
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
        Some(EntryKind::File(contents)) => contents.size_bytes(),
        _ => 0,
    }
}

/// Returns the file to which the path becomes a hard link.
fn first_name(change: &Change) -> Option<&str> {
    match &change.after.as_ref()?.kind {
        EntryKind::File(Contents::HardLinkTo(first)) => Some(first),
        _ => None,
    }
}

struct Writer<'a> {
    fs: &'a dyn FsWrite,
    target: &'a WritableFilesystem,
    /// The callback for the number of bytes of contents that were just written.
    progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Writer<'_> {
    fn write(&mut self, change: &Change) -> Result<()> {
        let target = self.target;
        let failed = |error: vfs::Error| target.in_image(error.in_path(&change.path));
        let path = change.path.as_bytes();
        match (&change.before, &change.after) {
            (Some(_), None) => self.remove(path).map_err(failed),
            (before, Some(after)) => {
                let is_same_file = before
                    .as_ref()
                    .is_some_and(|before| is_same_file(before, after));
                if before.is_some() && !is_same_file {
                    self.remove(path).map_err(failed)?;
                }
                if let Some(first) = first_name(change) {
                    self.link(path, first).map_err(failed)
                } else if is_same_file {
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
            ControlFlow::Continue(())
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
            EntryKind::File(_) => NewKind::Regular,
            EntryKind::Directory => NewKind::Directory,
            EntryKind::Symlink(target) => NewKind::Symlink(target.as_bytes()),
            EntryKind::Other(_) => {
                let reason = "creating devices, FIFOs and sockets is not supported";
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
        // The set-group-ID bit or the default ACL of the directory may have changed the attributes.
        let made = self.fs.metadata(inode)?;
        let wanted = (entry.permissions, entry.uid, entry.gid);
        let is_symlink = matches!(entry.kind, EntryKind::Symlink(_));
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

    /// Writes the contents of a regular file. Does nothing for entries without contents.
    fn fill(&mut self, inode: InodeNumber, entry: &Entry, path: &[u8]) -> Result<()> {
        let target = self.target;
        let failed = |error: vfs::Error| target.in_image(error.in_path(path));
        let progress = &mut *self.progress;
        match &entry.kind {
            EntryKind::File(Contents::Bytes(bytes)) => {
                replace_contents(self.fs, inode, &mut &bytes[..], progress).map_err(failed)?;
            }
            EntryKind::File(Contents::Host { path, .. }) => {
                let file = File::open(path).map_err(|e| Error::from(e).in_file(path))?;
                replace_contents(self.fs, inode, &mut &file, progress).map_err(failed)?;
            }
            EntryKind::File(Contents::Part(part)) => {
                replace_contents(self.fs, inode, &mut part.reader(), progress).map_err(failed)?;
            }
            EntryKind::File(Contents::Allocated { start, size_bytes }) => {
                self.allocate(inode, start, *size_bytes).map_err(failed)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes these bytes, followed by allocated zeroes, so that the file has no holes.
    fn allocate(&self, inode: InodeNumber, start: &[u8], size_bytes: u64) -> vfs::Result<()> {
        let progress = &mut |_| ControlFlow::Continue(());
        let rest = size_bytes.saturating_sub(start.len() as u64);
        replace_contents(self.fs, inode, &mut &*start, progress)?;
        let allocated = self.fs.fallocate(inode, 0, size_bytes, Fallocate::Allocate);
        match allocated {
            Err(error) if error.kind() == vfs::ErrorKind::Unsupported => {
                let mut writer = FileWriter::new(self.fs, inode, start.len() as u64);
                writer.write_from(&mut io::repeat(0).take(rest), progress)
            }
            allocated => allocated,
        }
    }

    /// Sets the extended attributes. Those that the filesystem does not support are skipped: the
    /// guest could not use them, either.
    fn set_xattrs(&self, inode: InodeNumber, entry: &Entry) -> vfs::Result<()> {
        for (name, value) in &entry.xattrs {
            let set = self
                .fs
                .set_xattr(inode, name.as_bytes(), value, SetXattr::Any);
            match set {
                Err(error) if error.kind() == vfs::ErrorKind::Unsupported => {
                    tracing::warn!(
                        name,
                        "the filesystem does not support this extended attribute"
                    );
                }
                set => set?,
            }
        }
        Ok(())
    }
}

/// Returns true if the existing file is kept, with everything that the change does not mention.
fn is_same_file(before: &Entry, after: &Entry) -> bool {
    match (&before.kind, &after.kind) {
        (EntryKind::File(_), EntryKind::File(Contents::HardLinkTo(_))) => false,
        (EntryKind::File(_), EntryKind::File(_)) => true,
        (EntryKind::Directory, EntryKind::Directory) => !after.is_new,
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
