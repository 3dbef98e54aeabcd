//! One file after the other.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::contents::Contents;
use super::host::{Found, names_in};
use super::{CopyInOptions, CopyTo, attributes};
use crate::copy_out::{Existing, OnError, Summary, count};
use crate::{
    Error, ErrorKind, FileType, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind, Result,
};

/// Read, write and execute for all.
const RWX: u16 = 0o777;

/// A directory of the host that is being copied.
struct Level {
    found: Found,
    dir: OwnedFd,
    names: std::vec::IntoIter<OsString>,
    into: InodeNumber,
    /// How much of the path leads to it.
    path_len: usize,
}

pub(super) struct Copy<'a> {
    fs: &'a dyn FsWrite,
    options: &'a CopyInOptions,
    progress: &'a mut dyn FnMut(&[u8], &Summary),
    levels: Vec<Level>,
    /// The path within the copy of what is looked at.
    path: Vec<u8>,
    /// Files with several names, by device and inode, the first of which is copied.
    linked: HashMap<(u64, u64), InodeNumber>,
    /// Files that were there and have several names: filled once. The next name gets a new file.
    filled: HashSet<InodeNumber>,
    contents: Contents,
    summary: Summary,
}

impl<'a> Copy<'a> {
    pub(super) fn new(
        fs: &'a dyn FsWrite,
        options: &'a CopyInOptions,
        progress: &'a mut dyn FnMut(&[u8], &Summary),
    ) -> Self {
        Self {
            fs,
            options,
            progress,
            levels: Vec::new(),
            path: Vec::new(),
            linked: HashMap::new(),
            filled: HashSet::new(),
            contents: Contents::default(),
            summary: Summary::default(),
        }
    }

    pub(super) fn run(mut self, source: &Path, to: CopyTo<'_>) -> Result<Summary> {
        let found = Found::source(source, self.options.source_link)?;
        match to {
            CopyTo::Name(dir, name) => {
                let copied = self.copy(found, dir, name);
                self.note(copied)?;
            }
            CopyTo::Directory(_) if found.file_type != FileType::Directory => {
                return Err(ErrorKind::NotADirectory.into());
            }
            CopyTo::Directory(into) => self.enter(found, into)?,
        }
        while let Some(level) = self.levels.last_mut() {
            self.path.truncate(level.path_len);
            let Some(name) = level.names.next() else {
                self.leave()?;
                continue;
            };
            let into = level.into;
            let found = Found::in_dir(level.dir.as_fd(), &name);
            self.push_name(&name);
            let copied = found.and_then(|found| self.copy(found, into, name.as_bytes()));
            self.note(copied)?;
        }
        Ok(self.summary)
    }

