//! The FUSE requests one by one: decoding of the arguments and encoding of the reply.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use diskfs_vfs::{FileType, NewKind, SyncFile};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};

use super::super::adapter::MAX_BACKGROUND;
use super::super::attributes::{decode_device, kind, no_attributes};
use super::super::flags::{FS_IOC_FSSETXATTR, FS_IOC_SETFLAGS, with_flags, with_fsxattr};
use super::super::options::Writes;
use super::super::reading::report;
use super::capabilities::{CAPABILITIES, PAST_CACHE, WRITE_BACK_CAPABILITIES};
use super::copy::{self, FileOffset};
use super::listing::Listed;
use super::past_cache::{Write, answer_write};
use super::privileges::Requester;
use super::replies::{rename_mode, reply_empty, reply_entry};
use super::set_attributes::AttributeChanges;
use super::{Full, Maker, Refusal, WritingAdapter};

/// The handle of every open file: files have no state per handle.
const NO_HANDLE: FileHandle = FileHandle(0);

impl Filesystem for WritingAdapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let to_cache = match self.writes {
            Writes::Through | Writes::Direct => &[][..],
            Writes::Cached => &WRITE_BACK_CAPABILITIES,
        };
        self.writes_past_cache =
            self.writes == Writes::Through && config.add_capabilities(PAST_CACHE).is_ok();
        for &flags in CAPABILITIES.iter().chain(to_cache) {
            // A capability that this kernel lacks is left out.
            let _ = config.add_capabilities(flags);
        }
        if self.checks_permissions {
            // Only if permissions are checked: this flag also makes the kernel check modes.
            let _ = config.add_capabilities(InitFlags::FUSE_POSIX_ACL);
        }
        // So a time in the kernel's cache is the time that the image stores.
        let _ = config.set_time_granularity(self.fs.time_granularity());
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn poll_ring(&self, has_request: &mut dyn FnMut() -> bool) {
        self.reading.poll_ring(has_request);
    }

    fn destroy(&mut self) {
        self.reading
            .answer("destroy", || self.references.forget_all(&*self.fs));
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reading.answer("lookup", || {
            let found = self.find(parent, name.as_bytes());
            match found
                .and_then(|found| found.map(|inode| self.referenced_entry(inode)).transpose())
            {
                Ok(Some((attr, generation))) => reply.entry(&self.reading.kept, &attr, generation),
                // Inode number 0 makes the kernel cache that the name does not exist.
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
        self.answer_change("setattr", || {
            let changes = AttributeChanges {
                mode,
                uid,
                gid,
                size,
                accessed,
                modified,
                changed,
            };
            match self.set_attributes(self.inode(node), &changes, Requester::new(request)) {
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
        self.answer_change("mknod", || {
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
        self.answer_change("mkdir", || {
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
        self.answer_change("symlink", || {
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
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.answer_change("create", || {
            let maker = Maker::new(request, mode, umask);
            match self.make(parent, name, NewKind::Regular, maker) {
                Ok((attr, generation)) => {
                    let flags = self.caching(self.inode(attr.ino), OpenFlags(flags));
                    reply.created(&self.reading.kept, &attr, generation, NO_HANDLE, flags);
                }
                Err(refusal) => reply.error(refusal.report("create")),
            }
        });
    }

    fn tmpfile(
        &self,
        request: &Request,
        parent: INodeNo,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.answer_change("tmpfile", || {
            let maker = Maker::new(request, mode, umask);
            match self.make_unnamed(parent, maker) {
                Ok((attr, generation)) => {
                    let flags = self.caching(self.inode(attr.ino), OpenFlags(flags));
                    reply.created(&self.reading.kept, &attr, generation, NO_HANDLE, flags);
                }
                Err(refusal) => reply.error(refusal.report("tmpfile")),
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
        self.answer_change("link", || {
            let (inode, dir) = (self.inode(node), self.inode(parent));
            let linked = self.change_names(dir, || self.fs.link(inode, dir, name.as_bytes()));
            let entry = linked.and_then(|()| self.referenced_entry(inode));
            reply_entry(
                "link",
                self.reading.kept,
                entry.map_err(Refusal::from),
                reply,
            );
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.answer_change("unlink", || {
            let dir = self.inode(parent);
            let done = self.change_names(dir, || self.fs.unlink(dir, name.as_bytes()));
            reply_empty("unlink", done.map_err(Refusal::from), reply);
        });
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.answer_change("rmdir", || {
            let dir = self.inode(parent);
            let done = self.change_names(dir, || self.fs.rmdir(dir, name.as_bytes()));
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
        self.answer_change("rename", || {
            let Some(mode) = rename_mode(flags) else {
                return reply.error(Errno::EINVAL);
            };
            let (dir, to_dir) = (self.inode(parent), self.inode(to_parent));
            let (name, to_name) = (name.as_bytes(), to_name.as_bytes());
            let done = self.change_names(dir, || self.fs.rename(dir, name, to_dir, to_name, mode));
            self.changes.note(to_dir);
            reply_empty("rename", done.map_err(Refusal::from), reply);
        });
    }

    fn open(&self, _request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.reading
            .answer("open", || match self.open_file(self.inode(node), flags) {
                Ok(flags) => reply.opened(NO_HANDLE, flags),
                Err(error) => reply.error(report("open", &error)),
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
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.reading.answer("read", || {
            // Only what goes past the cache has a lock owner.
            if lock_owner.is_none() {
                self.references.note_pages(self.inode(node));
            }
            self.reading.read(node, offset, size, reply);
        });
    }

    fn write(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.answer_change("write", || {
            let write = Write {
                requester: Requester::new(request),
                node,
                offset,
                data,
                flags: write_flags,
                opened: flags,
                // The open flags don't tell: fcntl(2) can set O_DIRECT while a write into the cache
                // is on its way, and its pages are locked until the answer. A notification before
                // the answer would wait for them forever.
                is_past_cache: lock_owner.is_some(),
            };
            if write.is_past_cache {
                return self.write_past_cache(write, reply);
            }
            self.references.note_pages(self.inode(node));
            answer_write(self.write_some(write), reply);
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
        // Before it sends flush, the kernel writes back its data and reports the errors of that
        // itself.
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
        // A directory's names are both its data and its metadata.
        self.fsync(request, node, handle, false, reply);
    }

    fn opendir(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Listings don't come from the kernel's cache: a program in the middle of a listing would
        // continue at a position that no longer exists when the cache is renewed.
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
        self.answer_change("setxattr", || {
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
        self.answer_change("removexattr", || {
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
        self.answer_change("ioctl", || match command {
            FS_IOC_SETFLAGS => self.set_flags(node, |old| with_flags(input, old), reply),
            FS_IOC_FSSETXATTR => self.set_flags(node, |old| with_fsxattr(input, old), reply),
            _ => self.reading.ioctl(node, command, reply),
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        len_bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.answer_change("fallocate", || {
            let dropped = self.drop_rights(node, Requester::new(request));
            let done = dropped
                .and_then(|()| self.fallocate_range(self.inode(node), offset, len_bytes, mode));
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
        request: &Request,
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
        self.answer_change("copy_file_range", || {
            let at = |node, offset| FileOffset {
                inode: self.inode(node),
                offset,
            };
            let (from, to) = (at(from_node, from_offset), at(to_node, to_offset));
            let dropped = self.drop_rights(to_node, Requester::new(request));
            match dropped.and_then(|()| copy::copy(&*self.fs, from, to, len_bytes)) {
                Ok(copied) => reply.written(u32::try_from(copied).unwrap_or(u32::MAX)),
                Err(error) => reply.error(report("copy_file_range", &error)),
            }
        });
    }
}
