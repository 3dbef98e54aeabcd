//! Making changes durable on request.

use diskfs_vfs::SyncFile;

use crate::error::{Error, ErrorKind, Result};
use crate::pool::TransactionId;
use crate::transaction::Abort;

use super::Core;

impl Core {
    /// Makes one file durable.
    pub(crate) fn sync_file(&self, number: u32, what: SyncFile) -> Result<()> {
        self.write_back(number)?;
        let last = self.touched.last(number, what);
        if last == TransactionId(0) {
            // At most the contents of allocated blocks were overwritten.
            return self.device.flush_written();
        }
        // A commit flushes the device before its commit block, and all contents were written before
        // the transaction's handles were closed.
        self.make_durable(last)?;
        self.device.flush_written()
    }

    /// Makes everything durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.write_all_back()?;
        self.make_durable(self.transactions.running())?;
        self.device.flush_written()
    }

    /// Ends a hold of a file.
    pub(crate) fn release(&self, number: u32) -> Result<()> {
        // Only an orphan can be deleted; all other files have names.
        if self.holds.remove(number) && self.orphans.contains(number) {
            return self.evict(number);
        }
        Ok(())
    }

    /// Notes an error that a reader met: corrupt metadata stops writing.
    pub(crate) fn found(&self, e: &Error) {
        if e.kind() == ErrorKind::Corrupt {
            self.abort(e);
        }
    }
}
