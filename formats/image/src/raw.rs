//! The raw format: the guest's bytes are the file's.

use std::sync::Arc;

use diskfs_block::{BlockRead, Result};

use crate::node::Status;

/// A raw image. Its size is the file's, to the byte.
#[derive(Debug)]
pub(crate) struct Raw {
    file: Arc<dyn BlockRead>,
}

impl Raw {
    pub(crate) const fn new(file: Arc<dyn BlockRead>) -> Self {
        Self { file }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    pub(crate) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.file.read_at(offset, buf)
    }

    /// Holes of the file are zeroes that are present, as QEMU has it.
    pub(crate) fn status_at(&self, offset: u64, max_len: u64) -> Result<Status> {
        let extent = self.file.extent_at(offset)?;
        let zero = extent.kind.reads_as_zeroes();
        Ok(Status {
            len_bytes: extent.len_bytes.min(max_len),
            depth: 0,
            present: true,
            zero,
            data: !zero,
            compressed: false,
            host_offset: Some(offset),
        })
    }

    pub(crate) fn block_size(&self) -> u32 {
        self.file.block_size()
    }

    pub(crate) fn will_need(&self, offset: u64, len_bytes: u64) {
        self.file.will_need(offset, len_bytes);
    }
}
