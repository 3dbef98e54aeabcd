//! The mapping from inode numbers to files.

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{Error, ErrorKind, InodeNumber, Metadata, Result};
use quick_cache::sync::Cache;
use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags, openat, statx};

use super::attributes::metadata;
use super::errors::{failed, io_failed};
use super::node::Node;
use crate::kernel_calls::Handle;

/// The number of files in the cache of open files.
const OPEN_FILES: usize = 1024;

/// The bit from which on the inode number of a file on another device than the root's (a btrfs
/// subvolume) contains the number of that device.
const DEVICE_SHIFT: u32 = 48;

/// The way in which files are found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupMethod {
    /// By handles, which are valid as long as the file exists.
    Handles,
    /// By open descriptors: the filesystem's handles don't last, or it has none.
    Open,
}

/// The files that were reported to the client.
pub(super) struct Inodes {
    method: LookupMethod,
    root: InodeNumber,
    root_device: (u32, u32),
    mount_id: u64,
    state: Mutex<InodeTable>,
    open: Cache<InodeNumber, Arc<Node>>,
}

#[derive(Default)]
struct InodeTable {
    known: HashMap<InodeNumber, Known>,
    /// The devices besides the root's, in the order in which they were found.
    devices: Vec<(u32, u32)>,
}

#[derive(Default)]
struct Known {
    handle: Option<Handle>,
    /// True if opening the file for reading has no side effects, unlike a FIFO or a device.
    is_regular: bool,
    /// The descriptor that stays open as long as the file is known or held.
    pinned: Option<Arc<Node>>,
    holds: u64,
    /// True after the file has lost its last name.
    is_gone: bool,
}

impl Inodes {
    pub(super) fn new(method: LookupMethod, root: Node) -> Result<Self> {
        let stat = root.statx()?;
        let number = InodeNumber(stat.stx_ino);
        // Some filesystems have no handles.
        let has_handles = Handle::of(root.fd(), c"").is_ok();
        let method = if has_handles {
            method
        } else {
            LookupMethod::Open
        };
        let known = Known {
            pinned: Some(Arc::new(root)),
            ..Known::default()
        };
        Ok(Self {
            method,
            root: number,
            root_device: (stat.stx_dev_major, stat.stx_dev_minor),
            mount_id: stat.stx_mnt_id,
            state: Mutex::new(InodeTable {
                known: [(number, known)].into(),
                devices: Vec::new(),
            }),
            open: Cache::new(OPEN_FILES),
        })
    }

    pub(super) fn root(&self) -> InodeNumber {
        self.root
    }

