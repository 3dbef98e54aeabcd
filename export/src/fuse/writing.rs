//! The FUSE request handlers of a read-write filesystem.
//!
//! What a program writes arrives before its write(2) returns. Data that it writes into a shared
//! mapping arrives when the file is synced or when the kernel chooses. With [`Writes::Cached`] the
//! same is true of all writes, and until then the kernel owns the sizes and times of regular files.

mod capabilities;
mod changes;
mod copy;
mod durable;
mod filesystem;
mod listing;
mod losses;
mod make;
mod notifier_thread;
mod past_cache;
mod privileges;
mod references;
mod replies;
mod set_attributes;

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread::JoinHandle;

use diskfs_vfs::{
    Error, ErrorKind, Fallocate, FileAttributes, FileFlags, FileType, FsRead, FsWrite, InodeNumber,
    Metadata, Result, SetXattr,
};
use fuser::{
    Errno, FileAttr, FileHandle, FopenFlags, Generation, INodeNo, Notifier, OpenAccMode, OpenFlags,
    ReplyDirectoryPlus, ReplyIoctl, Request, WriteFlags,
};

use super::attributes::no_attributes;
use super::directory::is_dot;
use super::ending::Written;
use super::flags;
use super::host::Host;
use super::options::{Options, Writes};
use super::reading::{Reading, guarded, is_acl, report};
use super::request_waiter::RequestWaiter;
use changes::Changes;
use durable::Changed;
use listing::{Listed, OpenDirectories};
pub(super) use losses::Losses;
use notifier_thread::NotifierThread;
use past_cache::Write;
use privileges::Requester;
use references::{References, StalePages};
use replies::is_direct;

/// The `fuser::Filesystem` implementation for a read-write filesystem.
#[derive(Debug)]
pub(super) struct WritingAdapter {
    reading: Reading,
    fs: Arc<dyn FsWrite>,
    checks_permissions: bool,
    writes: Writes,
    writes_past_cache: bool,
    references: References,
    directories: OpenDirectories,
    changes: Changes,
    notifier: Arc<OnceLock<Notifier>>,
    notifier_thread: NotifierThread,
    losses: Arc<Losses>,
    changed: Changed,
    host: Arc<dyn Host>,
}

/// The state that a server keeps of the filesystem that it serves.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) fs: Arc<dyn FsWrite>,
    pub(super) losses: Arc<Losses>,
    /// The thread that makes changes durable; it ends when the adapter is dropped.
    syncing: JoinHandle<()>,
}

impl Served {
    pub(super) fn for_ending(&self) -> Written {
        Written {
            fs: Arc::downgrade(&self.fs),
            losses: Arc::clone(&self.losses),
        }
    }

    /// Ends writing, after the adapter was dropped. Fails if some of the written data is not
    /// durable.
    pub(super) fn close(self) -> Result<()> {
        let _ = self.syncing.join();
        let kept = self.losses.check(&*self.fs);
        self.fs.close().and(kept)
    }
}

/// The process that creates a name, as the request describes it.
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

/// The reason why a request is refused: an errno from here, or an error of the filesystem.
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

/// The refusal for a host id that the image has no id for: EOVERFLOW, as on the kernel's id-mapped
/// mounts.
const NO_ID: Refusal = Refusal::Errno(Errno::EOVERFLOW);

impl WritingAdapter {
    pub(super) fn new(
        fs: Arc<dyn FsWrite>,
        options: &Options,
        waiter: RequestWaiter,
        notifier: Arc<OnceLock<Notifier>>,
    ) -> io::Result<(Self, Served)> {
        let reader: Arc<dyn FsRead> = Arc::clone(&fs) as _;
        let losses = Arc::<Losses>::default();
        let (changed, syncing) = durable::start(Arc::clone(&fs))?;
        let served = Served {
            fs: Arc::clone(&fs),
            losses: Arc::clone(&losses),
            syncing,
        };
        let adapter = Self {
            reading: Reading::new(reader, &options.ids, waiter).of_changing(),
            fs,
            checks_permissions: options.access.checks_permissions(),
            writes: options.writes,
            writes_past_cache: false,
            references: References::new(),
            directories: OpenDirectories::default(),
            changes: Changes::new(),
            notifier,
            notifier_thread: NotifierThread::default(),
            losses,
            changed,
            host: Arc::clone(&options.host),
        };
        Ok((adapter, served))
    }

    /// Answers a request that may change the filesystem.
    fn answer_change(&self, operation: &str, answer: impl FnOnce()) {
        self.changed.note();
        self.reading.answer(operation, answer);
    }

    fn inode(&self, node: INodeNo) -> InodeNumber {
        self.reading.nodes.inode(node)
    }

