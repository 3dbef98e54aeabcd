//! The device of a filesystem that is opened for writing: writes past the pool of metadata, and
//! which of them are durable.

mod written;

use std::sync::Arc;

use diskfs_block::BlockWrite;

use crate::block::{BlockSize, FsBlock};
use crate::bytes::len_u64;
use crate::error::{Result, write_failed};

use written::WriteCounts;

/// The device below a filesystem that is opened for writing. See the [module](self).
#[derive(Debug)]
pub(crate) struct DeviceWriter {
    device: Arc<dyn BlockWrite>,
    block_size: BlockSize,
    written: WriteCounts,
}

impl DeviceWriter {
    /// Wraps a device to which nothing has been written yet.
    pub(crate) fn new(device: Arc<dyn BlockWrite>, block_size: BlockSize) -> Self {
        Self {
            device,
            block_size,
            written: WriteCounts::default(),
        }
    }

    /// Returns the device itself, for writes of superblocks: they don't count as written.
    pub(crate) fn device(&self) -> &dyn BlockWrite {
        &*self.device
    }

    /// Writes a file's contents, or bytes that a file will contain.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let written = self.device.write_at(offset, bytes).map_err(write_failed);
        self.written.note(len_u64(bytes.len()));
        written
    }

    /// Writes bytes from the start of a block on.
    ///
    /// # Errors
    /// Fails like [`write`](Self::write).
    pub(crate) fn write_block(&self, first: FsBlock, bytes: &[u8]) -> Result<()> {
        self.write(self.block_size.byte_of(first), bytes)
    }

    /// Makes a range of the device read as zeroes.
    ///
    /// # Errors
    /// `Io`, `NoSpace`.
    pub(crate) fn zero(&self, offset: u64, len_bytes: u64) -> Result<()> {
        let written = self.device.write_zeroes(offset, len_bytes);
        self.written.note(len_bytes);
        written.map_err(write_failed)
    }

    /// Flushes the device.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn flush(&self) -> Result<()> {
        let done = self.written.done();
        self.device.flush().map_err(write_failed)?;
        self.written.became_durable(done);
        Ok(())
    }

    /// Waits until everything that was written is durable. Returns at once if nothing was written
    /// since the last flush.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn flush_written(&self) -> Result<()> {
        if self.written.is_durable() {
            return Ok(());
        }
        self.flush()
    }

    /// Returns the number of KiB written.
    pub(crate) fn written_kbytes(&self) -> u64 {
        self.written.kbytes()
    }
}
