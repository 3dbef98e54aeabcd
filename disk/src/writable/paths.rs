//! Changes by path.

use std::ops::ControlFlow;
use std::path::Path;

use diskfs_vfs::copy_in::{self, CopyInOptions, CopyTo};
use diskfs_vfs::copy_out::{OnError, Summary};
use diskfs_vfs::{
    self as vfs, FileWriter, Follow, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind,
    RenameMode, SetMetadata, SetTime, SetXattr, edit, resolve, resolve_parent,
};

use super::{WritableFile, WritableFilesystem};
use crate::Result;
use crate::file::check_is_regular;

/// The permissions of new regular files.
const FILE_MODE: u16 = 0o644;

/// The permissions of new directories.
const DIRECTORY_MODE: u16 = 0o755;

/// Changes by path. Paths are as for [`Filesystem`](crate::Filesystem): bytes, from the root on,
/// and no symlink leads out of the filesystem. New files belong to root.
impl WritableFilesystem {
    /// Writes a regular file: `contents` replaces the old contents; owner, mode and attributes are
    /// kept. A missing file is created with mode 0644.
    ///
    /// # Errors
    /// `NotFound` if the directory is missing; `IsADirectory`; `Invalid` for another type of file;
    /// `NoSpace`.
    pub fn write(&self, path: impl AsRef<[u8]>, contents: impl AsRef<[u8]>) -> Result<()> {
        self.at(path, |fs, path| {
            let inode = regular_file(fs, path)?;
            fs.set_len(inode, 0)?;
            FileWriter::new(fs, inode, 0).write_all(contents.as_ref())
        })
    }

