//! The filesystem that is mounted there.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use diskfs_vfs::{Error, ErrorKind, FsWrite as _, Identity, InodeNumber, Metadata, Result};

use super::attributes::AttributeCache;
use super::connection::{Call, Connection, done};
use super::holds::Holds;
use super::names::Names;
use crate::protocol::Request;

/// A filesystem that an agent has mounted.
///
/// Nobody else changes it meanwhile, so metadata that came once is not asked for again until it is
/// changed here. It counts on that the filesystem there is mounted without changing times of last
/// reading, as [`FsRead`](diskfs_vfs::FsRead) has it.
///
/// [`close`](diskfs_vfs::FsWrite::close) unmounts it; what is called afterwards answers `ReadOnly`.
/// What a crash of either side leaves is what the kernel's driver there leaves of a power cut.
pub struct Remote {
    pub(super) connection: Arc<Connection>,
    pub(super) filesystem: u32,
    pub(super) root: InodeNumber,
    pub(super) attributes: AttributeCache,
    pub(super) holds: Holds,
    pub(super) names: Names,
    pub(super) identity: Identity,
    access: Access,
    is_closed: AtomicBool,
    /// What is done after it was unmounted.
    then: Mutex<Option<Then>>,
}

/// Something to do once.
type Then = Box<dyn FnOnce(&Result<()>) + Send>;

/// What it was mounted for.
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
        names: Names,
    ) -> Self {
        let attributes = AttributeCache::new();
        attributes.keep(attributes.asked(), root);
        Self {
            connection,
            filesystem,
            root: root.inode,
            attributes,
            holds: Holds::default(),
            names,
            identity,
            access,
            is_closed: AtomicBool::new(false),
            then: Mutex::new(None),
        }
    }

    /// Has `then` called when it is unmounted, or when that has failed: whoever made the machine for this
    /// filesystem ends it so, or uses it for another one.
    #[must_use]
    pub fn ending_with(self, then: impl FnOnce(&Result<()>) + Send + 'static) -> Self {
        *self.then() = Some(Box::new(then));
        self
    }

    /// Takes note that it was unmounted by [`Client::shut_down`](super::Client::shut_down).
    pub fn was_unmounted(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    fn then(&self) -> std::sync::MutexGuard<'_, Option<Then>> {
        self.then.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before anything is asked.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the filesystem was unmounted",
            ));
        }
        Ok(())
    }

    /// Before anything is changed.
    pub(super) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.access == Access::ReadOnly {
            return Err(ErrorKind::ReadOnly.into());
        }
        Ok(())
    }

    /// Unmounts it, once.
    pub(super) fn unmount(&self) -> Result<()> {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let call = Call::new(Request::Unmount {
            filesystem: self.filesystem,
        });
        let unmounted = self.connection.call(call, done);
        let then = self.then().take();
        if let Some(then) = then {
            then(&unmounted);
        }
        unmounted
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!("the microVM did not unmount: {error}");
        }
    }
}
