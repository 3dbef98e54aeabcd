//! A hive.

use std::sync::Arc;

use diskfs_block::{BlockRead, Result};

use crate::base_block::BaseBlock;
use crate::bins::Bins;
use crate::key::Key;
use crate::log::Recovery;
use crate::{Filetime, log};

/// A hive that can be read. Reads go on from any number of threads.
#[derive(Debug)]
pub struct Hive {
    base_block: BaseBlock,
    bins: Bins,
    recovery: Recovery,
}

impl Hive {
    /// Opens a hive (`SYSTEM`) with its logs (`SYSTEM.LOG1`, `SYSTEM.LOG2`, in this order; or `SYSTEM.LOG`).
    /// Those that are not there, empty or of another change are left out. Nothing is written: what the
    /// logs have is read in the place of what the hive has.
    ///
    /// # Errors
    /// `Corrupt` for what is no hive; `Unsupported` for versions before Windows NT 4, and for a log of more
    /// than 512 MiB.
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

    /// The key that all others are below.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn root(&self) -> Result<Key<'_>> {
        Key::root(&self.bins, self.base_block.root_cell_offset)
    }

    /// What its logs were good for.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// When it was last written; Windows 8.1 and later leave it as it is.
    pub fn last_written(&self) -> Filetime {
        self.base_block.last_written
    }

    /// The version of its format, as `(1, 5)`.
    pub fn version(&self) -> (u32, u32) {
        (self.base_block.major_version, self.base_block.minor_version)
    }
}
