//! The journal, written.

use std::sync::Arc;

use crate::block::FsBlock;
use crate::error::Result;
use crate::pool::TransactionId;
use crate::writer::{Core, write_failed};

/// A transaction to be made durable.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) id: TransactionId,
    /// The blocks that it changed, in order, as it left them.
    pub(crate) blocks: Vec<(FsBlock, Arc<[u8]>)>,
    /// The blocks of metadata that it freed.
    pub(crate) revoked: Vec<FsBlock>,
}

/// Writes transactions so that they are durable.
#[derive(Debug)]
pub(crate) struct LogWriter {}

impl LogWriter {
    pub(crate) fn new() -> Self {
        Self {}
    }

    /// Makes a transaction durable.
    pub(crate) fn commit(&mut self, core: &Core, transaction: Transaction) -> Result<()> {
        // Stand-in: straight to their places.
        for (block, bytes) in &transaction.blocks {
            core.write_device(core.byte_of(*block), bytes)?;
        }
        core.device.flush().map_err(write_failed)?;
        core.pool().came_home(transaction.id);
        Ok(())
    }
}
