//! Syncs of a filesystem that is being filled.

use std::ops::ControlFlow;

use diskfs_disk::Result;
use diskfs_vfs::FsWrite;

/// The filesystem is synced after this share of its size, because until then delayed allocation
/// reserves more than the files need.
const SYNC_SHARE: u64 = 80;

/// The limits of the number of bytes between two syncs.
const SYNC_BYTES: std::ops::RangeInclusive<u64> = (256 << 10)..=(16 << 20);

/// The syncs of a filesystem that is being filled, at moments that depend only on its contents.
#[derive(Debug)]
pub struct Syncs<'a> {
    fs: &'a dyn FsWrite,
    interval_bytes: u64,
    unsynced_bytes: u64,
    error: Option<diskfs_vfs::Error>,
}

impl<'a> Syncs<'a> {
    /// Prepares syncs of a filesystem.
    ///
    /// # Errors
    /// The errors of reading the size of the filesystem.
    pub fn new(fs: &'a dyn FsWrite) -> Result<Self> {
        let statistics = fs.statistics()?;
        let size_bytes = statistics
            .blocks
            .saturating_mul(statistics.block_size.into());
        let share = size_bytes / SYNC_SHARE;
        Ok(Self {
            fs,
            interval_bytes: share.clamp(*SYNC_BYTES.start(), *SYNC_BYTES.end()),
            unsynced_bytes: 0,
            error: None,
        })
    }

    /// Counts bytes, and syncs if there are many. After an error, asks to stop.
    pub fn advance(&mut self, bytes: u64) -> ControlFlow<()> {
        self.unsynced_bytes = self.unsynced_bytes.saturating_add(bytes);
        if self.unsynced_bytes < self.interval_bytes {
            return ControlFlow::Continue(());
        }
        self.unsynced_bytes = 0;
        match self.fs.sync() {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Returns the error of a sync, if there was one, in the place of that of the stopped work.
    ///
    /// # Errors
    /// The error of a sync, or that of the work.
    pub fn check<T>(self, done: Result<T>) -> Result<T> {
        match self.error {
            Some(error) => Err(error.into()),
            None => done,
        }
    }
}
