//! Writes of blocks, collected and sorted so that adjacent ones become one request.

use diskfs_block::BlockWrite;

use super::new_files::NewBlock;
use crate::block::{BlockSize, FsBlock};
use crate::bytes::len_u64;
use crate::error::{Result, write_failed};

/// The number of bytes that are collected.
const COLLECTED_BYTES: u64 = 4 << 20;
/// The maximum length of a request in bytes.
const REQUEST_BYTES: usize = 1 << 20;

/// Collects blocks, and writes them in large requests.
#[derive(Debug)]
pub(super) struct BlockWriter<'a> {
    device: &'a dyn BlockWrite,
    block_size: BlockSize,
    blocks: Vec<NewBlock>,
    collected_bytes: u64,
    written_bytes: u64,
}

impl<'a> BlockWriter<'a> {
    pub(super) const fn new(device: &'a dyn BlockWrite, block_size: BlockSize) -> Self {
        Self {
            device,
            block_size,
            blocks: Vec::new(),
            collected_bytes: 0,
            written_bytes: 0,
        }
    }

    /// Returns the number of bytes that were given to the writer.
    pub(super) const fn bytes(&self) -> u64 {
        self.written_bytes.saturating_add(self.collected_bytes)
    }

    /// Adds contents that begin with a block. They may be shorter or longer than a block.
    pub(super) fn put(&mut self, block: FsBlock, bytes: Vec<u8>) -> Result<()> {
        self.collected_bytes = self.collected_bytes.saturating_add(len_u64(bytes.len()));
        self.blocks.push((block, bytes));
        if self.collected_bytes >= COLLECTED_BYTES {
            self.write_all()?;
        }
        Ok(())
    }

    /// Writes everything that was collected.
    pub(super) fn write_all(&mut self) -> Result<()> {
        self.written_bytes = self.bytes();
        self.collected_bytes = 0;
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.sort_by_key(|(block, _)| *block);
        let (mut start, mut request) = (0, Vec::new());
        for (block, bytes) in blocks {
            let offset = self.block_size.byte_of(block);
            let end = u64::saturating_add(start, len_u64(request.len()));
            if end != offset || request.len().saturating_add(bytes.len()) > REQUEST_BYTES {
                self.write(start, &request)?;
                start = offset;
                request.clear();
            }
            request.extend_from_slice(&bytes);
        }
        self.write(start, &request)
    }

    /// Writes large contents that begin with a block at once, without a copy.
    pub(super) fn write_now(&mut self, block: FsBlock, bytes: &[u8]) -> Result<()> {
        self.written_bytes = self.written_bytes.saturating_add(len_u64(bytes.len()));
        self.write(self.block_size.byte_of(block), bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.device.write_at(offset, bytes).map_err(write_failed)
    }
}
