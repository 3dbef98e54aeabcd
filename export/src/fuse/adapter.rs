//! The FUSE request handlers of a read-only filesystem.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use diskfs_vfs::{DirEntry, FileType, FsRead, Result};
use fuser::{
    Errno, FileAttr, FileHandle, Filesystem, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use super::attributes::{kind, no_attributes};
use super::directory::{Cursors, Listing, Room, is_dot};
use super::options::Options;
use super::prefetch::{Prefetcher, SmallFile};
use super::reading::{FOREVER, Reading, report};
use super::request_waiter::RequestWaiter;

/// The number of read-ahead requests that the kernel keeps in flight. Two of the largest (1 MiB)
/// per thread would be 8 at the default of four threads; small requests are many more. libfuse's
/// default is 12.
pub(super) const MAX_BACKGROUND: u16 = 64;

/// The capabilities requested from the kernel; those that it lacks are left out.
const CAPABILITIES: [InitFlags; 8] = [
    // Lookups and listings in one directory run in parallel.
    InitFlags::FUSE_PARALLEL_DIROPS,
    // Attributes come with the names. The "adaptive" mode is not used: after a batch whose
    // attributes nobody asked for, it falls back to names alone and then costs one message per
    // file.
    InitFlags::FUSE_DO_READDIRPLUS,
    // The kernel sends no message for open and opendir once they were answered with ENOSYS.
    InitFlags::FUSE_NO_OPEN_SUPPORT,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // The contents don't change, so a changed time is no reason to drop cached pages.
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_ASYNC_DIO,
    // Inode numbers are stable, so a file handle outlives the kernel's caches (NFS, overlayfs).
    InitFlags::FUSE_EXPORT_SUPPORT,
];

/// The `fuser::Filesystem` implementation for a read-only filesystem.
#[derive(Debug)]
pub(super) struct Adapter {
    reading: Reading,
    checks_permissions: bool,
    cursors: Cursors,
    prefetcher: Prefetcher,
}

impl Adapter {
    pub(super) fn new(
        fs: Arc<dyn FsRead>,
        options: &Options,
        waiter: RequestWaiter,
        prefetcher: Prefetcher,
    ) -> Self {
        Self {
            reading: Reading::new(fs, &options.ids, waiter),
            checks_permissions: options.access.checks_permissions(),
            cursors: Cursors::default(),
            prefetcher,
        }
    }

    fn find(&self, parent: INodeNo, name: &[u8]) -> Result<Option<(FileAttr, Generation)>> {
        let found = self.reading.find(parent, name)?;
        found.map(|inode| self.reading.entry(inode)).transpose()
    }

    /// Returns a directory entry's attributes, or only number and type if the attributes cannot be
    /// read.
    fn listed(&self, entry: &DirEntry) -> (FileAttr, Generation) {
        const NONE: Generation = Generation(0);
        if is_dot(&entry.name) {
            // For `.` and `..`, the kernel uses only the number and the type.
            let number = INodeNo(entry.inode.0);
            return (no_attributes(number, Some(FileType::Directory)), NONE);
        }
        if !self.reading.nodes.can_be_entry(entry.inode) {
            return (no_attributes(INodeNo(u64::MAX), entry.file_type), NONE);
        }
        self.reading.entry(entry.inode).unwrap_or_else(|_| {
            let node = self.reading.nodes.node(entry.inode);
            (no_attributes(node, entry.file_type), NONE)
        })
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flags in CAPABILITIES {
            // A capability that this kernel lacks is left out.
            let _ = config.add_capabilities(flags);
        }
        if self.checks_permissions {
            // Only if permissions are checked: this flag also makes the kernel check modes.
            let _ = config.add_capabilities(InitFlags::FUSE_POSIX_ACL);
        }
        let _ = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn poll_ring(&self, has_request: &mut dyn FnMut() -> bool) {
        self.reading.poll_ring(has_request);
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reading
            .answer("lookup", || match self.find(parent, name.as_bytes()) {
                Ok(Some((attr, generation))) => reply.entry(&FOREVER, &attr, generation),
                // Inode number 0 makes the kernel cache that the name does not exist.
                Ok(None) => {
                    let nothing = no_attributes(INodeNo(0), None);
                    reply.entry(&FOREVER, &nothing, Generation(0));
                }
                Err(error) => reply.error(report("lookup", &error)),
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

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        self.reading
            .answer("readlink", || self.reading.readlink(node, reply));
    }

    fn open(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // ENOSYS means "never ask again": from then on the kernel opens files itself and keeps
        // their pages.
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(
        &self,
        _request: &Request,
        _node: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn access(
        &self,
        _request: &Request,
        _node: INodeNo,
        _mask: fuser::AccessFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
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
        self.reading.answer("read", || {
            self.reading.read(node, offset, size, reply);
            if offset == 0 {
                self.prefetcher.note_read(self.reading.nodes.inode(node));
            }
        });
    }

    fn readdir(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectory,
    ) {
        self.reading.answer("readdir", || {
            let dir = self.reading.nodes.inode(node);
            let add = |entry: &DirEntry| {
                let number = INodeNo(entry.inode.0);
                let kind = kind(entry.file_type.unwrap_or(FileType::Regular));
                let name = OsStr::from_bytes(&entry.name);
                room(reply.add(number, entry.cookie, kind, name))
            };
            match self
                .cursors
                .list(&*self.reading.fs, dir, cookie, Listing::Names, add)
            {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(report("readdir", &error)),
            }
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        cookie: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.reading.answer("readdirplus", || {
            let dir = self.reading.nodes.inode(node);
            let mut small = Vec::new();
            let add = |entry: &DirEntry| {
                let (attr, generation) = self.listed(entry);
                let name = OsStr::from_bytes(&entry.name);
                let full = reply.add(attr.ino, entry.cookie, name, &FOREVER, &attr, generation);
                if !full && attr.kind == fuser::FileType::RegularFile {
                    small.extend(SmallFile::new(entry.inode, attr.size));
                }
                room(full)
            };
            let listing = Listing::NamesAndAttributes;
            match self
                .cursors
                .list(&*self.reading.fs, dir, cookie, listing, add)
            {
                Ok(()) => {
                    self.prefetcher.note_listing(dir, cookie, &small);
                    reply.ok();
                }
                Err(error) => reply.error(report("readdirplus", &error)),
            }
        });
    }

    fn statfs(&self, _request: &Request, node: INodeNo, reply: ReplyStatfs) {
        self.reading
            .answer("statfs", || self.reading.statfs(node, reply));
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

    fn ioctl(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        _input: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        self.reading
            .answer("ioctl", || self.reading.ioctl(node, command, reply));
    }
}

pub(super) fn room(full: bool) -> Room {
    if full { Room::Full } else { Room::Left }
}
