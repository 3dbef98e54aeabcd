//! Answers the kernel's requests from a filesystem.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use diskfs_vfs::{
    DirEntry, Error, ErrorKind, FileExtentKind, FileFlags, FileType, FsRead, InodeNumber, Result,
};
use fuser::{
    Errno, FileAttr, FileHandle, Filesystem, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use super::ahead::{Ahead, SmallFile};
use super::attributes::{Nodes, attributes, kind, no_attributes};
use super::directory::{Cursors, Listing, Room, is_dot};
use super::id_map::IdMap;
use super::options::Options;

/// How long the kernel may keep what it was told. Nobody else changes the image while it is open,
/// so this stands for forever: ten years, which no kernel's clock arithmetic overflows on.
const FOREVER: Duration = Duration::from_hours(10 * 365 * 24);

/// How many read-ahead requests the kernel keeps in flight: two of the largest (1 MiB) per thread
/// at the default of four threads would be 8; small ones are many more. libfuse's default is 12.
const MAX_BACKGROUND: u16 = 64;

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

/// `FS_IOC_GETFLAGS` of linux/fs.h, `_IOR('f', 1, long)`, on hosts of 64 bits; the value is an
/// `int` all the same.
const FS_IOC_GETFLAGS: u32 = 0x8008_6601;

thread_local! {
    /// Where a read puts its bytes: kept, because a megabyte that is allocated and cleared for
    /// every request costs as much as reading it.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A filesystem as fuser wants it.
#[derive(Debug)]
pub(super) struct Adapter {
    fs: Arc<dyn FsRead>,
    nodes: Nodes,
    ids: IdMap,
    checks_permissions: bool,
    cursors: Cursors,
    ahead: Ahead,
}

impl Adapter {
    pub(super) fn new(fs: Arc<dyn FsRead>, options: &Options, ahead: Ahead) -> Self {
        Self {
            nodes: Nodes::new(fs.root()),
            ids: options.ids.clone(),
            checks_permissions: options.access.checks_permissions(),
            cursors: Cursors::default(),
            ahead,
            fs,
        }
    }

    /// What `lookup` tells: the attributes, the node's number in them, and the generation.
    fn entry(&self, inode: InodeNumber) -> Result<(FileAttr, Generation)> {
        let node = self.nodes.node(inode);
        let metadata = self.fs.metadata(inode)?;
        let generation = Generation(metadata.generation.into());
        Ok((attributes(&metadata, node, &self.ids), generation))
    }

    fn find(&self, parent: INodeNo, name: &[u8]) -> Result<Option<(FileAttr, Generation)>> {
        let dir = self.nodes.inode(parent);
        // `.` of anything, even of a file, is how the kernel turns a file handle into an inode.
        if name == b"." {
            return self.entry(dir).map(Some);
        }
        let inode = match self.fs.lookup(dir, name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if name != b".." && !self.nodes.can_be_entry(inode) {
            let reason = "directory entry names the root or inode 0";
            return Err(Error::new(ErrorKind::Corrupt, reason).in_inode(dir));
        }
        self.entry(inode).map(Some)
    }

    /// An entry with its attributes, as far as they can be had.
    fn listed(&self, entry: &DirEntry) -> (FileAttr, Generation) {
        const NONE: Generation = Generation(0);
        if is_dot(&entry.name) {
            // Of these the kernel takes the number and the type only.
            let number = INodeNo(entry.inode.0);
            return (no_attributes(number, Some(FileType::Directory)), NONE);
        }
        if !self.nodes.can_be_entry(entry.inode) {
            return (no_attributes(INodeNo(u64::MAX), entry.file_type), NONE);
        }
        self.entry(entry.inode).unwrap_or_else(|_| {
            let node = self.nodes.node(entry.inode);
            (no_attributes(node, entry.file_type), NONE)
        })
    }

    /// `lseek` with `SEEK_DATA` or `SEEK_HOLE`; `None` past the end, and when no data follows.
    fn seek(&self, inode: InodeNumber, offset: u64, wanted: Wanted) -> Result<Option<u64>> {
        let size = self.fs.metadata(inode)?.size_bytes;
        if offset >= size {
            return Ok(None);
        }
        for extent in self.fs.extents_of(inode, offset)? {
            let extent = extent?;
            let is_hole = extent.kind == FileExtentKind::Hole;
            if is_hole == (wanted == Wanted::Hole) {
                return Ok(Some(extent.offset.max(offset)));
            }
        }
        // The end of the file counts as a hole.
        Ok((wanted == Wanted::Hole).then_some(size))
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = self.fs.xattr(inode, name)?;
        if let Some(value) = &mut value
            && name.starts_with(b"system.posix_acl_")
            && !self.ids.is_identity()
        {
            self.ids.map_acl(value);
        }
        Ok(value)
    }
}

/// What `lseek` looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Data,
    Hole,
}

impl Wanted {
    fn from_whence(whence: i32) -> Option<Self> {
        match whence {
            libc::SEEK_DATA => Some(Self::Data),
            libc::SEEK_HOLE => Some(Self::Hole),
            _ => None,
        }
    }
}

fn errno(error: &Error) -> Errno {
    Errno::from_i32(error.kind().errno())
}

/// Turns an error into what the asking program sees. What is wrong with the image is logged, with
/// the place that an errno has no room for.
fn report(operation: &str, error: &Error) -> Errno {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Corrupt => tracing::warn!(operation, "{error}"),
        _ => tracing::debug!(operation, "{error}"),
    }
    errno(error)
}

/// Runs one request. A panic is our bug, but it must not take the mount with it, nor leave the
/// asking program waiting: the reply that is dropped on the way out says EIO.
fn guarded(operation: &str, answer: impl FnOnce()) {
    if panic::catch_unwind(AssertUnwindSafe(answer)).is_err() {
        tracing::error!(operation, "panicked; answered with an input/output error");
    }
}

/// The value of an attribute, or a list of names, by the two-step protocol of getxattr(2).
fn reply_sized(reply: ReplyXattr, size: u32, value: &[u8]) {
    let len = u32::try_from(value.len()).unwrap_or(u32::MAX);
    if size == 0 {
        reply.size(len);
    } else if len > size {
        reply.error(Errno::ERANGE);
    } else {
        reply.data(value);
    }
}

/// The flags of chattr(1) by their bits in linux/fs.h.
fn flag_bits(flags: FileFlags) -> u32 {
    [
        (flags.immutable, 0x0000_0010),
        (flags.append_only, 0x0000_0020),
        (flags.no_dump, 0x0000_0040),
        (flags.encrypted, 0x0000_0800),
        (flags.verity, 0x0010_0000),
        (flags.casefold, 0x4000_0000),
    ]
    .into_iter()
    .filter_map(|(set, bit)| set.then_some(bit))
    .sum()
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
        guarded("lookup", || match self.find(parent, name.as_bytes()) {
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
        guarded("getattr", || {
            let inode = self.nodes.inode(node);
            match self.fs.metadata(inode) {
                Ok(metadata) => {
                    let attr = attributes(&metadata, INodeNo(inode.0), &self.ids);
                    reply.attr(&FOREVER, &attr);
                }
                Err(error) => reply.error(report("getattr", &error)),
            }
        });
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        guarded("readlink", || {
            match self.fs.read_link(self.nodes.inode(node)) {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(report("readlink", &error)),
            }
        });
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
        guarded("read", || {
            BUFFER.with_borrow_mut(|buffer| {
                let wanted = usize::try_from(size).unwrap_or_default();
                if buffer.len() < wanted {
                    buffer.resize(wanted, 0);
                }
                let buffer = &mut buffer[..wanted];
                match self.fs.read_at(self.nodes.inode(node), offset, buffer) {
                    Ok(read) => reply.data(&buffer[..read]),
                    Err(error) => reply.error(report("read", &error)),
                }
            });
            if offset == 0 {
                self.ahead.read(self.nodes.inode(node));
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
        guarded("readdir", || {
            let dir = self.nodes.inode(node);
            let add = |entry: &DirEntry| {
                let number = INodeNo(entry.inode.0);
                let kind = kind(entry.file_type.unwrap_or(FileType::Regular));
                let name = OsStr::from_bytes(&entry.name);
                room(reply.add(number, entry.cookie, kind, name))
            };
            match self
                .cursors
                .list(&*self.fs, dir, cookie, Listing::Names, add)
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
        guarded("readdirplus", || {
            let dir = self.nodes.inode(node);
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
            match self.cursors.list(&*self.fs, dir, cookie, listing, add) {
                Ok(()) => {
                    self.ahead.listed(dir, cookie, &small);
                    reply.ok();
                }
                Err(error) => reply.error(report("readdirplus", &error)),
            }
        });
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        guarded("statfs", || match self.fs.statistics() {
            Ok(s) => reply.statfs(
                s.blocks,
                s.blocks_free,
                s.blocks_available,
                s.inodes,
                s.inodes_free,
                s.block_size,
                s.name_max,
                s.block_size,
            ),
            Err(error) => reply.error(report("statfs", &error)),
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
        guarded("getxattr", || {
            match self.xattr(self.nodes.inode(node), name.as_bytes()) {
                Ok(Some(value)) => reply_sized(reply, size, &value),
                Ok(None) => reply.error(Errno::ENODATA),
                Err(error) => reply.error(report("getxattr", &error)),
            }
        });
    }

    fn listxattr(&self, _request: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        guarded("listxattr", || {
            match self.fs.list_xattrs(self.nodes.inode(node)) {
                Ok(names) => {
                    let mut list = Vec::new();
                    for name in names {
                        list.extend_from_slice(&name);
                        list.push(0);
                    }
                    reply_sized(reply, size, &list);
                }
                Err(error) => reply.error(report("listxattr", &error)),
            }
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
        guarded("lseek", || {
            let Some(wanted) = Wanted::from_whence(whence) else {
                return reply.error(Errno::EINVAL);
            };
            let Ok(offset) = u64::try_from(offset) else {
                return reply.error(Errno::ENXIO);
            };
            match self.seek(self.nodes.inode(node), offset, wanted) {
                Ok(found) => match found.map(i64::try_from) {
                    Some(Ok(found)) => reply.offset(found),
                    Some(Err(_)) => reply.error(Errno::EOVERFLOW),
                    None => reply.error(Errno::ENXIO),
                },
                Err(error) => reply.error(report("lseek", &error)),
            }
        });
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
        guarded("ioctl", || {
            if command != FS_IOC_GETFLAGS {
                return reply.error(Errno::ENOTTY);
            }
            match self.fs.metadata(self.nodes.inode(node)) {
                Ok(metadata) => reply.ioctl(0, &flag_bits(metadata.flags).to_ne_bytes()),
                Err(error) => reply.error(report("ioctl", &error)),
            }
        });
    }
}

fn room(full: bool) -> Room {
    if full { Room::Full } else { Room::Left }
}
