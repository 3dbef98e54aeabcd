//! An open registry hive.

use std::sync::Arc;

use diskfs_block::{BlockRead, Result};

use crate::base_block::BaseBlock;
use crate::bins::Bins;
use crate::key::Key;
use crate::log::Recovery;
use crate::{Filetime, log};

/// A registry hive, opened for reading. Any number of threads can read it.
#[derive(Debug)]
pub struct Hive {
    base_block: BaseBlock,
    bins: Bins,
    recovery: Recovery,
}

impl Hive {
    /// Opens a hive (`SYSTEM`) with its transaction logs: `SYSTEM.LOG1` and `SYSTEM.LOG2` in this
    /// order, or `SYSTEM.LOG`. Logs that are missing, empty or from another change are ignored.
    /// Nothing is written: changes in the logs replace parts of the hive in memory.
    ///
    /// # Errors
    /// `Corrupt` if `primary` is not a hive; `Unsupported` for versions before Windows NT 4, and
    /// for a log of more than 512 MiB.
    pub fn open(primary: Arc<dyn BlockRead>, logs: &[Arc<dyn BlockRead>]) -> Result<Self> {
        let recovered = log::recover(primary, logs)?;
        recovered.base_block.check_version()?;
        let len_bytes = recovered.base_block.hive_bins_data_size;
        Ok(Self {
            base_block: recovered.base_block,
            bins: Bins::new(recovered.device, len_bytes)?,
            recovery: recovered.recovery,
        })
    }

    /// Returns the root key.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub fn root(&self) -> Result<Key<'_>> {
        Key::root(&self.bins, self.base_block.root_cell_offset)
    }

    /// Returns the result of looking for transaction logs.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Returns the time of the last write. Windows 8.1 and later do not update it.
    pub fn last_written(&self) -> Filetime {
        self.base_block.last_written
    }

    /// Returns the version of the format, such as `(1, 5)`.
    pub fn version(&self) -> (u32, u32) {
        (self.base_block.major_version, self.base_block.minor_version)
    }
}