    fn push_name(&mut self, name: &OsStr) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.as_bytes());
    }

    /// Ends the copy on an error, or remembers it.
    fn note(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome.map_err(|error| error.in_path(&self.path)) else {
            return Ok(());
        };
        if self.options.on_error == OnError::Stop || error.kind().is_halfway() {
            return Err(error);
        }
        self.summary.note(error);
        Ok(())
    }

    fn copy(&mut self, found: Found, dir: InodeNumber, name: &[u8]) -> Result<()> {
        if self.options.refused.contains(&found.id()) {
            let reason = "is the image itself, which would grow for ever";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        if found.file_type == FileType::Directory {
            let into = self.directory(&found, dir, name)?;
            return self.enter(found, into);
        }
        let has_more_names = found.stat.st_nlink > 1;
        if has_more_names && self.link_to_first(&found, dir, name)? {
            return Ok(());
        }
        let inode = match found.file_type {
            FileType::Regular => self.copy_file(&found, dir, name)?,
            _ => self.copy_other(&found, dir, name)?,
        };
        attributes::apply(
            self.fs,
            &found,
            inode,
            self.options.preserve,
            &mut self.summary,
        )?;
        if has_more_names {
            self.linked.insert(found.id(), inode);
        }
        (self.progress)(&self.path, &self.summary);
        Ok(())
    }

    /// The directory that a copy of one goes to, which is made if it isn't there.
    fn directory(&self, found: &Found, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        match self.there(dir, name)? {
            Some(there) if there.is_dir() => Ok(there.inode),
            Some(_) => Err(ErrorKind::NotADirectory.into()),
            None => {
                let attributes = self.attributes(found);
                self.fs.create(dir, name, NewKind::Directory, &attributes)
            }
        }
    }

    fn enter(&mut self, found: Found, into: InodeNumber) -> Result<()> {
        let source = found.read()?;
        let names = names_in(&source)?.into_iter();
        count(&mut self.summary.directories);
        (self.progress)(&self.path, &self.summary);
        self.levels.push(Level {
            found,
            dir: source,
            names,
            into,
            path_len: self.path.len(),
        });
        Ok(())
    }

    /// Leaves the innermost directory, which gets its attributes now that nothing more is made in
    /// it.
    fn leave(&mut self) -> Result<()> {
        let Some(level) = self.levels.pop() else {
            return Ok(());
        };
        let Self {
            fs,
            options,
            summary,
            ..
        } = self;
        let applied = attributes::apply(*fs, &level.found, level.into, options.preserve, summary);
        self.note(applied)
    }

    /// What a new file has from the start.
    fn attributes(&self, found: &Found) -> NewAttributes {
        NewAttributes {
            permissions: found.permissions() & RWX,
            umask: self.options.umask,
            uid: self.options.uid,
            gid: self.options.gid,
        }
    }

    /// What has the name already.
    fn there(&self, dir: InodeNumber, name: &[u8]) -> Result<Option<Metadata>> {
        match self.fs.lookup(dir, name) {
            Ok(inode) => self.fs.metadata(inode).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes away what has the name, if it may.
    fn make_room(&self, dir: InodeNumber, name: &[u8], there: &Metadata) -> Result<()> {
        if self.options.existing == Existing::Keep {
            return Err(ErrorKind::Exists.into());
        }
        if there.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        self.fs.unlink(dir, name)
    }

    fn copy_file(&mut self, found: &Found, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let source = found.read()?;
        let inode = self.empty_file(found, dir, name)?;
        let Self {
            contents,
            summary,
            progress,
            path,
            ..
        } = self;
        let mut copied = |len_bytes: u64| {
            summary.bytes = summary.bytes.saturating_add(len_bytes);
            progress(path, summary);
        };
        let size_bytes = u64::try_from(found.stat.st_size).unwrap_or(0);
        contents.copy(self.fs, &source, inode, size_bytes, &mut copied)?;
        count(&mut summary.files);
        Ok(inode)
    }

    /// A regular file to fill: the one that is there, emptied, or a new one.
    fn empty_file(&mut self, found: &Found, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        if let Some(there) = self.there(dir, name)? {
            let replaced = self.options.existing == Existing::Replace;
            let regular = there.file_type == FileType::Regular;
            let filled = there.links > 1 && !self.filled.insert(there.inode);
            if replaced && regular && !filled {
                self.fs.set_len(there.inode, 0)?;
                return Ok(there.inode);
            }
            self.make_room(dir, name, &there)?;
        }
        let attributes = self.attributes(found);
        self.fs.create(dir, name, NewKind::Regular, &attributes)
    }

    fn copy_other(&mut self, found: &Found, dir: InodeNumber, name: &[u8]) -> Result<InodeNumber> {
        let target = match found.file_type {
            FileType::Symlink => found.link_target()?,
            _ => Vec::new(),
        };
        let (kind, counted) = match found.file_type {
            FileType::Symlink => (NewKind::Symlink(&target), &mut self.summary.symlinks),
            FileType::CharacterDevice => (
                NewKind::CharacterDevice(found.device()),
                &mut self.summary.specials,
            ),
            FileType::BlockDevice => (
                NewKind::BlockDevice(found.device()),
                &mut self.summary.specials,
            ),
            FileType::Fifo => (NewKind::Fifo, &mut self.summary.specials),
            FileType::Socket => (NewKind::Socket, &mut self.summary.specials),
            FileType::Regular | FileType::Directory => {
                return Err(Error::new(ErrorKind::Io, "the file changed its type"));
            }
        };
        count(counted);
        if let Some(there) = self.there(dir, name)? {
            self.make_room(dir, name, &there)?;
        }
        let attributes = self.attributes(found);
        self.fs.create(dir, name, kind, &attributes)
    }

    /// Adds a name to the copy of a file that has been copied. Returns whether it could: where it
    /// can't, the file is copied once more.
    fn link_to_first(&mut self, found: &Found, dir: InodeNumber, name: &[u8]) -> Result<bool> {
        let Some(&first) = self.linked.get(&found.id()) else {
            return Ok(false);
        };
        match self.there(dir, name)? {
            Some(there) if there.inode == first => {}
            Some(there) => self.make_room(dir, name, &there)?,
            None => {}
        }
        match self.fs.link(first, dir, name) {
            Ok(()) => {}
            // It is this very file already.
            Err(error) if error.kind() == ErrorKind::Exists => {}
            Err(error) if error.kind() == ErrorKind::TooManyNames => return Ok(false),
            Err(error) => return Err(error),
        }
        count(&mut self.summary.hard_links);
        (self.progress)(&self.path, &self.summary);
        Ok(true)
    }
}