    fn state(&self) -> MutexGuard<'_, InodeTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the inode number of a file on this filesystem.
    fn number(&self, stat: &Statx) -> Result<InodeNumber> {
        if stat.stx_mnt_id != self.mount_id {
            return Err(ErrorKind::CrossesDevices.into());
        }
        let device = (stat.stx_dev_major, stat.stx_dev_minor);
        if device == self.root_device {
            return Ok(InodeNumber(stat.stx_ino));
        }
        let mut state = self.state();
        let known = state.devices.iter().position(|known| *known == device);
        let index = known.unwrap_or_else(|| {
            state.devices.push(device);
            state.devices.len().saturating_sub(1)
        });
        let high = u16::try_from(index.saturating_add(1)).ok();
        let high = high.filter(|_| stat.stx_ino >> DEVICE_SHIFT == 0);
        let high = high.ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "a subvolume's inode numbers are too large",
            )
        })?;
        Ok(InodeNumber(
            (u64::from(high) << DEVICE_SHIFT) | stat.stx_ino,
        ))
    }

    /// Returns the generation of a file that is known by its handle.
    fn known_generation(&self, inode: InodeNumber) -> Option<u32> {
        let state = self.state();
        let known = state.known.get(&inode)?;
        Some(known.handle.as_ref().map_or(0, Handle::generation))
    }

    /// Looks up `name` in `dir`.
    pub(super) fn lookup(&self, dir: &Node, name: &CStr) -> Result<Metadata> {
        let stat = stat_at(dir, name)?;
        let inode = self.number(&stat)?;
        if let Some(generation) = self.known_generation(inode) {
            return metadata(inode, generation, &stat);
        }
        self.register_named(dir, name, inode, &stat)
    }

    /// Adds a file that was not reported before.
    fn register_named(
        &self,
        dir: &Node,
        name: &CStr,
        inode: InodeNumber,
        stat: &Statx,
    ) -> Result<Metadata> {
        if self.method == LookupMethod::Handles {
            let handle = Handle::of(dir.fd(), name).map_err(|error| io_failed(&error))?;
            // The name may belong to another file by now.
            if handle.may_be_of(stat.stx_ino) {
                let generation = handle.generation();
                self.know(inode, handle, stat);
                return metadata(inode, generation, stat);
            }
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(dir.fd(), name, flags, Mode::empty()).map_err(failed)?;
        self.register(Node::of_path(fd))
    }

    /// Adds an open file. Returns its metadata.
    pub(super) fn register(&self, node: Node) -> Result<Metadata> {
        let stat = node.statx()?;
        let inode = self.number(&stat)?;
        self.register_as(inode, node, &stat)
    }

    fn register_as(&self, inode: InodeNumber, node: Node, stat: &Statx) -> Result<Metadata> {
        if inode == self.root {
            return metadata(inode, 0, stat);
        }
        let node = Arc::new(node);
        let generation = match self.method {
            LookupMethod::Handles => {
                let handle = Handle::of(node.fd(), c"").map_err(|error| io_failed(&error))?;
                let generation = handle.generation();
                self.know(inode, handle, stat);
                self.open.insert(inode, node);
                generation
            }
            LookupMethod::Open => {
                let known = Known {
                    pinned: Some(node),
                    ..Known::default()
                };
                self.state().known.entry(inode).or_insert(known);
                0
            }
        };
        metadata(inode, generation, stat)
    }

    /// Adds a file that was just created: another file may have had its inode number before.
    pub(super) fn register_new(&self, node: Node) -> Result<Metadata> {
        let stat = node.statx()?;
        let inode = self.number(&stat)?;
        self.forget(inode);
        self.register_as(inode, node, &stat)
    }

    fn know(&self, inode: InodeNumber, handle: Handle, stat: &Statx) {
        let mut state = self.state();
        let known = state.known.entry(inode).or_default();
        if known.handle.is_none() {
            known.handle = Some(handle);
            known.is_regular = u32::from(stat.stx_mode) & libc::S_IFMT == libc::S_IFREG;
        }
    }

    fn forget(&self, inode: InodeNumber) {
        if inode != self.root {
            self.state().known.remove(&inode);
            self.open.remove(&inode);
        }
    }

    /// Returns an open descriptor of a file that was reported before.
    pub(super) fn node(&self, mount: BorrowedFd<'_>, inode: InodeNumber) -> Result<Arc<Node>> {
        if let Some(node) = self.open.get(&inode) {
            return Ok(node);
        }
        let (handle, is_regular) = {
            let state = self.state();
            let known = state.known.get(&inode).ok_or(ErrorKind::NotFound)?;
            if let Some(node) = &known.pinned {
                return Ok(Arc::clone(node));
            }
            let handle = known.handle.clone().ok_or(ErrorKind::NotFound)?;
            (handle, known.is_regular)
        };
        let node = Arc::new(open(&handle, mount, is_regular)?);
        self.open.insert(inode, Arc::clone(&node));
        Ok(node)
    }

    /// Returns the metadata of a file that was reported before.
    pub(super) fn metadata(&self, node: &Node, inode: InodeNumber) -> Result<Metadata> {
        let generation = self.known_generation(inode).unwrap_or_default();
        metadata(inode, generation, &node.statx()?)
    }

    /// Closes the descriptors that read and write a file, so that its flags are checked again.
    pub(super) fn close(&self, node: &Node, inode: InodeNumber) -> Result<()> {
        self.open.remove(&inode);
        let fd = node.reopen(OFlags::PATH).map_err(failed)?;
        let fresh = Arc::new(Node::of_path(fd));
        let mut state = self.state();
        if let Some(known) = state.known.get_mut(&inode)
            && known.pinned.is_some()
        {
            known.pinned = Some(fresh);
        }
        Ok(())
    }

    /// Keeps a file open until it is released.
    pub(super) fn hold(&self, inode: InodeNumber, node: Arc<Node>) {
        let mut state = self.state();
        if let Some(known) = state.known.get_mut(&inode) {
            known.holds = known.holds.saturating_add(1);
            known.pinned.get_or_insert(node);
        }
    }

    pub(super) fn release(&self, inode: InodeNumber) {
        let mut state = self.state();
        let Some(known) = state.known.get_mut(&inode) else {
            return;
        };
        known.holds = known.holds.saturating_sub(1);
        if known.holds > 0 {
            return;
        }
        let pinned = match self.method {
            LookupMethod::Handles if inode != self.root => known.pinned.take(),
            _ => None,
        };
        let is_gone = known.is_gone;
        drop(state);
        // Outside the lock: removing a large file takes a while.
        drop(pinned);
        if is_gone {
            self.forget(inode);
        }
    }

    /// Records that a file got a name, again or for the first time.
    pub(super) fn got_a_name(&self, inode: InodeNumber) {
        if let Some(known) = self.state().known.get_mut(&inode) {
            known.is_gone = false;
        }
    }

    /// Records that a file with this earlier state lost a name.
    pub(super) fn lost_a_name(&self, before: &Statx) {
        let is_dir = u32::from(before.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
        if before.stx_nlink > 1 && !is_dir {
            return;
        }
        let Ok(inode) = self.number(before) else {
            return;
        };
        let mut state = self.state();
        match state.known.get_mut(&inode) {
            Some(known) if known.holds > 0 => known.is_gone = true,
            _ => {
                drop(state);
                self.forget(inode);
            }
        }
    }
}

/// Opens a file; a regular file is opened for reading, the most frequent use.
fn open(handle: &Handle, mount: BorrowedFd<'_>, is_regular: bool) -> Result<Node> {
    if is_regular && let Ok(fd) = handle.open(mount, libc::O_RDONLY | libc::O_NONBLOCK) {
        return Ok(Node::of_readable_file(fd));
    }
    // An encrypted file without its key can still be opened by its name only.
    let fd = handle.open(mount, libc::O_PATH | libc::O_NOFOLLOW);
    Ok(Node::of_path(fd.map_err(|error| io_failed(&error))?))
}

/// Returns the stat of `name` in `dir`.
pub(super) fn stat_at(dir: &Node, name: &CStr) -> Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    statx(dir.fd(), name, flags, wanted).map_err(failed)
}
