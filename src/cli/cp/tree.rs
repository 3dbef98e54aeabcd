//! Copying a file, or a directory with what is in it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::{Mode, XattrFlags, fsetxattr, futimens};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};

use diskfs::vfs::{FileExtentKind, FileType, Follow, InodeNumber, Metadata};
use diskfs::{Error, ErrorKind, Filesystem, Result};

use super::place::{self, Directory, Ownership};
use crate::cli::copy::{self, Buffer};
use crate::cli::progress::Progress;
use crate::cli::session::{Located, Session};
use crate::cli::show::name::{join, text};
use crate::cli::sorted_walk::{Entry, SortedWalk};

/// How much of a file besides its contents is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preserve {
    /// The permissions, as far as the umask lets them through.
    Nothing,
    /// Modes, times, extended attributes and hard links; owners as root.
    All,
}

/// Copies files below one directory of the host.
#[derive(Debug)]
pub(super) struct Copier<'a> {
    root: &'a Directory,
    preserve: Preserve,
    progress: Progress,
    buffer: Buffer,
    is_root: bool,
    umask: u32,
    /// Where below `root` a file with several names was copied to first. By image, because numbers
    /// are an image's own.
    links: HashMap<(PathBuf, String, InodeNumber), Vec<u8>>,
}

/// A directory that is being filled; what is set at last (times, a mode that may forbid writing)
/// waits until it is full.
struct Level {
    directory: Rc<Directory>,
    /// Below the root.
    path: Vec<u8>,
    metadata: Metadata,
}

impl<'a> Copier<'a> {
    pub(super) fn new(root: &'a Directory, preserve: Preserve, progress: Progress) -> Self {
        raise_open_files();
        let mask = umask(Mode::empty());
        umask(mask);
        Self {
            root,
            preserve,
            progress,
            buffer: Buffer::default(),
            is_root: geteuid().is_root(),
            umask: mask.as_raw_mode(),
            links: HashMap::new(),
        }
    }

    /// Copies a file or a directory, as `name` or under its own name. What fails within a directory
    /// is reported, and the rest is copied.
    pub(super) fn copy(
        &mut self,
        session: &mut Session,
        place: &Located,
        name: Option<&[u8]>,
        recursive: bool,
    ) -> Result<()> {
        let filesystem = &place.filesystem;
        let follow = if recursive {
            Follow::AllButLast
        } else {
            Follow::All
        };
        let start = filesystem.resolve(&place.path, follow)?;
        let metadata = filesystem
            .as_fs()
            .metadata(start)
            .map_err(|e| filesystem.in_image(e))?;
        if metadata.is_dir() && !recursive {
            let error = diskfs::vfs::Error::from(diskfs::vfs::ErrorKind::IsADirectory);
            let error = error
                .in_path(&place.path)
                .hint("give -r to copy it with what is in it");
            return Err(filesystem.in_image(error));
        }
        let name = match name.or_else(|| base_name(&place.path)) {
            Some(name) => name.to_vec(),
            // The image's root: what is in it goes into the directory itself.
            None => b".".to_vec(),
        };
        let mut levels: Vec<Level> = Vec::new();
        for entry in SortedWalk::new(filesystem.as_fs(), start) {
            let outcome = match entry {
                Ok(entry) => {
                    self.leave(session, filesystem, &mut levels, entry.depth);
                    self.copy_entry(session, filesystem, &mut levels, &entry, &name)
                }
                Err(error) => Err(filesystem.in_image(error)),
            };
            if let Err(error) = outcome {
                session.report(&error);
            }
        }
        self.leave(session, filesystem, &mut levels, 0);
        Ok(())
    }

    /// Takes away the progress; says how many files and bytes there were.
    pub(super) fn finish(self) -> (u64, u64) {
        let done = (self.progress.files(), self.progress.bytes());
        self.progress.finish();
        done
    }

    /// Finishes the directories that are deeper than `depth`.
    fn leave(
        &self,
        session: &mut Session,
        filesystem: &Filesystem,
        levels: &mut Vec<Level>,
        depth: usize,
    ) {
        while levels.len() > depth {
            let Some(level) = levels.pop() else {
                return;
            };
            if let Err(error) = self.finish_directory(session, filesystem, &level) {
                session.report(&error);
            }
        }
    }

