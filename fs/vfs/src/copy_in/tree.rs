//! The copy of a tree, file by file.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::contents::ContentsCopier;
use super::host::{HostFile, names_in};
use super::source::{GuestFile, SourceFile};
use super::{CopyFrom, CopyInOptions, CopyTo, attributes};
use crate::copy_out::{Existing, OnError, Summary, count};
use crate::{
    Error, ErrorKind, FileType, FsRead, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind,
    Result, WALK_PATH_MAX_BYTES, WalkEntry, check_cancelled, walk,
};

/// Read, write and execute permission for everyone.
const RWX: u16 = 0o777;

/// A directory of the source that is being copied.
struct Level {
    found: HostFile,
    dir: OwnedFd,
    names: std::vec::IntoIter<OsString>,
    into: InodeNumber,
    /// The length of the part of the path that names it.
    path_len: usize,
}

pub(super) struct Copy<'a> {
    fs: &'a dyn FsWrite,
    options: &'a CopyInOptions,
    progress: &'a mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
    /// True if the source is in the same filesystem, so that a file may be copied onto itself.
    same: bool,
    /// The path of the current file within the copy.
    path: Vec<u8>,
    /// The copies of files with several names, by device and inode of the source.
    linked: HashMap<(u64, u64), InodeNumber>,
    /// Existing files with several names that were overwritten once. The next name of such a file
    /// gets a new file.
    filled: HashSet<InodeNumber>,
    contents: ContentsCopier,
    summary: Summary,
}

impl<'a> Copy<'a> {
    pub(super) fn new(
        fs: &'a dyn FsWrite,
        options: &'a CopyInOptions,
        progress: &'a mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
    ) -> Self {
        Self {
            fs,
            options,
            progress,
            same: false,
            path: Vec::new(),
            linked: HashMap::new(),
            filled: HashSet::new(),
            contents: ContentsCopier::default(),
            summary: Summary::default(),
        }
    }

    pub(super) fn run(mut self, source: &Path, to: CopyTo<'_>) -> Result<Summary> {
        let found = HostFile::source(source, self.options.source_link)?;
        let mut levels = Vec::new();
        match to {
            CopyTo::Name(dir, name) => {
                let copied = self.copy_found(found, (dir, name), &mut levels);
                self.note(copied)?;
            }
            CopyTo::Directory(_) if found.metadata().file_type != FileType::Directory => {
                return Err(ErrorKind::NotADirectory.into());
            }
            CopyTo::Directory(into) => levels.push(self.enter(found, into)?),
        }
        while let Some(level) = levels.last_mut() {
            self.path.truncate(level.path_len);
            let Some(name) = level.names.next() else {
                if let Some(level) = levels.pop() {
                    self.finish_dir(&level.found, level.into)?;
                }
                continue;
            };
            let into = level.into;
            let found = HostFile::in_dir(level.dir.as_fd(), &name);
            self.push_name(&name);
            let name = name.as_bytes();
            let copied = found.and_then(|it| self.copy_found(it, (into, name), &mut levels));
            self.note(copied)?;
        }
        Ok(self.summary)
    }

    /// Copies a file of the host; if it is a directory, the copy continues in it.
    fn copy_found(
        &mut self,
        found: HostFile,
        (dir, name): (InodeNumber, &[u8]),
        levels: &mut Vec<Level>,
    ) -> Result<()> {
        if let Some(into) = self.copy(&found, dir, name)? {
            levels.push(self.enter(found, into)?);
        }
        Ok(())
    }

