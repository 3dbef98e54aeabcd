//! The filesystem under test.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use diskfs_block::BlockWrite;
use diskfs_ext4::{WritableExt4, WriteOptions};
use diskfs_vfs::FsWrite;

/// Opens the filesystem for writing. Depending on `seed`, changes are committed only on request, or
/// at intervals, too.
///
/// # Errors
/// The errors of the filesystem.
pub fn open(device: Arc<dyn BlockWrite>, seed: u64) -> Result<Arc<dyn FsWrite>> {
    let commit_interval = match seed % 3 {
        0 => None,
        1 => Some(Duration::from_millis(3)),
        _ => Some(Duration::from_millis(40)),
    };
    let options = WriteOptions {
        commit_interval,
        ..WriteOptions::default()
    };
    Ok(Arc::new(WritableExt4::open(device, &options)?))
}