    fn copy_entry(
        &mut self,
        session: &mut Session,
        filesystem: &Filesystem,
        levels: &mut Vec<Level>,
        entry: &Entry,
        top_name: &[u8],
    ) -> Result<()> {
        let metadata = &entry.metadata;
        let name = if entry.depth == 0 {
            top_name
        } else {
            entry.name()
        };
        let (parent, parent_path) = match levels.last() {
            // The parent could not be made, which was told; what is in it has no place to go.
            None if entry.depth > 0 => return Ok(()),
            Some(level) if levels.len() < entry.depth => {
                let _ = level;
                return Ok(());
            }
            Some(level) => (Some(Rc::clone(&level.directory)), level.path.clone()),
            None => (None, Vec::new()),
        };
        let directory = parent.as_deref().unwrap_or(self.root);
        let path = join(&parent_path, name);
        self.progress.file();
        match metadata.file_type {
            FileType::Directory => {
                let made = Rc::new(directory.make_directory(name)?);
                levels.push(Level {
                    directory: made,
                    path,
                    metadata: metadata.clone(),
                });
                Ok(())
            }
            _ if self.link(filesystem, directory, name, metadata) => Ok(()),
            FileType::Regular => {
                self.copy_file(session, filesystem, directory, name, metadata)?;
                self.remember(filesystem, metadata, path);
                Ok(())
            }
            FileType::Symlink => {
                let target = filesystem.as_fs().read_link(metadata.inode);
                directory.make_symlink(name, &target.map_err(|e| filesystem.in_image(e))?)?;
                self.remember(filesystem, metadata, path);
                self.keep_special(session, filesystem, directory, name, metadata)
            }
            _ => {
                directory.make_special(name, metadata)?;
                self.remember(filesystem, metadata, path);
                self.keep_special(session, filesystem, directory, name, metadata)
            }
        }
    }

    fn link_key(filesystem: &Filesystem, inode: InodeNumber) -> (PathBuf, String, InodeNumber) {
        (
            filesystem.image_path().to_owned(),
            filesystem.volume().to_owned(),
            inode,
        )
    }

    /// Makes a further name of a file that was copied before, if it was.
    fn link(
        &self,
        filesystem: &Filesystem,
        directory: &Directory,
        name: &[u8],
        metadata: &Metadata,
    ) -> bool {
        if self.preserve == Preserve::Nothing || metadata.links < 2 {
            return false;
        }
        let first = self.links.get(&Self::link_key(filesystem, metadata.inode));
        first.is_some_and(|first| directory.link(name, self.root, first))
    }

    fn remember(&mut self, filesystem: &Filesystem, metadata: &Metadata, path: Vec<u8>) {
        if self.preserve == Preserve::All && metadata.links > 1 {
            let key = Self::link_key(filesystem, metadata.inode);
            self.links.entry(key).or_insert(path);
        }
    }

    fn copy_file(
        &mut self,
        session: &mut Session,
        filesystem: &Filesystem,
        directory: &Directory,
        name: &[u8],
        metadata: &Metadata,
    ) -> Result<()> {
        let file = directory.make_file(name, filesystem.image_path())?;
        let in_place = |e: Error| e.in_file(directory.path_of(name));
        self.copy_contents(filesystem, &file, metadata)
            .map_err(in_place)?;
        let host = |e: rustix::io::Errno| in_place(io::Error::from(e).into());
        place::own(&file, self.ownership(metadata)).map_err(host)?;
        if self.preserve == Preserve::All {
            self.keep_xattrs(session, filesystem, metadata, |name, value| {
                Ok(fsetxattr(&file, name, value, XattrFlags::empty())?)
            })?;
            futimens(&file, &place::times(metadata)).map_err(host)?;
        }
        Ok(())
    }