    /// Returns the entry of a file for a reply that makes it known to the kernel, and adds a
    /// reference.
    fn referenced_entry(&self, inode: InodeNumber) -> Result<(FileAttr, Generation)> {
        self.references.add(&*self.fs, inode);
        let entry = self.reading.entry(inode);
        if entry.is_err() {
            self.references.forget(&*self.fs, inode, 1);
        }
        entry
    }

    /// Looks up a name in a directory, or `.` of any inode, which turns a file handle into an inode.
    ///
    /// The kernel asks for `.` only if it doesn't have the inode: one without a name is not open any
    /// more, and the kernel's note that it forgets the inode is on the way.
    fn find(&self, parent: INodeNo, name: &[u8]) -> Result<Option<InodeNumber>> {
        let found = self.reading.find(parent, name)?;
        match found {
            Some(inode) if name == b"." && self.fs.metadata(inode)?.links == 0 => Ok(None),
            found => Ok(found),
        }
    }

    /// Changes names in a directory.
    fn change_names<T>(&self, dir: InodeNumber, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let result = change();
        // Also after an error: a superfluous note only costs one more look-up.
        self.changes.note(dir);
        result
    }

    /// Opens a file. Returns how the kernel caches its contents.
    fn open_file(&self, inode: InodeNumber, flags: OpenFlags) -> Result<FopenFlags> {
        if self.writes == Writes::Direct {
            return Ok(FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
        }
        if flags.acc_mode() == OpenAccMode::O_RDONLY {
            return Ok(FopenFlags::FOPEN_KEEP_CACHE);
        }
        let FileFlags {
            immutable,
            append_only,
            ..
        } = self.fs.metadata(inode)?.flags;
        let appends = flags.0 & libc::O_APPEND != 0;
        if immutable || (append_only && !appends) {
            return Err(Error::from(ErrorKind::NotPermitted).in_inode(inode));
        }
        Ok(if append_only && self.writes == Writes::Cached {
            // The cache writes whole pages, which may begin before the end of the file.
            FopenFlags::FOPEN_DIRECT_IO
        } else {
            self.caching(inode, flags)
        })
    }

    /// Truncates or extends a file, and drops the privileges that this operation drops.
    fn set_len(&self, inode: InodeNumber, size_bytes: u64, requester: Requester) -> Result<()> {
        self.fs.set_len(inode, size_bytes)?;
        if !requester.is_root() {
            privileges::drop_ids(&*self.fs, inode, |file| self.is_of_group(requester, file))?;
        }
        privileges::drop_capabilities(&*self.fs, inode)
    }

    /// Drops the privileges that a change of contents drops, unless root is the writer: for
    /// requests that don't say whether a process may keep them.
    fn drop_rights(&self, node: INodeNo, requester: Requester) -> Result<()> {
        let inode = self.inode(node);
        if !requester.is_root() {
            self.drop_ids(node, requester)?;
        }
        privileges::drop_capabilities(&*self.fs, inode)
    }

    /// Drops the capabilities of a file that is written. It looks for them only once: a filesystem in
    /// a microVM would be asked at every write.
    fn drop_capabilities(&self, inode: InodeNumber) -> Result<()> {
        if self.references.lacks_capabilities(inode) {
            return Ok(());
        }
        // Noted before the look: capabilities that are set meanwhile change the note again.
        self.references.note_lacks_capabilities(inode, true);
        let dropped = privileges::drop_capabilities(&*self.fs, inode);
        if dropped.is_err() {
            self.references.note_lacks_capabilities(inode, false);
        }
        dropped
    }

    /// Drops set-user-id and set-group-id, and invalidates the mode that the kernel has cached.
    fn drop_ids(&self, node: INodeNo, requester: Requester) -> Result<()> {
        let is_of_group = |file: &Metadata| self.is_of_group(requester, file);
        let dropped = privileges::drop_ids(&*self.fs, self.inode(node), is_of_group)?;
        if let (true, Some(notifier)) = (dropped, self.notifier.get()) {
            // Only attributes are invalidated, of a file that the asking program has open: the
            // kernel doesn't wait for anything.
            let _ = notifier.inval_inode(node, -1, 0);
        }
        Ok(())
    }

    /// Returns true if a process is a member of the file's group.
    fn is_of_group(&self, requester: Requester, file: &Metadata) -> bool {
        requester.has_group(self.reading.ids.gid.map(file.gid), &*self.host)
    }

    /// Writes to a file. Returns the number of bytes, less than all if there is no room for more.
    fn write_some(&self, write: Write<'_>) -> Result<usize> {
        let Write {
            requester,
            node,
            offset,
            data,
            flags,
            opened,
            is_past_cache,
        } = write;
        let inode = self.inode(node);
        let must_lose_ids = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        if must_lose_ids {
            self.drop_ids(node, requester)?;
        }
        // What root writes into the cache has lost its capabilities before.
        if must_lose_ids || is_past_cache {
            self.drop_capabilities(inode)?;
        }
        let (written, all) = write_all(&*self.fs, inode, offset, data);
        // The program that wrote into the cache has continued, and the kernel takes a partial write
        // for a complete one: the rest would be lost silently.
        let is_cached = flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        if let (true, Err(error)) = (is_cached, &all) {
            let lost = offset + written as u64..offset + data.len() as u64;
            self.report_loss(node, lost, error);
        }
        // One of several concurrent requests of one write: the kernel turns a partial one into EIO.
        if written == 0 || is_cached || is_direct(opened) {
            all?;
        }
        Ok(written)
    }

    /// Records data that was lost after the write had succeeded for its writer, and makes the
    /// kernel drop its pages.
    fn report_loss(&self, node: INodeNo, bytes: Range<u64>, error: &Error) {
        self.losses.note(self.inode(node), bytes, error);
        if let Some(notifier) = self.notifier.get().cloned() {
            self.notifier_thread.send(move || {
                let _ = notifier.inval_inode(node, 0, 0);
            });
        }
    }

    /// Answers a direct write after the kernel has dropped its pages of the range. For an
    /// asynchronous write, the kernel itself drops them only before it, and a reader may have
    /// fetched them again meanwhile.
    fn without_stale_pages(
        &self,
        node: INodeNo,
        stale: StalePages,
        answer: impl FnOnce() + Send + 'static,
    ) {
        match (stale.range(), self.notifier.get().cloned()) {
            (Some((offset, len)), Some(notifier)) => self.notifier_thread.send(move || {
                let _ = notifier.inval_inode(node, offset, len);
                answer();
            }),
            _ => answer(),
        }
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

    /// Drops set-group-id when a process outside the file's group sets an ACL.
    fn drop_foreign_group_id(&self, request: &Request, inode: InodeNumber) -> Result<()> {
        let metadata = self.fs.metadata(inode)?;
        let requester = Requester::new(request);
        let is_allowed = requester.is_root()
            || !privileges::has_group_id(&metadata)
            || self.is_of_group(requester, &metadata);
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
        let set = self.fs.set_xattr(inode, name, value, how);
        if name == privileges::CAPABILITY {
            self.references.note_lacks_capabilities(inode, false);
        }
        Ok(set?)
    }

    /// Lists a directory from `cookie` on, until `take` reports that there is no room for more.
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
        // The kernel changes no name in a directory while it lists it, so this stays valid.
        let is_stale = snapshot.is_stale(dir, &self.changes);
        let mut at = cookie;
        while let Some(mut entry) = snapshot.at(at) {
            at = entry.cookie;
            if is_stale && !is_dot(entry.name) {
                match self.fs.lookup(dir, entry.name) {
                    Ok(inode) if inode == entry.inode => {}
                    Ok(inode) => (entry.inode, entry.file_type) = (inode, None),
                    // The file was removed; an entry with attributes would recreate it in the
                    // kernel's cache.
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

    /// Adds an entry with its attributes, or only number and type if the attributes cannot be read.
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
            // For `.` and `..`, the kernel uses only the number and the type.
            let number = INodeNo(entry.inode.0);
            return add(no_attributes(number, Some(FileType::Directory)), NONE);
        }
        if !self.reading.nodes.can_be_entry(entry.inode) {
            return add(no_attributes(INodeNo(u64::MAX), entry.file_type), NONE);
        }
        // The kernel later also forgets entries that it could not use.
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

    /// Handles `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR`. Before a file becomes immutable, data
    /// that was written earlier must be fetched from the kernel's cache. That waits for answers of
    /// ours, so a thread that answers requests must not do it.
    fn set_flags(
        &self,
        node: INodeNo,
        wanted: impl FnOnce(FileAttributes) -> Option<FileAttributes>,
        reply: ReplyIoctl,
    ) {
        let (fs, inode) = (Arc::clone(&self.fs), self.inode(node));
        let old = match fs.file_attributes(inode) {
            Ok(old) => old,
            Err(error) => return reply.error(report("ioctl", &error)),
        };
        let Some(wanted) = wanted(old) else {
            return reply.error(Errno::EINVAL);
        };
        let notifier = self.notifier.get().cloned();
        let set = move || {
            if let Some(notifier) = &notifier
                && wanted.flags & (flags::IMMUTABLE | flags::APPEND_ONLY) != 0
            {
                let _ = notifier.inval_inode(node, 0, 0);
            }
            guarded("ioctl", || match fs.set_file_attributes(inode, wanted) {
                Ok(()) => {
                    // Invalidate the time of change: the kernel keeps the old one after an ioctl.
                    if let Some(notifier) = &notifier {
                        let _ = notifier.inval_inode(node, -1, 0);
                    }
                    reply.ioctl(0, &[]);
                }
                Err(error) => reply.error(report("ioctl", &error)),
            });
        };
        self.notifier_thread.send(set);
    }
}

/// Writes as much as possible. Returns the number of bytes, and the error that stopped it early.
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

/// The answer to an offered entry: whether the reply is full.
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
