//! The answers that are the same for read-only and read-write mounts.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use diskfs_vfs::{Error, ErrorKind, FileExtentKind, FsRead, InodeNumber, Result};
use fuser::{
    Errno, FileAttr, Generation, INodeNo, ReplyAttr, ReplyData, ReplyIoctl, ReplyLseek,
    ReplyStatfs, ReplyXattr,
};

use super::attributes::{Nodes, attributes};
use super::flags::{FS_IOC_FSGETXATTR, FS_IOC_GETFLAGS, fsxattr};
use super::id_map::IdMap;
use super::request_waiter::RequestWaiter;

/// The time for which the kernel may cache names and attributes. Nobody else changes the image
/// while it is open, so this means forever: ten years, which overflows no kernel's clock
/// arithmetic.
pub(super) const FOREVER: Duration = Duration::from_hours(10 * 365 * 24);

thread_local! {
    /// The buffer for read requests. It is reused, because allocating and clearing a megabyte for
    /// each request costs as much as reading it.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Passes a buffer of `len` bytes to `work`; its contents are unspecified.
pub(super) fn with_buffer<T>(len: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        work(&mut buffer[..len])
    })
}

/// A filesystem with the mapping of its inode numbers and ids.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) fs: Arc<dyn FsRead>,
    pub(super) nodes: Nodes,
    pub(super) ids: IdMap,
    /// The time for which the kernel may cache names and attributes.
    pub(super) kept: Duration,
    waiter: RequestWaiter,
}

impl Reading {
    pub(super) fn new(fs: Arc<dyn FsRead>, ids: &IdMap, waiter: RequestWaiter) -> Self {
        Self {
            nodes: Nodes::new(fs.root()),
            ids: ids.clone(),
            kept: FOREVER,
            fs,
            waiter,
        }
    }

    /// Adapts the cache time to a filesystem that is written. If a directory can have several inode
    /// numbers, the kernel may cache nothing: a change under one number would leave the cache of
    /// the other stale.
    pub(super) fn of_changing(self) -> Self {
        let kept = if self.fs.has_aliases() {
            Duration::ZERO
        } else {
            self.kept
        };
        Self { kept, ..self }
    }

    /// Answers a request, and tells [`RequestWaiter`] that this thread then waits for the next one.
    pub(super) fn answer(&self, operation: &str, answer: impl FnOnce()) {
        self.waiter.note_request();
        guarded(operation, answer);
        self.waiter.wait_for_next();
    }

    /// Busy-polls for the next request over a ring.
    pub(super) fn poll_ring(&self, has_request: &mut dyn FnMut() -> bool) {
        self.waiter.wait_for_ring(has_request);
    }

    /// Returns the answer to `lookup`: the attributes with the node's number, and the generation.
    pub(super) fn entry(&self, inode: InodeNumber) -> Result<(FileAttr, Generation)> {
        let node = self.nodes.node(inode);
        let metadata = self.fs.metadata(inode)?;
        let generation = Generation(metadata.generation.into());
        Ok((attributes(&metadata, node, &self.ids), generation))
    }

