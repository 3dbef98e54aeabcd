//! Handles of open operations: the handle on the running transaction, with the allocator.

use std::ops::Deref;

use diskfs_vfs::Holds;

use crate::allocator::Allocator;
use crate::delayed::DelayedFiles;
use crate::device_writer::DeviceWriter;
use crate::shared_attributes::SharedAttributes;
use crate::transaction::TransactionHandle;

/// The handle of an open operation. See [`TransactionHandle`] for changes of blocks and inodes.
#[derive(Debug)]
pub(crate) struct Handle<'c> {
    pub(crate) transaction: TransactionHandle<'c>,
    pub(crate) allocator: &'c Allocator,
    pub(crate) delayed: &'c DelayedFiles,
    pub(crate) device: &'c DeviceWriter,
    pub(crate) holds: &'c Holds<u32>,
    pub(crate) shared_attributes: &'c SharedAttributes,
}

impl<'c> Deref for Handle<'c> {
    type Target = TransactionHandle<'c>;

    fn deref(&self) -> &Self::Target {
        &self.transaction
    }
}
