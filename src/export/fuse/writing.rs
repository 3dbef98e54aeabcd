//! Answers the kernel's requests from a filesystem that is written.
//!
//! The kernel keeps what is written (write-back cache) and hands it over when a file is closed or
//! synced, or when it wants the memory; sizes and times of regular files are the kernel's until then.

mod changes;
mod copy;
mod filesystem;
mod listing;
mod make;
mod privileges;
mod references;
mod set_attributes;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread;

use diskfs_vfs::{
    Error, ErrorKind, Fallocate, FileFlags, FileType, FsRead, FsWrite, InodeNumber, Result,
    SetMetadata, SetXattr,
};
use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, Notifier, OpenAccMode, OpenFlags,
    ReplyDirectoryPlus, ReplyIoctl, Request, WriteFlags,
};

use super::attributes::no_attributes;
use super::directory::is_dot;
use super::flags::flags_of;
use super::linger::Linger;
use super::options::Options;
use super::reading::{Reading, guarded, is_acl, report};
use changes::Changes;
use listing::{Listed, OpenDirectories};
use references::References;

/// A filesystem as fuser wants it.
#[derive(Debug)]
pub(super) struct WritingAdapter {
    reading: Reading,
    fs: Arc<dyn FsWrite>,
    checks_permissions: bool,
    references: References,
    directories: OpenDirectories,
    changes: Changes,
    notifier: Arc<OnceLock<Notifier>>,
}

/// What a request for a new name tells of who makes it.
#[derive(Debug, Clone, Copy)]
struct Maker {
    uid: u32,
    gid: u32,
    mode: u32,
    umask: u32,
}

impl Maker {
    fn new(request: &Request, mode: u32, umask: u32) -> Self {
        Self {
            uid: request.uid(),
            gid: request.gid(),
            mode,
            umask,
        }
    }
}

/// What an asking program is told when it is refused here, and what by the filesystem.
#[derive(Debug)]
enum Refusal {
    Errno(Errno),
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<ErrorKind> for Refusal {
    fn from(kind: ErrorKind) -> Self {
        Self::Error(kind.into())
    }
}

impl Refusal {
    fn report(self, operation: &str) -> Errno {
        match self {
            Self::Errno(errno) => errno,
            Self::Error(error) => report(operation, &error),
        }
    }
}

type Answer<T> = std::result::Result<T, Refusal>;

/// The image has no id for that of the host: EOVERFLOW, as the kernel says on id-mapped mounts.
const NO_ID: Refusal = Refusal::Errno(Errno::EOVERFLOW);

impl WritingAdapter {
    pub(super) fn new(
        fs: Arc<dyn FsWrite>,
        options: &Options,
        linger: Linger,
        notifier: Arc<OnceLock<Notifier>>,
    ) -> Self {
        let reader: Arc<dyn FsRead> = Arc::clone(&fs) as _;
        Self {
            reading: Reading::new(reader, &options.ids, linger).of_changing(),
            fs,
            checks_permissions: options.access.checks_permissions(),
            references: References::new(),
            directories: OpenDirectories::default(),
            changes: Changes::new(),
            notifier,
        }
    }

    fn inode(&self, node: INodeNo) -> InodeNumber {
        self.reading.nodes.inode(node)
    }

    /// What the kernel is told of a file, which it knows from then on.
    fn known(&self, inode: InodeNumber) -> Result<(FileAttr, Generation)> {
        self.references.add(&*self.fs, inode);
        let entry = self.reading.entry(inode);
        if entry.is_err() {
            self.references.forget(&*self.fs, inode, 1);
        }
        entry
    }

    /// Changes names in a directory.
    fn change<T>(&self, dir: InodeNumber, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = change();
        // Also after an error: whoever is told too often only looks once more.
        self.changes.note(dir);
        result
    }

    /// Opens a file. Without flags it is the kernel that keeps its contents, and what it has of them
    /// from before.
    fn open_file(&self, inode: InodeNumber, flags: OpenFlags, uid: u32) -> Result<FopenFlags> {
        let truncates = flags.0 & libc::O_TRUNC != 0;
        if flags.acc_mode() == OpenAccMode::O_RDONLY && !truncates {
            return Ok(FopenFlags::FOPEN_KEEP_CACHE);
        }
        let FileFlags {
            immutable,
            append_only,
            ..
        } = self.fs.metadata(inode)?.flags;
        let appends = flags.0 & libc::O_APPEND != 0 && !truncates;
        if immutable || (append_only && !appends) {
            return Err(Error::from(ErrorKind::NotPermitted).in_inode(inode));
        }
        if truncates {
            self.set_len(inode, 0, uid)?;
        }
        Ok(if append_only {
            // The cache writes whole pages, from before the end on.
            FopenFlags::FOPEN_DIRECT_IO
        } else {
            FopenFlags::FOPEN_KEEP_CACHE
        })
    }

