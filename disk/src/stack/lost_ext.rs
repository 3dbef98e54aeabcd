//! Filesystems of ext2, ext3 and ext4 whose first superblock is destroyed, so that nothing at their start tells what
//! they are.

use diskfs_block::BlockRead;
use diskfs_ext4::Ext4;

use super::content::{Content, ContentClass};

/// Tells a volume by its first backup superblock, which is in one of four places. For volumes on which nothing else
/// was found: opening the filesystem fails, and names the backup.
pub(super) fn probe(device: &dyn BlockRead) -> Option<Content> {
    let identity = Ext4::probe_backup(device)?;
    let kinds = ["ext2", "ext3"];
    let kind = kinds.into_iter().find(|kind| *kind == identity.kind);
    Some(Content {
        kind: kind.unwrap_or("ext4"),
        class: ContentClass::Filesystem,
        label: identity.label,
        uuid: identity.uuid,
    })
}
