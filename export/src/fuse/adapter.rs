//! Answers the kernel's requests from a filesystem that is not written.

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

use super::ahead::{Ahead, SmallFile};
use super::attributes::{kind, no_attributes};
use super::directory::{Cursors, Listing, Room, is_dot};
use super::linger::Linger;
use super::options::Options;
use super::reading::{FOREVER, Reading, report};

/// How many read-ahead requests the kernel keeps in flight: two of the largest (1 MiB) per thread
/// at the default of four threads would be 8; small ones are many more. libfuse's default is 12.
pub(super) const MAX_BACKGROUND: u16 = 64;

/// What the kernel is asked for, as far as it has it.
const WANTED: [InitFlags; 8] = [
    // Lookups and listings in one directory side by side.
    InitFlags::FUSE_PARALLEL_DIROPS,
    // Attributes come with the names. Never "adaptively": that goes back to names alone after a
    // batch whose attributes nobody asked for, and then pays one message per file.
    InitFlags::FUSE_DO_READDIRPLUS,
    // No message for open and opendir, once they answered ENOSYS.
    InitFlags::FUSE_NO_OPEN_SUPPORT,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // Contents don't change, so a changed time is no reason to drop them.
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_ASYNC_DIO,
    // Inode numbers are stable, so a file handle outlives the kernel's caches (NFS, overlayfs).
    InitFlags::FUSE_EXPORT_SUPPORT,
];

/// A filesystem as fuser wants it.
#[derive(Debug)]
pub(super) struct Adapter {
    reading: Reading,
    checks_permissions: bool,
    cursors: Cursors,
    ahead: Ahead,
}

impl Adapter {
    pub(super) fn new(
        fs: Arc<dyn FsRead>,
        options: &Options,
        linger: Linger,
        ahead: Ahead,
    ) -> Self {
        Self {
            reading: Reading::new(fs, &options.ids, linger),
            checks_permissions: options.access.checks_permissions(),
            cursors: Cursors::default(),
            ahead,
        }
    }

    fn find(&self, parent: INodeNo, name: &[u8]) -> Result<Option<(FileAttr, Generation)>> {
        let found = self.reading.find(parent, name)?;
        found.map(|inode| self.reading.entry(inode)).transpose()
    }

    /// An entry with its attributes, as far as they can be had.
    fn listed(&self, entry: &DirEntry) -> (FileAttr, Generation) {
        const NONE: Generation = Generation(0);
        if is_dot(&entry.name) {
            // Of these the kernel takes the number and the type only.
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

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reading
            .answer("lookup", || match self.find(parent, name.as_bytes()) {
                Ok(Some((attr, generation))) => reply.entry(&FOREVER, &attr, generation),
                // Number 0 tells the kernel to remember that there is no such name.
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
        // "Never ask again": the kernel opens by itself then, and keeps its pages.
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
                self.ahead.read(self.reading.nodes.inode(node));
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
                    self.ahead.listed(dir, cookie, &small);
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