    /// Cuts or grows a file, and takes what that takes from it. That a process may keep the ids
    /// (`CAP_FSETID`) is not told us; root may.
    fn set_len(&self, inode: InodeNumber, size_bytes: u64, uid: u32) -> Result<()> {
        self.fs.set_len(inode, size_bytes)?;
        if uid != 0 {
            privileges::drop_ids(&*self.fs, inode)?;
        }
        privileges::drop_capabilities(&*self.fs, inode)
    }

    /// Returns how much was written: less than all when there is no room for more.
    fn write_some(
        &self,
        inode: InodeNumber,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
    ) -> Result<usize> {
        if flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            privileges::drop_ids(&*self.fs, inode)?;
            privileges::drop_capabilities(&*self.fs, inode)?;
        }
        let (written, all) = write_all(&*self.fs, inode, offset, data);
        // Whoever wrote into the cache has gone on, and the kernel takes a part for the whole: the
        // rest would be lost without a word.
        let is_cached = flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        if written == 0 || is_cached {
            all?;
        }
        Ok(written)
    }

    fn set_acl(
        &self,
        request: &Request,
        inode: InodeNumber,
        value: &[u8],
        name: &[u8],
        how: SetXattr,
    ) -> Answer<()> {
        let mut value = value.to_vec();
        if !self.reading.ids.is_identity() && !self.reading.ids.map_acl_back(&mut value) {
            return Err(NO_ID);
        }
        self.fs.set_xattr(inode, name, &value, how)?;
        if name == b"system.posix_acl_access" && self.checks_permissions {
            self.drop_foreign_group_id(request, inode)?;
        }
        Ok(())
    }

    /// Who is not of a file's group can't leave it set-group-id by setting an ACL.
    fn drop_foreign_group_id(&self, request: &Request, inode: InodeNumber) -> Result<()> {
        let metadata = self.fs.metadata(inode)?;
        let gid = self.reading.ids.gid.map(metadata.gid);
        let is_allowed = request.uid() == 0
            || request.gid() == gid
            || !privileges::has_group_id(&metadata)
            || privileges::has_group(request.pid(), gid);
        if is_allowed {
            return Ok(());
        }
        privileges::drop_group_id(&*self.fs, inode)
    }

