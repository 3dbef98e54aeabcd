//! One file after the other.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::contents::Contents;
use super::host::{Found, names_in};
use super::source::{GuestFile, SourceFile};
use super::{CopyFrom, CopyInOptions, CopyTo, attributes};
use crate::copy_out::{Existing, OnError, Summary, count};
use crate::{
    Error, ErrorKind, FileType, FsRead, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind,
    Result, WALK_PATH_MAX_BYTES, WalkEntry, go_on, walk,
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
    progress: &'a mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
    /// Whether the source is in the same filesystem, so that a file may be its own copy.
    same: bool,
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
            contents: Contents::default(),
            summary: Summary::default(),
        }
    }

    pub(super) fn run(mut self, source: &Path, to: CopyTo<'_>) -> Result<Summary> {
        let found = Found::source(source, self.options.source_link)?;
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
                    self.leave(&level.found, level.into)?;
                }
                continue;
            };
            let into = level.into;
            let found = Found::in_dir(level.dir.as_fd(), &name);
            self.push_name(&name);
            let name = name.as_bytes();
            let copied = found.and_then(|it| self.copy_found(it, (into, name), &mut levels));
            self.note(copied)?;
        }
        Ok(self.summary)
    }

    /// Copies a file of the host; into a directory the copy goes next.
    fn copy_found(
        &mut self,
        found: Found,
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
            let reason = "a directory can't be copied into itself";
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
                self.leave_guest(&mut dirs)?;
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
            self.leave_guest(&mut dirs)?;
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
        // Whatever led here a second time, the copy does not copy itself.
        let first = dirs.first().map(|&(_, into)| into);
        if self.same && first == Some(entry.inode) {
            let reason = "a directory can't be copied into itself";
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
            go_on((self.progress)(&self.path, &self.summary))?;
            dirs.push((file, into));
        }
        Ok(())
    }

    fn leave_guest(&mut self, dirs: &mut Vec<(GuestFile<'_>, InodeNumber)>) -> Result<()> {
        match dirs.pop() {
            Some((file, into)) => self.leave(&file, into),
            None => Ok(()),
        }
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

    /// Copies a file. Returns the directory that the contents of a directory go to.
    fn copy(
        &mut self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<Option<InodeNumber>> {
        if self.options.refused.contains(&found.id()) {
            let reason = "is the image itself, which would grow for ever";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let from = found.metadata();
        if self.same
            && self
                .there(dir, name)?
                .is_some_and(|it| it.inode == from.inode)
        {
            let reason = "is the same file as where it should go";
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
        attributes::apply(
            self.fs,
            found,
            inode,
            self.options.preserve,
            &mut self.summary,
        )?;
        if has_more_names {
            self.linked.insert(found.id(), inode);
        }
        go_on((self.progress)(&self.path, &self.summary))?;
        Ok(None)
    }

    /// The directory that a copy of one goes to, which is made if it isn't there.
    fn directory(
        &self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<InodeNumber> {
        match self.there(dir, name)? {
            Some(there) if there.is_dir() => Ok(there.inode),
            Some(_) => Err(ErrorKind::NotADirectory.into()),
            None => {
                let attributes = self.attributes(found);
                self.fs.create(dir, name, NewKind::Directory, &attributes)
            }
        }
    }

    fn enter(&mut self, found: Found, into: InodeNumber) -> Result<Level> {
        let dir = found.open_file()?;
        let names = names_in(&dir)?.into_iter();
        count(&mut self.summary.directories);
        go_on((self.progress)(&self.path, &self.summary))?;
        Ok(Level {
            found,
            dir,
            names,
            into,
            path_len: self.path.len(),
        })
    }

    /// Gives a directory its attributes, now that nothing more is made in it.
    fn leave(&mut self, found: &dyn SourceFile, into: InodeNumber) -> Result<()> {
        let (preserve, summary) = (self.options.preserve, &mut self.summary);
        let applied = attributes::apply(self.fs, found, into, preserve, summary);
        self.note(applied)
    }

    /// What a new file has from the start.
    fn attributes(&self, found: &dyn SourceFile) -> NewAttributes {
        NewAttributes {
            permissions: found.metadata().permissions & RWX,
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

    /// A regular file to fill: the one that is there, emptied, or a new one.
    fn empty_file(
        &mut self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<InodeNumber> {
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
    fn link_to_first(
        &mut self,
        found: &dyn SourceFile,
        dir: InodeNumber,
        name: &[u8],
    ) -> Result<bool> {
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
        go_on((self.progress)(&self.path, &self.summary))?;
        Ok(true)
    }
}

/// Returns whether `top` is `dir` or a directory above it.
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
    let reason = "directories are nested too deep, or in a circle";
    Err(Error::new(ErrorKind::Corrupt, reason).in_inode(dir))
}
