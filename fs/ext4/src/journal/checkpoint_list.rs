//! Blocks that are durable in the journal, but not at their final places yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::FsBlock;
use crate::device_writer::DeviceWriter;
use crate::error::Result;
use crate::pool::{BlockPool, ChangedBlock, TransactionId};

/// The newest durable content of each block in the journal. Later changes by running transactions
/// are not in here: the pool continues with copies of its own.
#[derive(Debug, Default)]
pub(crate) struct CheckpointList {
    blocks: BTreeMap<FsBlock, Arc<[u8]>>,
    /// The last transaction whose blocks are in here.
    last: TransactionId,
}

impl CheckpointList {
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn contains(&self, block: FsBlock) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Adds the blocks of a transaction that became durable.
    pub(crate) fn add(&mut self, transaction: TransactionId, changed: Vec<ChangedBlock>) {
        self.last = transaction;
        let changed = changed.into_iter().map(|block| (block.block, block.bytes));
        self.blocks.extend(changed);
    }

    /// Removes a block that a durable transaction freed: its next owner may write to it past the
    /// journal.
    pub(crate) fn remove(&mut self, block: FsBlock) {
        self.blocks.remove(&block);
    }

    /// Writes all blocks to their final places and flushes.
    ///
    /// # Errors
    /// `Io`, `NoSpace`; then no block is dropped from the list.
    pub(crate) fn write_to_final_places(
        &mut self,
        device: &DeviceWriter,
        pool: &BlockPool,
    ) -> Result<()> {
        write_to_final_places(
            device,
            self.blocks.iter().map(|(block, bytes)| (*block, bytes)),
        )?;
        device.flush()?;
        self.blocks.clear();
        pool.note_checkpointed(self.last);
        Ok(())
    }
}

/// Writes sorted blocks to their final places: adjacent blocks with one write.
///
/// # Errors
/// `Io`, `NoSpace`.
pub(crate) fn write_to_final_places<'a>(
    device: &DeviceWriter,
    blocks: impl Iterator<Item = (FsBlock, &'a Arc<[u8]>)>,
) -> Result<()> {
    /// The number of bytes written at once.
    const PIECE_BYTES: usize = 1 << 20;
    let mut run: Vec<u8> = Vec::new();
    let mut first = FsBlock(0);
    let mut next = FsBlock(0);
    for (block, bytes) in blocks {
        if block != next || run.len() >= PIECE_BYTES {
            write_run(device, first, &run)?;
            run.clear();
            first = block;
        }
        run.extend_from_slice(bytes);
        next = block.after(1);
    }
    write_run(device, first, &run)
}

fn write_run(device: &DeviceWriter, first: FsBlock, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    device.write_block(first, bytes)
}
