//! Answers the kernel's requests from a filesystem that is written.
//!
//! The kernel keeps what is written (write-back cache) and hands it over when a file is closed or
//! synced, or when it wants the memory; sizes and times of regular files are the kernel's until then.

mod changes;
mod copy;
mod listing;
mod make;
mod privileges;
mod references;
mod set_attributes;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread;
use std::time::SystemTime;

use diskfs_vfs::{
    Error, ErrorKind, Fallocate, FileFlags, FileType, FsRead, FsWrite, InodeNumber, NewKind,
    RenameMode, Result, SetMetadata, SetXattr, SyncFile,
};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, Notifier,
    OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::adapter::MAX_BACKGROUND;
use super::attributes::{decode_device, kind, no_attributes};
use super::directory::is_dot;
use super::flags::{FS_IOC_SETFLAGS, flags_of};
use super::linger::Linger;
use super::options::Options;
use super::reading::{FOREVER, Reading, guarded, is_acl, report};
use changes::Changes;
use copy::Place;
use listing::{Listed, OpenDirectories};
use references::References;
use set_attributes::Wish;

/// What the kernel is asked for, as far as it has it; the reasons are in `src/export/DESIGN.md`.
const WANTED: [InitFlags; 11] = [
    InitFlags::FUSE_WRITEBACK_CACHE,
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    // The umask is the driver's to apply: a default ACL goes before it.
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_ASYNC_DIO,
    // Append-only files are written without the cache, and can be mapped all the same.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_EXPORT_SUPPORT,
];

/// The handle of every open file: none has a state of its own.
const NO_HANDLE: FileHandle = FileHandle(0);

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
            reading: Reading::new(reader, &options.ids, linger),
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
            Full::from(reply.add(attr.ino, entry.cookie, name, &FOREVER, &attr, generation))
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

fn rename_mode(flags: RenameFlags) -> Option<RenameMode> {
    const NO_REPLACE: RenameFlags = RenameFlags::RENAME_NOREPLACE;
    const WHITEOUT: RenameFlags = RenameFlags::RENAME_WHITEOUT;
    match flags {
        flags if flags.is_empty() => Some(RenameMode::Replace),
        NO_REPLACE => Some(RenameMode::NoReplace),
        RenameFlags::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        WHITEOUT => Some(RenameMode::Whiteout),
        flags if flags == NO_REPLACE.union(WHITEOUT) => Some(RenameMode::NoReplaceWhiteout),
        _ => None,
    }
}

/// Answers a request for a new name.
fn reply_entry(operation: &str, made: Answer<(FileAttr, Generation)>, reply: ReplyEntry) {
    match made {
        Ok((attr, generation)) => reply.entry(&FOREVER, &attr, generation),
        Err(refusal) => reply.error(refusal.report(operation)),
    }
}

/// Answers a request that tells nothing but that it is done.
fn reply_empty(operation: &str, done: Answer<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(refusal) => reply.error(refusal.report(operation)),
    }
}