    /// Opens a regular file for reading and writing. A missing file is created, and an existing one
    /// is truncated.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn create(&self, path: impl AsRef<[u8]>) -> Result<WritableFile> {
        let inode = self.at(path, |fs, path| {
            let inode = regular_file(fs, path)?;
            fs.set_len(inode, 0)?;
            Ok(inode)
        })?;
        Ok(WritableFile::new(self.clone(), inode))
    }

    /// Opens an existing regular file for reading and writing.
    ///
    /// # Errors
    /// `NotFound`; `IsADirectory`; `Invalid` for another type of file.
    pub fn open(&self, path: impl AsRef<[u8]>) -> Result<WritableFile> {
        let inode = self.at(path, |fs, path| {
            let inode = resolve(fs, path, Follow::All)?;
            check_is_regular(&fs.metadata(inode)?)?;
            Ok(inode)
        })?;
        Ok(WritableFile::new(self.clone(), inode))
    }

    /// Creates a directory with mode 0755.
    ///
    /// # Errors
    /// `Exists`; `NotFound` if the parent directory is missing.
    pub fn mkdir(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.make(path, NewKind::Directory, DIRECTORY_MODE)
    }

    /// Creates a directory and its missing parents, with mode 0755. Existing directories are not
    /// changed.
    ///
    /// # Errors
    /// `Exists`, `NotADirectory` if another type of file is in the way.
    pub fn mkdir_all(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.at(path, |fs, path| {
            let attributes = NewAttributes::for_root(DIRECTORY_MODE);
            edit::make_dirs(fs, path, &attributes, &mut |_| {})?;
            Ok(())
        })
    }

    /// Creates a symlink to `target`, which need not exist.
    ///
    /// # Errors
    /// `Exists`; `NotFound` if the directory is missing.
    pub fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        self.make(path, NewKind::Symlink(target.as_ref()), 0o777)
    }

    /// Creates the hard link `path` to the file at `original`.
    ///
    /// # Errors
    /// `Exists`; `Denied` for a directory.
    pub fn hard_link(&self, original: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<()> {
        self.at(path, |fs, path| {
            let inode = resolve(fs, original.as_ref(), Follow::AllButLast)?;
            let (dir, name) = resolve_parent(fs, path)?;
            fs.link(inode, dir, &name)
        })
    }

    /// Removes a file, a symlink (not its target) or an empty directory.
    ///
    /// # Errors
    /// `NotFound`; `Other` for a directory that is not empty.
    pub fn remove(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.at(path, edit::remove)
    }

    /// Removes a file or a directory with everything below it; symlinks are not followed. A file
    /// that can't be removed stays, with its parent directories; all others are removed.
    ///
    /// # Errors
    /// `NotFound`, `Denied` for an immutable file. Of several errors the first one is returned.
    pub fn remove_all(&self, path: impl AsRef<[u8]>) -> Result<()> {
        self.remove_all_with_progress(path, &mut |_| ControlFlow::Continue(()))
    }

    /// Removes a file or a directory like [`remove_all`](Self::remove_all), and calls `progress`
    /// with the path of each removed file. It can return
    /// [`CancellationToken::flow`](crate::CancellationToken::flow).
    ///
    /// # Errors
    /// As [`remove_all`](Self::remove_all); `Cancelled` if `progress` ended the removal, in which
    /// case the remaining files are kept.
    pub fn remove_all_with_progress(
        &self,
        path: impl AsRef<[u8]>,
        progress: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.at(path, |fs, path| {
            let mut failed = None;
            let removed = edit::remove_tree(fs, path, &mut |removed| match removed {
                edit::Removed::File(path) | edit::Removed::Directory(path) => progress(path),
                edit::Removed::Failed(error) => {
                    failed.get_or_insert(error);
                    ControlFlow::Continue(())
                }
            });
            removed.and(failed.map_or(Ok(()), Err))
        })
    }

    /// Renames a file atomically. An existing file at `to` is replaced.
    ///
    /// # Errors
    /// `NotFound`; for a target that can't be replaced `IsADirectory`, `NotADirectory`, or `Other`
    /// if it is a directory that is not empty.
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.at(from, |fs, from| {
            let (dir, name) = resolve_parent(fs, from)?;
            let (to_dir, to_name) = resolve_parent(fs, to.as_ref())?;
            fs.rename(dir, &name, to_dir, &to_name, RenameMode::Replace)
        })
    }

    /// Sets the low 12 bits of a file's mode. A symlink is followed.
    ///
    /// # Errors
    /// `NotFound`; `Denied` for an immutable file.
    pub fn set_permissions(&self, path: impl AsRef<[u8]>, permissions: u16) -> Result<()> {
        let change = SetMetadata {
            permissions: Some(permissions),
            ..SetMetadata::default()
        };
        self.change(path, Follow::All, |_| change)
    }

    /// Sets the owner and the group of a file; `None` keeps the present one. Symlinks are not
    /// followed. As with chown(2), an executable loses its set-user-ID and set-group-ID bits.
    ///
    /// # Errors
    /// As [`set_permissions`](Self::set_permissions).
    pub fn chown(&self, path: impl AsRef<[u8]>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.change(path, Follow::AllButLast, |metadata| {
            let permissions = metadata.permissions_after_chown();
            SetMetadata {
                uid,
                gid,
                permissions: (permissions != metadata.permissions).then_some(permissions),
                ..SetMetadata::default()
            }
        })
    }

    /// Sets the times of a file; `None` keeps the present one. Symlinks are not followed.
    ///
    /// # Errors
    /// As [`set_permissions`](Self::set_permissions).
    pub fn set_times(
        &self,
        path: impl AsRef<[u8]>,
        accessed: Option<SetTime>,
        modified: Option<SetTime>,
    ) -> Result<()> {
        let change = SetMetadata {
            accessed,
            modified,
            ..SetMetadata::default()
        };
        self.change(path, Follow::AllButLast, |_| change)
    }

    /// Sets an extended attribute by its full name: `user.origin`. Symlinks are not followed.
    ///
    /// # Errors
    /// `Unsupported` for a namespace that the filesystem does not have; `NoSpace`.
    pub fn set_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.at(path, |fs, path| {
            let inode = resolve(fs, path, Follow::AllButLast)?;
            fs.set_xattr(inode, name.as_ref(), value.as_ref(), SetXattr::Any)
        })
    }

    /// Removes an extended attribute. Symlinks are not followed.
    ///
    /// # Errors
    /// `Other` if the attribute does not exist.
    pub fn remove_xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<()> {
        self.at(path, |fs, path| {
            let inode = resolve(fs, path, Follow::AllButLast)?;
            fs.remove_xattr(inode, name.as_ref())
        })
    }

    /// Copies a file or a directory tree of the host to `path`, with all metadata: owners, modes,
    /// times, attributes, holes and hard links. A directory is merged into an existing one. The
    /// first failure ends the copy.
    ///
    /// `progress` is called for each file, and after each MiB of a large file, with the path within
    /// the copy. It can return [`CancellationToken::flow`](crate::CancellationToken::flow).
    ///
    /// # Errors
    /// `NotFound`, `Denied` on the host; `NoSpace`; `Cancelled` if `progress` returns
    /// [`ControlFlow::Break`].
    pub fn copy_from(
        &self,
        host: impl AsRef<Path>,
        path: impl AsRef<[u8]>,
        progress: &mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
    ) -> Result<Summary> {
        let options = CopyInOptions {
            on_error: OnError::Stop,
            ..CopyInOptions::default()
        };
        self.at(path, |fs, path| {
            let existing = match resolve(fs, path, Follow::All) {
                Ok(inode) if fs.metadata(inode)?.is_dir() => Some(inode),
                _ => None,
            };
            let parent;
            let to = if let (Some(dir), true) = (existing, host.as_ref().is_dir()) {
                CopyTo::Directory(dir)
            } else {
                parent = resolve_parent(fs, path)?;
                CopyTo::Name(parent.0, &parent.1)
            };
            copy_in::copy_in(fs, host.as_ref(), to, &options, progress)
        })
    }

    /// Makes all changes so far durable.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub fn sync(&self) -> Result<()> {
        self.fs.sync().map_err(|e| self.in_image(e))
    }

    fn make(&self, path: impl AsRef<[u8]>, kind: NewKind<'_>, permissions: u16) -> Result<()> {
        self.at(path, |fs, path| {
            let (dir, name) = resolve_parent(fs, path)?;
            fs.create(dir, &name, kind, &NewAttributes::for_root(permissions))?;
            Ok(())
        })
    }

    fn change(
        &self,
        path: impl AsRef<[u8]>,
        follow: Follow,
        change: impl FnOnce(&Metadata) -> SetMetadata,
    ) -> Result<()> {
        self.at(path, |fs, path| {
            let inode = resolve(fs, path, follow)?;
            fs.set_metadata(inode, &change(&fs.metadata(inode)?))
        })
    }

    /// Runs an operation on the file at a path, which errors name.
    fn at<T>(
        &self,
        path: impl AsRef<[u8]>,
        act: impl FnOnce(&dyn FsWrite, &[u8]) -> vfs::Result<T>,
    ) -> Result<T> {
        let path = path.as_ref();
        act(&*self.fs, path).map_err(|e| self.in_image(e.in_path(path)))
    }
}

/// Returns the regular file at `path`, following symlinks. A missing file is created.
fn regular_file(fs: &dyn FsWrite, path: &[u8]) -> vfs::Result<InodeNumber> {
    let inode = edit::find_or_create(fs, path, &NewAttributes::for_root(FILE_MODE))?;
    check_is_regular(&fs.metadata(inode)?)?;
    Ok(inode)
}