    /// Copies what is stored; what is not stays a hole.
    fn copy_contents(
        &mut self,
        filesystem: &Filesystem,
        file: &File,
        metadata: &Metadata,
    ) -> Result<()> {
        // First: a disk without room for holes, or a size that no file can have, says so at once.
        file.set_len(metadata.size_bytes)?;
        let inode = metadata.inode;
        let extents = filesystem.as_fs().extents_of(inode, 0);
        for extent in extents.map_err(|e| filesystem.in_image(e))? {
            let extent = extent.map_err(|e| filesystem.in_image(e))?;
            if extent.kind == FileExtentKind::Hole {
                continue;
            }
            let mut at = extent.offset;
            let range = (extent.offset, extent.len_bytes);
            let progress = &mut self.progress;
            let copied = copy::range(filesystem, inode, range, &mut self.buffer, |piece| {
                file.write_all_at(piece, at)?;
                at += piece.len() as u64;
                progress.advance(piece.len() as u64);
                Ok(())
            })?;
            if copied < extent.len_bytes {
                let reason = "file is shorter than its inode says";
                return Err(Error::new(ErrorKind::Corrupt, reason));
            }
        }
        Ok(())
    }

    /// Without `--preserve`, as cp(1) has it: the umask counts. A set-user-id bit means something
    /// only with the owner that it was set for.
    fn ownership(&self, metadata: &Metadata) -> Ownership {
        let mode = u32::from(metadata.permissions);
        match (self.preserve, self.is_root) {
            (Preserve::All, true) => Ownership {
                mode,
                owner: Some((metadata.uid, metadata.gid)),
            },
            (Preserve::All, false) => Ownership {
                mode: mode & 0o1777,
                owner: None,
            },
            (Preserve::Nothing, _) => Ownership {
                mode: mode & 0o777 & !self.umask,
                owner: None,
            },
        }
    }

    fn finish_directory(
        &self,
        session: &mut Session,
        filesystem: &Filesystem,
        level: &Level,
    ) -> Result<()> {
        level
            .directory
            .set_ownership(self.ownership(&level.metadata))?;
        if self.preserve == Preserve::All {
            self.keep_xattrs(session, filesystem, &level.metadata, |name, value| {
                level.directory.set_xattr(name, value)
            })?;
            level.directory.set_times(&level.metadata)?;
        }
        Ok(())
    }

    fn keep_special(
        &self,
        session: &mut Session,
        filesystem: &Filesystem,
        directory: &Directory,
        name: &[u8],
        metadata: &Metadata,
    ) -> Result<()> {
        if self.preserve == Preserve::Nothing {
            return Ok(());
        }
        self.keep_xattrs(session, filesystem, metadata, |xattr, value| {
            directory.set_special_xattr(name, xattr, value)
        })?;
        directory.set_special(name, metadata, self.ownership(metadata))
    }

    /// Sets extended attributes. One that this user or the host's filesystem may not have is warned
    /// of, once for each name: as with cp -a it is no failure.
    fn keep_xattrs(
        &self,
        session: &mut Session,
        filesystem: &Filesystem,
        metadata: &Metadata,
        set: impl Fn(&[u8], &[u8]) -> io::Result<()>,
    ) -> Result<()> {
        for (name, value) in filesystem.xattrs_of(metadata.inode)? {
            if let Err(error) = set(&name, &value) {
                let error = Error::from(error).reason();
                let name = text(&name);
                session.warn(&format!(
                    "extended attribute {name} is not kept here: {error}"
                ));
            }
        }
        Ok(())
    }
}

/// The last name of a path; `None` for the root, and for what ends in `.` or `..`.
fn base_name(path: &[u8]) -> Option<&[u8]> {
    let mut names = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty());
    names
        .next_back()
        .filter(|name| *name != b"." && *name != b"..")
}

/// Each directory on the way down stays open, and a tree may be deeper than the usual limit.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised); // Without it, a very deep tree fails and says so.
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_no_name() {
        for (path, name) in [
            ("/etc/fstab", Some("fstab")),
            ("/etc/", Some("etc")),
            ("/", None),
            ("", None),
            ("/etc/..", None),
        ] {
            assert_eq!(
                base_name(path.as_bytes()),
                name.map(str::as_bytes),
                "{path}"
            );
        }
    }
}
