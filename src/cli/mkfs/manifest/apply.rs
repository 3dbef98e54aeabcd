//! The application of a manifest to a new filesystem.

use diskfs::vfs::{
    FileType, Follow, FsWrite, InodeNumber, NewAttributes, NewKind, SetMetadata, resolve,
    resolve_parent,
};
use diskfs::{Error, ErrorKind, Result, TreeUsage};
use std::path::Path;

use super::{Entry, Keywords, Manifest};

impl Manifest {
    /// Gives the files their owners and modes, and creates missing directories, symlinks and device
    /// nodes. A device node replaces a placeholder, as fakeroot makes them.
    ///
    /// # Errors
    /// `NotFound` for a regular file that the tree lacks; `Invalid` for another type of file.
    pub(in crate::cli::mkfs) fn apply(&self, fs: &dyn FsWrite) -> Result<()> {
        for entry in &self.entries {
            entry.apply(fs).map_err(|error| entry.at(&error))?;
        }
        Ok(())
    }

    /// Adds the files that the manifest creates to the usage of a directory of the host.
    pub(in crate::cli::mkfs) fn add_to(&self, usage: &mut TreeUsage, directory: &Path) {
        for entry in &self.entries {
            if entry.host_path(directory).symlink_metadata().is_err() {
                // As for a directory, which needs at least as much as any of these.
                usage.add_directory([entry.path.len()]);
            }
        }
    }

    /// Fails if the directory lacks a regular file of the manifest.
    pub(in crate::cli::mkfs) fn check(&self, directory: &Path) -> Result<()> {
        for entry in &self.entries {
            let keywords = &entry.keywords;
            let is_made = keywords.new_kind().is_some() || keywords.is_optional;
            if !is_made && entry.host_path(directory).symlink_metadata().is_err() {
                return Err(entry.at(&missing()).in_file(directory));
            }
        }
        Ok(())
    }
}

fn missing() -> Error {
    let reason = "the manifest names a file that the directory lacks";
    let hint = "add the keyword `optional`, or remove the line";
    Error::new(ErrorKind::NotFound, reason).with_hint(hint)
}

impl Entry {
    fn host_path(&self, directory: &Path) -> std::path::PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        directory.join(std::ffi::OsStr::from_bytes(&self.path))
    }

    /// Adds the path to an error.
    fn at(&self, error: &Error) -> Error {
        let path = String::from_utf8_lossy(&self.path).into_owned();
        let reason = format!("/{}: {}", path.escape_debug(), error.reason());
        let named = Error::new(error.kind(), reason);
        match error.next_step() {
            Some(step) => named.with_hint(step),
            None => named,
        }
    }

    fn apply(&self, fs: &dyn FsWrite) -> Result<()> {
        let path = [b"/", &self.path[..]].concat();
        let Some(inode) = self.find_or_create(fs, &path)? else {
            return Ok(());
        };
        let keywords = &self.keywords;
        let is_symlink = fs.metadata(inode)?.file_type == FileType::Symlink;
        let change = SetMetadata {
            uid: keywords.uid,
            gid: keywords.gid,
            permissions: keywords.permissions.filter(|_| !is_symlink),
            ..SetMetadata::default()
        };
        Ok(fs.set_metadata(inode, &change)?)
    }

    /// Returns the file, which is created if it is missing; `None` if it may be missing.
    fn find_or_create(&self, fs: &dyn FsWrite, path: &[u8]) -> Result<Option<InodeNumber>> {
        let wanted = self.keywords.file_type;
        match resolve(fs, path, Follow::AllButLast) {
            Ok(inode) => {
                let found = fs.metadata(inode)?.file_type;
                if wanted.is_none_or(|wanted| wanted == found) {
                    return Ok(Some(inode));
                }
                if found != FileType::Regular || !self.keywords.is_special() {
                    let reason =
                        "the type in the manifest is not that of the file in the directory";
                    return Err(Error::new(ErrorKind::Invalid, reason));
                }
                let (parent, name) = resolve_parent(fs, path)?;
                fs.unlink(parent, &name)?;
            }
            Err(error) if error.kind() == diskfs::vfs::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let Some(kind) = self.keywords.new_kind() else {
            return if self.keywords.is_optional {
                Ok(None)
            } else {
                Err(missing())
            };
        };
        let (parent, name) = resolve_parent(fs, path)?;
        let mode = self.keywords.permissions.unwrap_or(0o644);
        let attributes = NewAttributes::for_root(mode);
        Ok(Some(fs.create(parent, &name, kind, &attributes)?))
    }
}

impl Keywords {
    /// Returns true for a type of file that a host without root can't create.
    fn is_special(&self) -> bool {
        matches!(
            self.file_type,
            Some(
                FileType::CharacterDevice
                    | FileType::BlockDevice
                    | FileType::Fifo
                    | FileType::Socket
            )
        )
    }

    /// Returns the file to create, if the manifest says enough about it.
    fn new_kind(&self) -> Option<NewKind<'_>> {
        Some(match self.file_type? {
            FileType::Regular => return None,
            FileType::Directory => NewKind::Directory,
            FileType::Symlink => NewKind::Symlink(self.link.as_deref()?),
            FileType::CharacterDevice => NewKind::CharacterDevice(self.device?),
            FileType::BlockDevice => NewKind::BlockDevice(self.device?),
            FileType::Fifo => NewKind::Fifo,
            FileType::Socket => NewKind::Socket,
        })
    }
}