    /// Copies `source`, a file of a filesystem, with everything below it.
    pub(super) fn run_from(mut self, source: CopyFrom<'_>, to: CopyTo<'_>) -> Result<Summary> {
        self.same = source.same;
        if let CopyTo::Name(dir, _) | CopyTo::Directory(dir) = to
            && self.same
            && is_at_or_above(self.fs, source.inode, dir)?
        {
            let reason = "cannot copy a directory into itself";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let mut dirs: Vec<(GuestFile<'_>, InodeNumber)> = Vec::new();
        let mut walk = walk(source.fs, source.inode);
        while let Some(item) = walk.next() {
            let entry = match item {
                Ok(entry) => entry,
                Err(error) => {
                    self.path = error.path().unwrap_or_default().to_vec();
                    self.note(Err(error))?;
                    continue;
                }
            };
            while dirs.len() > entry.depth {
                self.finish_guest_dir(&mut dirs)?;
            }
            self.path.clone_from(&entry.path);
            match self.copy_entry(source.fs, &entry, to, &mut dirs) {
                Err(error) if entry.depth == 0 && matches!(to, CopyTo::Directory(_)) => {
                    return Err(error);
                }
                copied => {
                    if copied.is_err() && entry.metadata.is_dir() {
                        walk.skip_dir();
                    }
                    self.note(copied)?;
                }
            }
        }
        while !dirs.is_empty() {
            self.finish_guest_dir(&mut dirs)?;
        }
        Ok(self.summary)
    }

    fn copy_entry<'g>(
        &mut self,
        from: &'g dyn FsRead,
        entry: &WalkEntry,
        to: CopyTo<'_>,
        dirs: &mut Vec<(GuestFile<'g>, InodeNumber)>,
    ) -> Result<()> {
        let file = GuestFile {
            fs: from,
            metadata: entry.metadata.clone(),
        };
        // However the copy came to its own destination, it must not copy itself.
        let first = dirs.first().map(|&(_, into)| into);
        if self.same && first == Some(entry.inode) {
            let reason = "cannot copy a directory into itself";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let into = match (dirs.last(), to) {
            (Some(&(_, into)), _) => self.copy(&file, into, entry.name())?,
            (None, CopyTo::Name(dir, name)) => self.copy(&file, dir, name)?,
            (None, CopyTo::Directory(_)) if !entry.metadata.is_dir() => {
                return Err(ErrorKind::NotADirectory.into());
            }
            (None, CopyTo::Directory(into)) => Some(into),
        };
        if let Some(into) = into {
            count(&mut self.summary.directories);
            check_cancelled((self.progress)(&self.path, &self.summary))?;
            dirs.push((file, into));
        }
        Ok(())
    }

    fn finish_guest_dir(&mut self, dirs: &mut Vec<(GuestFile<'_>, InodeNumber)>) -> Result<()> {
        match dirs.pop() {
            Some((file, into)) => self.finish_dir(&file, into),
            None => Ok(()),
        }
    }

    fn push_name(&mut self, name: &OsStr) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.as_bytes());
    }

    /// Records an error, or returns it if it ends the copy.
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

    /// Copies a file. For a directory, returns the destination directory of its entries.
    fn copy(
        &mut self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<Option<InodeNumber>> {
        if self.options.refused.contains(&found.id()) {
            let reason = "cannot copy the image into itself";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let from = found.metadata();
        if self.same
            && self
                .existing_metadata(dir, name)?
                .is_some_and(|it| it.inode == from.inode)
        {
            let reason = "source and destination are the same file";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        if from.is_dir() {
            return self.directory(found, dir, name).map(Some);
        }
        let has_more_names = from.links > 1;
        if has_more_names && self.link_to_first(found, dir, name)? {
            return Ok(None);
        }
        let inode = match from.file_type {
            FileType::Regular => self.copy_file(found, dir, name)?,
            _ => self.copy_other(found, dir, name)?,
        };
        attributes::apply(self.fs, found, inode, self.options, &mut self.summary)?;
        if has_more_names {
            self.linked.insert(found.id(), inode);
        }
        check_cancelled((self.progress)(&self.path, &self.summary))?;
        Ok(None)
    }

    /// Returns the destination directory of a source directory. A missing one is created.
    fn directory(
        &self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<InodeNumber> {
        match self.existing_metadata(dir, name)? {
            Some(there) if there.is_dir() => Ok(there.inode),
            Some(_) => Err(ErrorKind::NotADirectory.into()),
            None => {
                let attributes = self.attributes(found);
                self.fs.create(dir, name, NewKind::Directory, &attributes)
            }
        }
    }

    fn enter(&mut self, found: HostFile, into: InodeNumber) -> Result<Level> {
        let dir = found.open_file()?;
        let names = names_in(&dir)?.into_iter();
        count(&mut self.summary.directories);
        check_cancelled((self.progress)(&self.path, &self.summary))?;
        Ok(Level {
            found,
            dir,
            names,
            into,
            path_len: self.path.len(),
        })
    }

    /// Gives a directory its attributes, after the last entry was created in it.
    fn finish_dir(&mut self, found: &dyn SourceFile, into: InodeNumber) -> Result<()> {
        let (options, summary) = (self.options, &mut self.summary);
        let applied = attributes::apply(self.fs, found, into, options, summary);
        self.note(applied)
    }

    /// Returns the attributes with which a new file is created.
    fn attributes(&self, found: &dyn SourceFile) -> NewAttributes {
        NewAttributes {
            permissions: found.metadata().permissions & RWX,
            umask: self.options.umask,
            uid: self.options.uid,
            gid: self.options.gid,
        }
    }

    /// Returns the metadata of the existing file with this name.
    fn existing_metadata(&self, dir: InodeNumber, name: &[u8]) -> Result<Option<Metadata>> {
        match self.fs.lookup(dir, name) {
            Ok(inode) => self.fs.metadata(inode).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the existing file with this name, if that is allowed.
    fn make_room(&self, dir: InodeNumber, name: &[u8], there: &Metadata) -> Result<()> {
        if self.options.existing == Existing::Keep {
            return Err(ErrorKind::Exists.into());
        }
        if there.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        }
        self.fs.unlink(dir, name)
    }

    fn copy_file(
        &mut self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<InodeNumber> {
        let mut source = found.open()?;
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
            progress(path, summary)
        };
        let size_bytes = found.metadata().size_bytes;
        contents.copy(self.fs, &mut *source, inode, size_bytes, &mut copied)?;
        count(&mut summary.files);
        Ok(inode)
    }

    /// Returns a regular file to write to: the existing one, truncated, or a new one.
    fn empty_file(
        &mut self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<InodeNumber> {
        if let Some(existing) = self.existing_metadata(dir, name)? {
            let replaced = self.options.existing == Existing::Replace;
            let regular = existing.file_type == FileType::Regular;
            let filled = existing.links > 1 && !self.filled.insert(existing.inode);
            if replaced && regular && !filled {
                self.fs.set_len(existing.inode, 0)?;
                return Ok(existing.inode);
            }
            self.make_room(dir, name, &existing)?;
        }
        let attributes = self.attributes(found);
        self.fs.create(dir, name, NewKind::Regular, &attributes)
    }

    fn copy_other(
        &mut self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<InodeNumber> {
        let from = found.metadata();
        let device = from.device.unwrap_or_default();
        let target = match from.file_type {
            FileType::Symlink => found.link_target()?,
            _ => Vec::new(),
        };
        let (kind, counted) = match from.file_type {
            FileType::Symlink => (NewKind::Symlink(&target), &mut self.summary.symlinks),
            FileType::CharacterDevice => {
                (NewKind::CharacterDevice(device), &mut self.summary.specials)
            }
            FileType::BlockDevice => (NewKind::BlockDevice(device), &mut self.summary.specials),
            FileType::Fifo => (NewKind::Fifo, &mut self.summary.specials),
            FileType::Socket => (NewKind::Socket, &mut self.summary.specials),
            FileType::Regular | FileType::Directory => {
                return Err(Error::new(
                    ErrorKind::Io,
                    "the file changed its type during the copy",
                ));
            }
        };
        count(counted);
        if let Some(existing) = self.existing_metadata(dir, name)? {
            self.make_room(dir, name, &existing)?;
        }
        let attributes = self.attributes(found);
        self.fs.create(dir, name, kind, &attributes)
    }

    /// Adds a name to the copy of a file that was copied before. Returns false if that fails; then
    /// the file is copied again.
    fn link_to_first(
        &mut self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<bool> {
        let Some(&first) = self.linked.get(&found.id()) else {
            return Ok(false);
        };
        match self.existing_metadata(dir, name)? {
            Some(there) if there.inode == first => {}
            Some(there) => self.make_room(dir, name, &there)?,
            None => {}
        }
        match self.fs.link(first, dir, name) {
            Ok(()) => {}
            // The name refers to this very file already.
            Err(error) if error.kind() == ErrorKind::Exists => {}
            Err(error) if error.kind() == ErrorKind::TooManyNames => return Ok(false),
            Err(error) => return Err(error),
        }
        count(&mut self.summary.hard_links);
        check_cancelled((self.progress)(&self.path, &self.summary))?;
        Ok(true)
    }
}

/// Returns true if `top` is `dir` or one of its parents.
fn is_at_or_above(fs: &dyn FsRead, top: InodeNumber, dir: InodeNumber) -> Result<bool> {
    let mut at = dir;
    // A walk goes no deeper either.
    for _ in 0..WALK_PATH_MAX_BYTES {
        if at == top {
            return Ok(true);
        }
        let above = fs.lookup(at, b"..")?;
        if above == at || at == fs.root() {
            return Ok(false);
        }
        at = above;
    }
    let reason = "directories are nested too deeply, or in a loop";
    Err(Error::new(ErrorKind::Corrupt, reason).in_inode(dir))
}
