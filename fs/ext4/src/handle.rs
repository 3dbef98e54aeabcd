//! An open operation: its handle on the running transaction, and what it takes blocks and inodes from.

use std::ops::Deref;

use diskfs_vfs::Holds;

use crate::allocator::Allocator;
use crate::delayed::DelayedFiles;
use crate::device_writer::DeviceWriter;
use crate::shared_attributes::SharedAttributes;
use crate::transaction::TransactionHandle;

/// An open operation. See [`TransactionHandle`] for how it changes blocks and inodes.
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