    fn set_xattr(
        &self,
        request: &Request,
        inode: InodeNumber,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Answer<()> {
        let how = match flags {
            libc::XATTR_CREATE => SetXattr::Create,
            libc::XATTR_REPLACE => SetXattr::Replace,
            _ => SetXattr::Any,
        };
        if is_acl(name) {
            return self.set_acl(request, inode, value, name, how);
        }
        Ok(self.fs.set_xattr(inode, name, value, how)?)
    }

    /// Lists a directory from `cookie` on, until `take` says that there is no room for more.
    fn list(
        &self,
        node: INodeNo,
        handle: FileHandle,
        cookie: u64,
        mut take: impl FnMut(Listed<'_>) -> Full,
    ) -> Answer<()> {
        let dir = self.inode(node);
        let snapshot = self.directories.get(handle);
        let snapshot = snapshot.ok_or(Refusal::Errno(Errno::EBADF))?;
        let mut snapshot = snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        if cookie == 0 {
            snapshot.refresh(&*self.fs, dir, &self.changes)?;
        }
        snapshot.announce(&*self.fs, cookie);
        // The kernel changes no name in a directory while it lists it.
        let is_stale = snapshot.is_stale(dir, &self.changes);
        let mut at = cookie;
        while let Some(mut entry) = snapshot.at(at) {
            at = entry.cookie;
            if is_stale && !is_dot(entry.name) {
                match self.fs.lookup(dir, entry.name) {
                    Ok(inode) if inode == entry.inode => {}
                    Ok(inode) => (entry.inode, entry.file_type) = (inode, None),
                    // It is gone; to tell it with attributes would bring it back for the kernel.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(error.into()),
                }
            }
            if take(entry) == Full::Yes {
                break;
            }
        }
        Ok(())
    }

    /// Adds an entry with its attributes, as far as they can be had.
    fn add_listed(&self, entry: Listed<'_>, reply: &mut ReplyDirectoryPlus) -> Full {
        const NONE: Generation = Generation(0);
        let name = OsStr::from_bytes(entry.name);
        let mut add = |attr: FileAttr, generation| {
            Full::from(reply.add(
                attr.ino,
                entry.cookie,
                name,
                &self.reading.kept,
                &attr,
                generation,
            ))
        };
        if is_dot(entry.name) {
            // Of these the kernel takes the number and the type only.
            let number = INodeNo(entry.inode.0);
            return add(no_attributes(number, Some(FileType::Directory)), NONE);
        }
        if !self.reading.nodes.can_be_entry(entry.inode) {
            return add(no_attributes(INodeNo(u64::MAX), entry.file_type), NONE);
        }
        // The kernel forgets what it can't take, too.
        self.references.add(&*self.fs, entry.inode);
        let (attr, generation) = self.reading.entry(entry.inode).unwrap_or_else(|_| {
            let node = self.reading.nodes.node(entry.inode);
            (no_attributes(node, entry.file_type), NONE)
        });
        let full = add(attr, generation);
        if full == Full::Yes {
            self.references.forget(&*self.fs, entry.inode, 1);
        }
        full
    }

    fn fallocate_range(&self, inode: InodeNumber, offset: u64, len: u64, mode: i32) -> Result<()> {
        let what = match mode {
            0 => Fallocate::Allocate,
            libc::FALLOC_FL_KEEP_SIZE => Fallocate::AllocateKeepSize,
            mode if mode == libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE => {
                Fallocate::PunchHole
            }
            libc::FALLOC_FL_ZERO_RANGE => Fallocate::ZeroRange,
            mode if mode == libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE => {
                Fallocate::ZeroRangeKeepSize
            }
            libc::FALLOC_FL_COLLAPSE_RANGE => Fallocate::CollapseRange,
            libc::FALLOC_FL_INSERT_RANGE => Fallocate::InsertRange,
            _ => return Err(ErrorKind::Unsupported.into()),
        };
        self.fs.fallocate(inode, offset, len, what)
    }

    /// `FS_IOC_SETFLAGS`. A file that can't be changed from now on must have all that was written
    /// before, which may be in the kernel still. Fetching it waits for answers of ours, so that is
    /// no work for a thread that answers.
    fn set_flags(&self, node: INodeNo, input: &[u8], reply: ReplyIoctl) {
        let Some(bits) = input.first_chunk() else {
            return reply.error(Errno::EINVAL);
        };
        let Some(flags) = flags_of(u32::from_ne_bytes(*bits)) else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        let (fs, inode) = (Arc::clone(&self.fs), self.inode(node));
        let notifier = self.notifier.get().cloned();
        let set = move || {
            if let Some(notifier) = notifier
                && (flags.immutable || flags.append_only)
            {
                let _ = notifier.inval_inode(node, 0, 0);
            }
            let change = SetMetadata {
                flags: Some(flags),
                ..SetMetadata::default()
            };
            guarded("ioctl", || match fs.set_metadata(inode, &change) {
                Ok(()) => reply.ioctl(0, &[]),
                Err(error) => reply.error(report("ioctl", &error)),
            });
        };
        // A reply that is dropped says EIO.
        let _ = thread::Builder::new().spawn(set);
    }
}

/// Writes as much as can be. Returns how much that was, and why not all.
fn write_all(
    fs: &dyn FsWrite,
    inode: InodeNumber,
    offset: u64,
    data: &[u8],
) -> (usize, Result<()>) {
    let mut done = 0;
    while done < data.len() {
        match fs.write_at(inode, offset + done as u64, &data[done..]) {
            Ok(0) => return (done, Err(Error::from(ErrorKind::NoSpace).in_inode(inode))),
            Ok(written) => done += written,
            Err(error) => return (done, Err(error)),
        }
    }
    (done, Ok(()))
}

/// Whether a reply has no room for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    No,
    Yes,
}

impl From<bool> for Full {
    fn from(full: bool) -> Self {
        if full { Self::Yes } else { Self::No }
    }
}
