//! Blocks that are durable in the journal, and not at their places yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::FsBlock;
use crate::device_writer::DeviceWriter;
use crate::error::Result;
use crate::pool::{BlockPool, ChangedBlock, TransactionId};

/// The newest durable content of each block that the journal holds. What runs meanwhile is not in
/// here: the pool goes on with copies of its own.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    blocks: BTreeMap<FsBlock, Arc<[u8]>>,
    /// The last transaction that is in here.
    last: TransactionId,
}

impl Unsettled {
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(crate) fn contains(&self, block: FsBlock) -> bool {
        self.blocks.contains_key(&block)
    }

    /// A transaction became durable.
    pub(crate) fn add(&mut self, transaction: TransactionId, changed: Vec<ChangedBlock>) {
        self.last = transaction;
        let changed = changed.into_iter().map(|block| (block.block, block.bytes));
        self.blocks.extend(changed);
    }

    /// A transaction that freed the block became durable: whoever gets it next may write to it past
    /// the journal.
    pub(crate) fn remove(&mut self, block: FsBlock) {
        self.blocks.remove(&block);
    }

    /// Writes everything to its place, durably.
    ///
    /// # Errors
    /// `Io`, `NoSpace`; nothing is forgotten then.
    pub(crate) fn write_home(&mut self, device: &DeviceWriter, pool: &BlockPool) -> Result<()> {
        write_home(
            device,
            self.blocks.iter().map(|(block, bytes)| (*block, bytes)),
        )?;
        device.flush()?;
        self.blocks.clear();
        pool.came_home(self.last);
        Ok(())
    }
}

/// Writes blocks, which are sorted, to their places: neighbours by one write.
///
/// # Errors
/// `Io`, `NoSpace`.
pub(crate) fn write_home<'a>(
    device: &DeviceWriter,
    blocks: impl Iterator<Item = (FsBlock, &'a Arc<[u8]>)>,
) -> Result<()> {
    /// How much is written at once.
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
