//! What opens the filesystems that no driver here does.

use std::fmt::Debug;
use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{FsRead, FsWrite};

use crate::Result;

/// Opens filesystems that no driver of diskfs does: those of other kinds, and those with features that
/// the driver of their kind refuses as *unsupported*. The microVM is one.
///
/// It is asked after the drivers, and never when one of them found a filesystem corrupt or could not
/// read its device.
pub trait Fallback: Debug + Send + Sync {
    /// Whether it could open a filesystem of that kind, as `blkid` names it, if what it needs is there.
    fn takes(&self, kind: &str) -> bool;

    /// Opens a filesystem for reading. Nothing is written to `device`.
    ///
    /// # Errors
    /// `Unsupported` when what it needs is not there, with what that is.
    fn open(&self, wanted: &Wanted<'_>, device: Arc<dyn BlockRead>) -> Result<Arc<dyn FsRead>>;

    /// Opens a filesystem for writing. Nothing is on `device` any more when the filesystem is closed,
    /// or dropped.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_for_writing(
        &self,
        wanted: &Wanted<'_>,
        device: Arc<dyn BlockWrite>,
    ) -> Result<Arc<dyn FsWrite>>;
}

/// What is to be opened.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The volume's name, for messages.
    pub volume: &'a str,
    /// The kind of filesystem, as `blkid` names it: `xfs`.
    pub kind: &'a str,
}
