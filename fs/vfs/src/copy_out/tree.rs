//! The copy of a tree, file by file.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::attributes::{self, RWX};
use super::contents::ContentsCopier;
use super::host::{Dirs, failed, make, path_of};
use super::new_file::NewFile;
use super::{CopyOptions, OnError, Preserve, Summary, count};
use crate::{
    Device, Error, ErrorKind, FileType, FsRead, InodeNumber, Metadata, Result, WalkEntry,
    check_cancelled, walk,
};

/// The mode of a new directory until it gets its final one: access only for its owner.
const PRIVATE_DIR: u32 = 0o700;

/// A file with several names, of which the first is copied.
#[derive(Debug)]
struct Linked {
    /// The path of its copy below the base.
    path: Vec<u8>,
    /// The number of names still to come.
    left: u32,
}

/// A directory that is being filled.
#[derive(Debug)]
struct Open {
    metadata: Metadata,
    path: Vec<u8>,
    /// True if the copy created it, false if it existed before.
    was_made: bool,
}

pub(super) struct Copy<'a> {
    fs: &'a dyn FsRead,
    options: &'a CopyOptions,
    progress: &'a mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
    dirs: Dirs,
    /// The name of the copy itself.
    name: OsString,
    open: Vec<Open>,
    linked: HashMap<InodeNumber, Linked>,
    contents: ContentsCopier,
    summary: Summary,
}

impl<'a> Copy<'a> {
    pub(super) fn new(
        fs: &'a dyn FsRead,
        destination: &Path,
        options: &'a CopyOptions,
        progress: &'a mut dyn FnMut(&[u8], &Summary) -> ControlFlow<()>,
    ) -> Result<Self> {
        let (dirs, name) = Dirs::open(destination)?;
        Ok(Self {
            fs,
            options,
            progress,
            dirs,
            name,
            open: Vec::new(),
            linked: HashMap::new(),
            contents: ContentsCopier::default(),
            summary: Summary::default(),
        })
    }

    pub(super) fn run(mut self, source: InodeNumber) -> Result<Summary> {
        let mut walk = walk(self.fs, source);
        while let Some(item) = walk.next() {
            let copied = item.and_then(|entry| {
                let outcome = self.copy(&entry);
                if outcome.is_err() && entry.metadata.is_dir() {
                    walk.skip_dir();
                }
                outcome.map_err(|error| error.in_path(&entry.path))
            });
            if let Err(error) = copied {
                self.fail(error)?;
            }
        }
        self.leave_deeper_than(0)?;
        Ok(self.summary)
    }

    fn fail(&mut self, error: Error) -> Result<()> {
        if self.options.on_error == OnError::Stop || error.kind() == ErrorKind::Cancelled {
            return Err(error);
        }
        self.summary.note(error);
        Ok(())
    }

    fn copy(&mut self, entry: &WalkEntry) -> Result<()> {
        self.leave_deeper_than(entry.depth)?;
        // The walk only continues into directories that were created.
        debug_assert_eq!(
            self.dirs.depth(),
            entry.depth,
            "in the directory of the entry"
        );
        let name = self.name_of(entry);
        let metadata = &entry.metadata;
        if metadata.is_dir() {
            return self.begin_dir(entry, &name);
        }
        let has_more_names = metadata.links > 1;
        if has_more_names && self.link_to_first(entry, &name)? {
            return Ok(());
        }
        match metadata.file_type {
            FileType::Regular => self.copy_file(entry, &name)?,
            FileType::Symlink => self.copy_link(entry, &name)?,
            _ => self.copy_special(entry, &name)?,
        }
        if has_more_names {
            let linked = Linked {
                path: self.path_below_base(&entry.path),
                left: metadata.links.saturating_sub(1),
            };
            self.linked.insert(metadata.inode, linked);
        }
        check_cancelled((self.progress)(&entry.path, &self.summary))?;
        Ok(())
    }

    fn name_of(&self, entry: &WalkEntry) -> OsString {
        if entry.depth == 0 {
            self.name.clone()
        } else {
            OsStr::from_bytes(entry.name()).to_owned()
        }
    }

    fn path_below_base(&self, path: &[u8]) -> Vec<u8> {
        let mut whole = self.name.as_bytes().to_vec();
        if !path.is_empty() {
            whole.push(b'/');
            whole.extend_from_slice(path);
        }
        whole
    }

    fn begin_dir(&mut self, entry: &WalkEntry, name: &OsStr) -> Result<()> {
        let mode = u32::from(entry.metadata.permissions & RWX) | PRIVATE_DIR;
        let mode = if self.options.preserve.mode {
            PRIVATE_DIR
        } else {
            mode
        };
        let made = match rustix::fs::mkdirat(self.dirs.current()?, name, Mode::from_raw_mode(mode))
        {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(failed("making the directory", errno)),
        };
        self.dirs.enter(name)?;
        self.open.push(Open {
            metadata: entry.metadata.clone(),
            path: entry.path.clone(),
            was_made: made,
        });
        count(&mut self.summary.directories);
        check_cancelled((self.progress)(&entry.path, &self.summary))?;
        Ok(())
    }

    /// Leaves all directories deeper than `depth`. They get their attributes now, after the last
    /// entry was created in them.
    fn leave_deeper_than(&mut self, depth: usize) -> Result<()> {
        while self.dirs.depth() > depth {
            let Some(open) = self.open.pop() else {
                break;
            };
            let finished = match self.dirs.leave_innermost()? {
                Some(fd) => self.finish_dir(&open, &fd),
                None => Ok(()),
            };
            if let Err(error) = finished {
                self.fail(error.in_path(&open.path))?;
            }
        }
        Ok(())
    }

