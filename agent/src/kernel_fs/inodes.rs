//! Which file a number stands for.

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

/// How many files stay open that nobody asked to keep.
const OPEN_FILES: usize = 1024;

/// Numbers of another device than the root's (a btrfs subvolume) have the number of that device
/// from this bit on.
const DEVICE_SHIFT: u32 = 48;

/// How files are found again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// By handles: the filesystem finds a file by its handle for as long as it exists.
    Handles,
    /// Open: it does not, or has none.
    Open,
}

/// Every file that was told of.
pub(super) struct Inodes {
    kept: Kept,
    root: InodeNumber,
    root_device: (u32, u32),
    mount_id: u64,
    state: Mutex<State>,
    open: Cache<InodeNumber, Arc<Node>>,
}

#[derive(Default)]
struct State {
    known: HashMap<InodeNumber, Known>,
    /// Devices besides the root's, in the order in which they were met.
    devices: Vec<(u32, u32)>,
}

#[derive(Default)]
struct Known {
    handle: Option<Handle>,
    /// Whether it can be opened to read without anything else happening: a FIFO or a device can't.
    is_regular: bool,
    /// Open as long as it is known, or held.
    pinned: Option<Arc<Node>>,
    holds: u64,
    /// It lost its last name.
    is_gone: bool,
}

impl Inodes {
    pub(super) fn new(kept: Kept, root: Node) -> Result<Self> {
        let stat = root.statx()?;
        let number = InodeNumber(stat.stx_ino);
        // Some have none at all.
        let has_handles = Handle::of(root.fd(), c"").is_ok();
        let kept = if has_handles { kept } else { Kept::Open };
        let known = Known {
            pinned: Some(Arc::new(root)),
            ..Known::default()
        };
        Ok(Self {
            kept,
            root: number,
            root_device: (stat.stx_dev_major, stat.stx_dev_minor),
            mount_id: stat.stx_mnt_id,
            state: Mutex::new(State {
                known: [(number, known)].into(),
                devices: Vec::new(),
            }),
            open: Cache::new(OPEN_FILES),
        })
    }

    pub(super) fn root(&self) -> InodeNumber {
        self.root
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a file on this filesystem.
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

    /// The generation of a file that is known by its handle, if it is known.
    fn known_generation(&self, inode: InodeNumber) -> Option<u32> {
        let state = self.state();
        let known = state.known.get(&inode)?;
        Some(known.handle.as_ref().map_or(0, Handle::generation))
    }

    /// What `name` names in `dir`.
    pub(super) fn find(&self, dir: &Node, name: &CStr) -> Result<Metadata> {
        let stat = stat_at(dir, name)?;
        let inode = self.number(&stat)?;
        if let Some(generation) = self.known_generation(inode) {
            return metadata(inode, generation, &stat);
        }
        self.meet(dir, name, inode, &stat)
    }

    /// A file that was not told of yet.
    fn meet(&self, dir: &Node, name: &CStr, inode: InodeNumber, stat: &Statx) -> Result<Metadata> {
        if self.kept == Kept::Handles {
            let handle = Handle::of(dir.fd(), name).map_err(|error| io_failed(&error))?;
            // The name may be another file's by now.
            if handle.may_be_of(stat.stx_ino) {
                let generation = handle.generation();
                self.know(inode, handle, stat);
                return metadata(inode, generation, stat);
            }
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(dir.fd(), name, flags, Mode::empty()).map_err(failed)?;
        self.take_up(Node::of_path(fd))
    }

    /// A file that was opened: what is told of it.
    pub(super) fn take_up(&self, node: Node) -> Result<Metadata> {
        let stat = node.statx()?;
        let inode = self.number(&stat)?;
        self.take_up_as(inode, node, &stat)
    }

    fn take_up_as(&self, inode: InodeNumber, node: Node, stat: &Statx) -> Result<Metadata> {
        if inode == self.root {
            return metadata(inode, 0, stat);
        }
        let node = Arc::new(node);
        let generation = match self.kept {
            Kept::Handles => {
                let handle = Handle::of(node.fd(), c"").map_err(|error| io_failed(&error))?;
                let generation = handle.generation();
                self.know(inode, handle, stat);
                self.open.insert(inode, node);
                generation
            }
            Kept::Open => {
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

    /// The same of a file that was just made: the number may have been another's.
    pub(super) fn take_up_new(&self, node: Node) -> Result<Metadata> {
        let stat = node.statx()?;
        let inode = self.number(&stat)?;
        self.forget(inode);
        self.take_up_as(inode, node, &stat)
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

    /// An open descriptor of a file that was told of.
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

    /// The metadata of a file that was told of.
    pub(super) fn metadata(&self, node: &Node, inode: InodeNumber) -> Result<Metadata> {
        let generation = self.known_generation(inode).unwrap_or_default();
        metadata(inode, generation, &node.statx()?)
    }

    /// Closes what reads and writes a file, so that its flags are looked at anew.
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
        let pinned = match self.kept {
            Kept::Handles if inode != self.root => known.pinned.take(),
            _ => None,
        };
        let is_gone = known.is_gone;
        drop(state);
        // Without the lock: a large file takes a while to go.
        drop(pinned);
        if is_gone {
            self.forget(inode);
        }
    }

    /// When a file got a name again, or for the first time.
    pub(super) fn got_a_name(&self, inode: InodeNumber) {
        if let Some(known) = self.state().known.get_mut(&inode) {
            known.is_gone = false;
        }
    }

    /// When a name was taken of a file that looked like this before.
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

/// Opens a file: a regular one so that it can be read, which is what most are opened for.
fn open(handle: &Handle, mount: BorrowedFd<'_>, is_regular: bool) -> Result<Node> {
    if is_regular && let Ok(fd) = handle.open(mount, libc::O_RDONLY | libc::O_NONBLOCK) {
        return Ok(Node::of_readable_file(fd));
    }
    // One that is encrypted, and whose key nobody has, has a name all the same.
    let fd = handle.open(mount, libc::O_PATH | libc::O_NOFOLLOW);
    Ok(Node::of_path(fd.map_err(|error| io_failed(&error))?))
}

/// What stat tells of what `name` names in `dir`.
pub(super) fn stat_at(dir: &Node, name: &CStr) -> Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    statx(dir.fd(), name, flags, wanted).map_err(failed)
}