    /// Looks up a name in a directory. Returns `None` if it does not exist.
    pub(super) fn find(&self, parent: INodeNo, name: &[u8]) -> Result<Option<InodeNumber>> {
        let dir = self.nodes.inode(parent);
        // The kernel looks up `.`, even of a regular file, to turn a file handle into an inode.
        if name == b"." {
            return Ok(Some(dir));
        }
        let inode = match self.fs.lookup(dir, name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if name != b".." && !self.nodes.can_be_entry(inode) {
            let reason = "invalid directory entry: it names the root or inode 0";
            return Err(Error::new(ErrorKind::Corrupt, reason).in_inode(dir));
        }
        Ok(Some(inode))
    }

    pub(super) fn getattr(&self, node: INodeNo, reply: ReplyAttr) {
        let inode = self.nodes.inode(node);
        match self.fs.metadata(inode) {
            Ok(metadata) => {
                let attr = attributes(&metadata, INodeNo(inode.0), &self.ids);
                reply.attr(&self.kept, &attr);
            }
            Err(error) => reply.error(report("getattr", &error)),
        }
    }

    pub(super) fn readlink(&self, node: INodeNo, reply: ReplyData) {
        match self.fs.read_link(self.nodes.inode(node)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(report("readlink", &error)),
        }
    }

    pub(super) fn read(&self, node: INodeNo, offset: u64, size: u32, reply: ReplyData) {
        with_buffer(
            usize::try_from(size).unwrap_or_default(),
            |buffer| match self.fs.read_at(self.nodes.inode(node), offset, buffer) {
                Ok(read) => reply.data(&buffer[..read]),
                Err(error) => reply.error(report("read", &error)),
            },
        );
    }

    pub(super) fn statfs(&self, node: INodeNo, reply: ReplyStatfs) {
        match self.fs.statistics_at(self.nodes.inode(node)) {
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
        }
    }

    pub(super) fn getxattr(&self, node: INodeNo, name: &[u8], size: u32, reply: ReplyXattr) {
        match self.xattr(self.nodes.inode(node), name) {
            Ok(Some(value)) => reply_sized(reply, size, &value),
            Ok(None) => reply.error(Errno::ENODATA),
            Err(error) => reply.error(report("getxattr", &error)),
        }
    }

    pub(super) fn listxattr(&self, node: INodeNo, size: u32, reply: ReplyXattr) {
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
    }

    pub(super) fn lseek(&self, node: INodeNo, offset: i64, whence: i32, reply: ReplyLseek) {
        let Some(target) = SeekTarget::from_whence(whence) else {
            return reply.error(Errno::EINVAL);
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(Errno::ENXIO);
        };
        match self.seek(self.nodes.inode(node), offset, target) {
            Ok(found) => match found.map(i64::try_from) {
                Some(Ok(found)) => reply.offset(found),
                Some(Err(_)) => reply.error(Errno::EOVERFLOW),
                None => reply.error(Errno::ENXIO),
            },
            Err(error) => reply.error(report("lseek", &error)),
        }
    }

    pub(super) fn ioctl(&self, node: INodeNo, command: u32, reply: ReplyIoctl) {
        if !matches!(command, FS_IOC_GETFLAGS | FS_IOC_FSGETXATTR) {
            return reply.error(Errno::ENOTTY);
        }
        match self.fs.file_attributes(self.nodes.inode(node)) {
            Ok(found) if command == FS_IOC_FSGETXATTR => reply.ioctl(0, &fsxattr(found)),
            Ok(found) => reply.ioctl(0, &found.flags.to_ne_bytes()),
            Err(error) => reply.error(report("ioctl", &error)),
        }
    }

    /// Performs `lseek` with `SEEK_DATA` or `SEEK_HOLE`; `None` past the end, and if no data
    /// follows.
    fn seek(&self, inode: InodeNumber, offset: u64, target: SeekTarget) -> Result<Option<u64>> {
        let size = self.fs.metadata(inode)?.size_bytes;
        if offset >= size {
            return Ok(None);
        }
        for extent in self.fs.extents_of(inode, offset)? {
            let extent = extent?;
            let is_hole = extent.kind == FileExtentKind::Hole;
            if is_hole == (target == SeekTarget::Hole) {
                return Ok(Some(extent.offset.max(offset)));
            }
        }
        // The end of the file counts as a hole.
        Ok((target == SeekTarget::Hole).then_some(size))
    }

    fn xattr(&self, inode: InodeNumber, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = self.fs.xattr(inode, name)?;
        if let Some(value) = &mut value
            && is_acl(name)
            && !self.ids.is_identity()
        {
            self.ids.map_acl(value);
        }
        Ok(value)
    }
}

/// Returns true if an extended attribute is a POSIX ACL.
pub(super) fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// The target of a `lseek`: data or a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeekTarget {
    Data,
    Hole,
}

impl SeekTarget {
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

/// Converts an error into the errno for the asking program. Damage of the image is logged, with the
/// place and the cause for which an errno has no room.
pub(super) fn report(operation: &str, error: &Error) -> Errno {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Corrupt => {
            let cause = std::error::Error::source(error);
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            tracing::warn!(operation, "{error}{cause}");
        }
        _ => tracing::debug!(operation, "{error}"),
    }
    errno(error)
}

/// Runs one request. A panic is our bug, but it must neither end the mount nor leave the asking
/// program waiting: the reply is dropped while unwinding and answers EIO.
pub(super) fn guarded(operation: &str, answer: impl FnOnce()) {
    if panic::catch_unwind(AssertUnwindSafe(answer)).is_err() {
        tracing::error!(
            operation,
            "request handler panicked; answered with an input/output error"
        );
    }
}

/// Replies with the value of an attribute, or a list of names, by the two-step protocol of
/// getxattr(2).
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