impl Filesystem for WritingAdapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flags in WANTED {
            // What this kernel lacks, it does without.
            let _ = config.add_capabilities(flags);
        }
        if self.checks_permissions {
            // Only then: it makes the kernel check modes, too.
            let _ = config.add_capabilities(InitFlags::FUSE_POSIX_ACL);
        }
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn destroy(&mut self) {
        self.reading
            .answer("destroy", || self.references.forget_all(&*self.fs));
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reading.answer("lookup", || {
            let found = self.reading.find(parent, name.as_bytes());
            match found.and_then(|found| found.map(|inode| self.known(inode)).transpose()) {
                Ok(Some((attr, generation))) => reply.entry(&FOREVER, &attr, generation),
                // Number 0 tells the kernel to remember that there is no such name.
                Ok(None) => {
                    let nothing = no_attributes(INodeNo(0), None);
                    reply.entry(&FOREVER, &nothing, Generation(0));
                }
                Err(error) => reply.error(report("lookup", &error)),
            }
        });
    }

    fn forget(&self, _request: &Request, node: INodeNo, times: u64) {
        self.reading.answer("forget", || {
            self.references.forget(&*self.fs, self.inode(node), times);
        });
    }

    fn getattr(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.reading
            .answer("getattr", || self.reading.getattr(node, reply));
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.reading.answer("setattr", || {
            let wish = Wish {
                mode,
                uid,
                gid,
                size,
                accessed,
                modified,
                changed,
            };
            match self.set_attributes(self.inode(node), &wish, request.uid()) {
                Ok(()) => self.reading.getattr(node, reply),
                Err(refusal) => reply.error(refusal.report("setattr")),
            }
        });
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        self.reading
            .answer("readlink", || self.reading.readlink(node, reply));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.reading.answer("mknod", || {
            let device = decode_device(device);
            let kind = match FileType::from_mode(mode) {
                Some(FileType::Regular) => NewKind::Regular,
                Some(FileType::CharacterDevice) => NewKind::CharacterDevice(device),
                Some(FileType::BlockDevice) => NewKind::BlockDevice(device),
                Some(FileType::Fifo) => NewKind::Fifo,
                Some(FileType::Socket) => NewKind::Socket,
                _ => return reply.error(Errno::EINVAL),
            };
            let maker = Maker::new(request, mode, umask);
            reply_entry("mknod", self.make(parent, name, kind, maker), reply);
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.reading.answer("mkdir", || {
            let maker = Maker::new(request, mode, umask);
            let made = self.make(parent, name, NewKind::Directory, maker);
            reply_entry("mkdir", made, reply);
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.reading.answer("symlink", || {
            let kind = NewKind::Symlink(target.as_os_str().as_bytes());
            let maker = Maker::new(request, 0o777, 0);
            reply_entry("symlink", self.make(parent, name, kind, maker), reply);
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        self.reading.answer("create", || {
            let maker = Maker::new(request, mode, umask);
            match self.make(parent, name, NewKind::Regular, maker) {
                Ok((attr, generation)) => {
                    let flags = FopenFlags::FOPEN_KEEP_CACHE;
                    reply.created(&FOREVER, &attr, generation, NO_HANDLE, flags);
                }
                Err(refusal) => reply.error(refusal.report("create")),
            }
        });
    }

    fn link(
        &self,
        _request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.reading.answer("link", || {
            let (inode, dir) = (self.inode(node), self.inode(parent));
            let linked = self.change(dir, || self.fs.link(inode, dir, name.as_bytes()));
            let entry = linked.and_then(|()| self.known(inode));
            reply_entry("link", entry.map_err(Refusal::from), reply);
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.reading.answer("unlink", || {
            let dir = self.inode(parent);
            let done = self.change(dir, || self.fs.unlink(dir, name.as_bytes()));
            reply_empty("unlink", done.map_err(Refusal::from), reply);
        });
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.reading.answer("rmdir", || {
            let dir = self.inode(parent);
            let done = self.change(dir, || self.fs.rmdir(dir, name.as_bytes()));
            reply_empty("rmdir", done.map_err(Refusal::from), reply);
        });
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.reading.answer("rename", || {
            let Some(mode) = rename_mode(flags) else {
                return reply.error(Errno::EINVAL);
            };
            let (dir, to_dir) = (self.inode(parent), self.inode(to_parent));
            let (name, to_name) = (name.as_bytes(), to_name.as_bytes());
            let done = self.change(dir, || self.fs.rename(dir, name, to_dir, to_name, mode));
            self.changes.note(to_dir);
            reply_empty("rename", done.map_err(Refusal::from), reply);
        });
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.reading.answer("open", || {
            match self.open_file(self.inode(node), flags, request.uid()) {
                Ok(flags) => reply.opened(NO_HANDLE, flags),
                Err(error) => reply.error(report("open", &error)),
            }
        });
    }

    fn read(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.reading
            .answer("read", || self.reading.read(node, offset, size, reply));
    }

    fn write(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.reading.answer("write", || {
            match self.write_some(self.inode(node), offset, data, write_flags) {
                // A request holds less than 4 GiB.
                Ok(written) => reply.written(u32::try_from(written).unwrap_or(u32::MAX)),
                Err(error) => reply.error(report("write", &error)),
            }
        });
    }

    fn flush(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // The kernel has handed over what was written before it asks, and tells the errors of that.
        reply.error(Errno::ENOSYS);
    }

    fn access(&self, _request: &Request, _node: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.reading.answer("fsync", || {
            let what = if data_only {
                SyncFile::Data
            } else {
                SyncFile::All
            };
            let done = self.fs.sync_file(self.inode(node), what);
            reply_empty("fsync", done.map_err(Refusal::from), reply);
        });
    }

    fn fsyncdir(
        &self,
        request: &Request,
        node: INodeNo,
        handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        // A directory's names are its data and its metadata.
        self.fsync(request, node, handle, false, reply);
    }

    fn opendir(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Never from the kernel's cache of listings: who is in the middle of one when it is renewed
        // would look for a place that is no longer there.
        reply.opened(self.directories.add(), FopenFlags::empty());
    }

    fn releasedir(
        &self,
        _request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.directories.remove(handle);
        reply.ok();
    }

    fn readdir(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectory,
    ) {
        self.reading.answer("readdir", || {
            let listed = self.list(node, handle, cookie, |entry| {
                let number = INodeNo(entry.inode.0);
                let kind = kind(entry.file_type.unwrap_or(FileType::Regular));
                let name = OsStr::from_bytes(entry.name);
                Full::from(reply.add(number, entry.cookie, kind, name))
            });
            match listed {
                Ok(()) => reply.ok(),
                Err(refusal) => reply.error(refusal.report("readdir")),
            }
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.reading.answer("readdirplus", || {
            let take = |entry: Listed<'_>| self.add_listed(entry, &mut reply);
            match self.list(node, handle, cookie, take) {
                Ok(()) => reply.ok(),
                Err(refusal) => reply.error(refusal.report("readdirplus")),
            }
        });
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        self.reading.answer("statfs", || self.reading.statfs(reply));
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.reading.answer("setxattr", || {
            let name = name.as_bytes();
            let done = self.set_xattr(request, self.inode(node), name, value, flags);
            reply_empty("setxattr", done, reply);
        });
    }

    fn getxattr(
        &self,
        _request: &Request,
        node: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        self.reading.answer("getxattr", || {
            self.reading.getxattr(node, name.as_bytes(), size, reply);
        });
    }

    fn listxattr(&self, _request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        self.reading
            .answer("listxattr", || self.reading.listxattr(node, size, reply));
    }

    fn removexattr(&self, _request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.reading.answer("removexattr", || {
            let done = self.fs.remove_xattr(self.inode(node), name.as_bytes());
            reply_empty("removexattr", done.map_err(Refusal::from), reply);
        });
    }

    fn ioctl(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        input: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        self.reading.answer("ioctl", || match command {
            FS_IOC_SETFLAGS => self.set_flags(node, input, reply),
            _ => self.reading.ioctl(node, command, reply),
        });
    }

    fn fallocate(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        len_bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.reading.answer("fallocate", || {
            let done = self.fallocate_range(self.inode(node), offset, len_bytes, mode);
            reply_empty("fallocate", done.map_err(Refusal::from), reply);
        });
    }

    fn lseek(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.reading
            .answer("lseek", || self.reading.lseek(node, offset, whence, reply));
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        from_node: INodeNo,
        _from_handle: FileHandle,
        from_offset: u64,
        to_node: INodeNo,
        _to_handle: FileHandle,
        to_offset: u64,
        len_bytes: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.reading.answer("copy_file_range", || {
            let place = |node, offset| Place {
                inode: self.inode(node),
                offset,
            };
            let (from, to) = (place(from_node, from_offset), place(to_node, to_offset));
            match copy::copy(&*self.fs, from, to, len_bytes) {
                Ok(copied) => reply.written(u32::try_from(copied).unwrap_or(u32::MAX)),
                Err(error) => reply.error(report("copy_file_range", &error)),
            }
        });
    }
}
