//! Which driver opens what.

use std::sync::Arc;

use diskfs_block::BlockRead;
use diskfs_ext4::{Ext4, Options};
use diskfs_vfs::{FsRead, Result};

use super::content::Content;

/// Opens the filesystem, or answers `None` when no driver is for its kind.
pub(super) fn open(
    content: &Content,
    device: Arc<dyn BlockRead>,
) -> Option<Result<Arc<dyn FsRead>>> {
    match content.kind {
        "ext2" | "ext3" | "ext4" => {
            Some(Ext4::open(device, &Options::default()).map(|fs| Arc::new(fs) as Arc<dyn FsRead>))
        }
        _ => None,
    }
}
