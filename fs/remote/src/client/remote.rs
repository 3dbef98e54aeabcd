//! The filesystem that the agent has mounted.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diskfs_vfs::{Error, ErrorKind, FsWrite as _, Identity, InodeNumber, Metadata, Result};

use super::attributes::AttributeCache;
use super::connection::{Call, Connection, done};
use super::holds::Holds;
use super::negative_cache::NegativeCache;
use super::small_files::SmallFiles;
use crate::protocol::Request;

/// A filesystem that an agent has mounted.
///
/// Nobody else changes it meanwhile, so metadata stays in the cache until it is changed through
/// this client. This requires that the agent mounts the filesystem without updating access times,
/// as [`FsRead`](diskfs_vfs::FsRead) requires.
///
/// [`close`](diskfs_vfs::FsWrite::close) unmounts it; later calls fail with `ReadOnly`. After a
/// crash of either side, the image is as the kernel's driver leaves it after a power cut.
pub struct Remote {
    pub(super) connection: Arc<Connection>,
    pub(super) filesystem: u32,
    pub(super) root: InodeNumber,
    pub(super) attributes: AttributeCache,
    pub(super) small_files: SmallFiles,
    pub(super) holds: Holds,
    pub(super) negative_cache: NegativeCache,
    pub(super) identity: Identity,
    access: Access,
    is_closed: AtomicBool,
    /// The function that is called after unmounting.
    after_unmount: Mutex<Option<AfterUnmount>>,
}

/// A function that is called once with the result of unmounting.
type AfterUnmount = Box<dyn FnOnce(&Result<()>) + Send>;

/// The access for which the filesystem was mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    ReadOnly,
    ReadWrite,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("filesystem", &self.filesystem)
            .field("kind", &self.identity.kind)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl Remote {
    pub(super) fn new(
        connection: Arc<Connection>,
        filesystem: u32,
        access: Access,
        root: &Metadata,
        identity: Identity,
        negative_cache: NegativeCache,
    ) -> Self {
        let attributes = AttributeCache::new();
        attributes.keep(attributes.request_time(), root);
        Self {
            connection,
            filesystem,
            root: root.inode,
            attributes,
            small_files: SmallFiles::default(),
            holds: Holds::default(),
            negative_cache,
            identity,
            access,
            is_closed: AtomicBool::new(false),
            after_unmount: Mutex::new(None),
        }
    }

    /// Sets a function that is called when the filesystem was unmounted or unmounting has failed.
    /// The owner of the machine uses it to end the machine or to use it again.
    #[must_use]
    pub fn ending_with(self, then: impl FnOnce(&Result<()>) + Send + 'static) -> Self {
        *self.after_unmount() = Some(Box::new(then));
        self
    }

    /// Records that [`Client::shut_down`](super::Client::shut_down) has unmounted the filesystem.
    pub fn was_unmounted(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    fn after_unmount(&self) -> std::sync::MutexGuard<'_, Option<AfterUnmount>> {
        self.after_unmount
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the filesystem is mounted; called before each request.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the filesystem is unmounted",
            ));
        }
        Ok(())
    }

    /// Checks that the filesystem may be written; called before each change.
    pub(super) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.access == Access::ReadOnly {
            return Err(ErrorKind::ReadOnly.into());
        }
        Ok(())
    }

    /// Unmounts the filesystem, once.
    pub(super) fn unmount(&self) -> Result<()> {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.finish_all_reads();
        let call = Call::new(Request::Unmount {
            filesystem: self.filesystem,
        });
        let unmounted = self.connection.call(call, done);
        let then = self.after_unmount().take();
        if let Some(then) = then {
            then(&unmounted);
        }
        unmounted
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!("the microVM could not unmount the filesystem: {error}");
        }
    }
}
