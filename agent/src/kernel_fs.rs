//! A filesystem that the kernel has mounted, by inode number.
//!
//! # Locks
//! The table of inodes is locked for moments, never during a system call that may wait.

mod attributes;
mod creator;
mod errors;
mod extents;
mod inodes;
mod listing;
mod node;
mod reading;
mod setting;
mod subvolumes;
mod writing;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use diskfs_vfs::{Error, ErrorKind, InodeNumber, Result};
use rustix::fs::{CWD, Mode, OFlags, openat};

use errors::failed;
use inodes::Inodes;
use node::Node;

pub use inodes::Kept;

/// What ends it: unmounts, or only makes durable.
type End = Box<dyn FnOnce() -> Result<()> + Send>;

/// A mounted filesystem. It needs root's capabilities, and `/proc`.
pub struct KernelFs {
    kind: String,
    mounted_at: String,
    /// Nothing of it is open when it is closed: it could not be unmounted.
    state: RwLock<Option<State>>,
    end: Mutex<Option<End>>,
}

struct State {
    /// The root directory: for handles and for syncfs.
    mount: OwnedFd,
    inodes: Inodes,
}

impl fmt::Debug for KernelFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelFs")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl KernelFs {
    /// The one that is mounted at `path`, which is of this kind. `end` is called when nothing of it
    /// is open any more.
    ///
    /// # Errors
    /// When the directory can't be opened.
    pub fn new(
        path: &str,
        kind: &str,
        kept: Kept,
        end: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let open = |flags| {
            openat(
                CWD,
                path,
                flags | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        let mount = open(OFlags::RDONLY).map_err(failed)?;
        let root = Node::of_path(open(OFlags::PATH).map_err(failed)?);
        let inodes = Inodes::new(kept, root)?;
        Ok(Self {
            kind: kind.into(),
            mounted_at: path.into(),
            state: RwLock::new(Some(State { mount, inodes })),
            end: Mutex::new(Some(Box::new(end))),
        })
    }

    fn open(&self) -> Open<'_> {
        Open(self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets go of everything, and ends it, once.
    fn end(&self) -> Result<()> {
        let state = self
            .state
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(state);
        let end = self
            .end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        end.map_or(Ok(()), |end| end())
    }
}

impl Drop for KernelFs {
    fn drop(&mut self) {
        // Nobody is left to be told.
        self.end().ok();
    }
}

/// What is open.
struct Open<'f>(RwLockReadGuard<'f, Option<State>>);

impl Open<'_> {
    fn state(&self) -> Result<&State> {
        self.0
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::ReadOnly, "the filesystem was unmounted"))
    }

    fn inodes(&self) -> Result<&Inodes> {
        Ok(&self.state()?.inodes)
    }

    fn node(&self, inode: InodeNumber) -> Result<Arc<Node>> {
        let state = self.state()?;
        let node = state.inodes.node(state.mount.as_fd(), inode);
        node.map_err(|error| error.in_inode(inode))
    }

    fn mount(&self) -> Result<BorrowedFd<'_>> {
        Ok(self.state()?.mount.as_fd())
    }
}
