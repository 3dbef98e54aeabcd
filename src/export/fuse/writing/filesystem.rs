//! The kernel's requests, one by one: what comes with each, and how its answer is put.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use diskfs_vfs::{FileType, NewKind, RenameMode, SyncFile};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use super::super::adapter::MAX_BACKGROUND;
use super::super::attributes::{decode_device, kind, no_attributes};
use super::super::flags::FS_IOC_SETFLAGS;
use super::super::reading::report;
use super::copy::{self, Place};
use super::listing::Listed;
use super::set_attributes::Wish;
use super::{Answer, Full, Maker, Refusal, WritingAdapter};

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
                Ok(Some((attr, generation))) => reply.entry(&self.reading.kept, &attr, generation),
                // Number 0 tells the kernel to remember that there is no such name.
                Ok(None) => {
                    let nothing = no_attributes(INodeNo(0), None);
                    reply.entry(&self.reading.kept, &nothing, Generation(0));
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
            reply_entry(
                "mknod",
                self.reading.kept,
                self.make(parent, name, kind, maker),
                reply,
            );
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
            reply_entry("mkdir", self.reading.kept, made, reply);
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
            reply_entry(
                "symlink",
                self.reading.kept,
                self.make(parent, name, kind, maker),
                reply,
            );
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
                    reply.created(&self.reading.kept, &attr, generation, NO_HANDLE, flags);
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
            reply_entry(
                "link",
                self.reading.kept,
                entry.map_err(Refusal::from),
                reply,
            );
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

    fn statfs(&self, _request: &Request, node: INodeNo, reply: ReplyStatfs) {
        self.reading
            .answer("statfs", || self.reading.statfs(node, reply));
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
fn reply_entry(
    operation: &str,
    kept: Duration,
    made: Answer<(FileAttr, Generation)>,
    reply: ReplyEntry,
) {
    match made {
        Ok((attr, generation)) => reply.entry(&kept, &attr, generation),
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
