//! A filesystem that the kernel has mounted, accessed by inode number.
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

pub use inodes::LookupMethod;

/// The function that ends the filesystem: unmounts it, or only makes it durable.
type EndFn = Box<dyn FnOnce() -> Result<()> + Send>;

/// A filesystem that the kernel has mounted. Access needs root's capabilities and `/proc`.
pub struct KernelFs {
    kind: String,
    mounted_at: String,
    /// The open descriptors; `None` once the filesystem is closed, because open files prevent
    /// unmounting.
    state: RwLock<Option<OpenDescriptors>>,
    end: Mutex<Option<EndFn>>,
}

struct OpenDescriptors {
    /// A descriptor of the root directory, for handles and for syncfs.
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
    /// Opens the filesystem of this kind that is mounted at `path`. `end` is called after all
    /// descriptors are closed.
    ///
    /// # Errors
    /// Fails if the directory can't be opened.
    pub fn new(
        path: &str,
        kind: &str,
        method: LookupMethod,
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
        let inodes = Inodes::new(method, root)?;
        Ok(Self {
            kind: kind.into(),
            mounted_at: path.into(),
            state: RwLock::new(Some(OpenDescriptors { mount, inodes })),
            end: Mutex::new(Some(Box::new(end))),
        })
    }

    fn open(&self) -> OpenGuard<'_> {
        OpenGuard(self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes all descriptors and ends the filesystem, once.
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
        // An error cannot be reported any more.
        self.end().ok();
    }
}

/// A guard that keeps the filesystem open.
struct OpenGuard<'f>(RwLockReadGuard<'f, Option<OpenDescriptors>>);

impl OpenGuard<'_> {
    fn state(&self) -> Result<&OpenDescriptors> {
        self.0
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::ReadOnly, "the filesystem is unmounted"))
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