    fn finish_dir(&mut self, open: &Open, fd: &OwnedFd) -> Result<()> {
        let preserve = self.options.preserve;
        if open.was_made && !preserve.mode {
            // Removes the rights that were added to fill the directory, and keeps what the umask
            // left.
            let stat =
                rustix::fs::fstat(fd).map_err(|e| failed("reading the directory's metadata", e))?;
            let mode = stat.st_mode & u32::from(open.metadata.permissions & RWX);
            rustix::fs::fchmod(fd, Mode::from_raw_mode(mode))
                .map_err(|e| failed("setting permissions", e))?;
        }
        let summary = &mut self.summary;
        attributes::apply(self.fs, &open.metadata, fd.as_fd(), preserve, summary)
    }

    /// Adds a name to the copy of a file that was copied before. Returns false if that fails; then
    /// the file is copied again.
    fn link_to_first(&mut self, entry: &WalkEntry, name: &OsStr) -> Result<bool> {
        let inode = entry.metadata.inode;
        let Some(linked) = self.linked.get_mut(&inode) else {
            return Ok(false);
        };
        let Ok(first) = self.dirs.find(&linked.path) else {
            return Ok(false);
        };
        let here = self.dirs.current()?;
        let from = path_of(first.as_fd());
        let link = || rustix::fs::linkat(CWD, &from, here, name, AtFlags::SYMLINK_FOLLOW);
        match make(here, name, self.options.existing, link) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(failed("adding a hard link", Errno::EXIST)),
            Err(_) => return Ok(false),
        }
        linked.left = linked.left.saturating_sub(1);
        if linked.left == 0 {
            self.linked.remove(&inode);
        }
        count(&mut self.summary.hard_links);
        check_cancelled((self.progress)(&entry.path, &self.summary))?;
        Ok(true)
    }

    fn copy_file(&mut self, entry: &WalkEntry, name: &OsStr) -> Result<()> {
        let metadata = &entry.metadata;
        let preserve = self.options.preserve;
        let mode = if preserve.mode {
            0o600
        } else {
            metadata.permissions & RWX
        };
        let here = self.dirs.current()?;
        let file = NewFile::create(here, name, self.options.existing, mode.into())
            .map_err(|errno| failed("making the file", errno))?;
        let Self {
            contents,
            summary,
            progress,
            ..
        } = self;
        let mut copied = |len_bytes: u64| {
            summary.bytes = summary.bytes.saturating_add(len_bytes);
            progress(&entry.path, summary)
        };
        let (inode, size) = (metadata.inode, metadata.size_bytes);
        contents.copy(self.fs, inode, size, file.as_fd(), &mut copied)?;
        attributes::apply(self.fs, metadata, file.as_fd(), preserve, summary)?;
        file.finish()
            .map_err(|errno| failed("naming the file", errno))?;
        count(&mut summary.files);
        Ok(())
    }

    fn copy_link(&mut self, entry: &WalkEntry, name: &OsStr) -> Result<()> {
        let target = self.fs.read_link(entry.metadata.inode)?;
        let target = OsStr::from_bytes(&target);
        let here = self.dirs.current()?;
        let link = || rustix::fs::symlinkat(target, here, name);
        make(here, name, self.options.existing, link)
            .map_err(|errno| failed("making the symlink", errno))?;
        count(&mut self.summary.symlinks);
        self.attribute_by_name(&entry.metadata, name)
    }

    fn copy_special(&mut self, entry: &WalkEntry, name: &OsStr) -> Result<()> {
        let metadata = &entry.metadata;
        let file_type = rustix::fs::FileType::from_raw_mode(metadata.file_type.mode_bits());
        let mode = if self.options.preserve.mode {
            0o600
        } else {
            metadata.permissions & RWX
        };
        let Device { major, minor } = metadata.device.unwrap_or_default();
        let device = rustix::fs::makedev(major, minor);
        let here = self.dirs.current()?;
        let mode = Mode::from_raw_mode(mode.into());
        let node = || rustix::fs::mknodat(here, name, file_type, mode, device);
        match make(here, name, self.options.existing, node) {
            Ok(()) => {}
            Err(Errno::PERM) if metadata.device.is_some() => {
                count(&mut self.summary.specials_ignored);
                return Ok(());
            }
            Err(errno) => return Err(failed("making the special file", errno)),
        }
        count(&mut self.summary.specials);
        self.attribute_by_name(metadata, name)
    }

    /// Sets the attributes of a file that can't be opened, or should not be.
    fn attribute_by_name(&mut self, metadata: &Metadata, name: &OsStr) -> Result<()> {
        if self.options.preserve == Preserve::NOTHING {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self.dirs.current()?, name, flags, Mode::empty())
            .map_err(|errno| failed("finding the new file", errno))?;
        let stat = rustix::fs::fstat(&fd)
            .map_err(|errno| failed("reading the new file's metadata", errno))?;
        if FileType::from_mode(stat.st_mode) != Some(metadata.file_type) {
            let reason = "another process replaced the new file on the host";
            return Err(Error::new(ErrorKind::Io, reason));
        }
        let summary = &mut self.summary;
        attributes::apply(
            self.fs,
            metadata,
            fd.as_fd(),
            self.options.preserve,
            summary,
        )
    }
}
