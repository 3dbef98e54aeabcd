//! Detection of ext2, ext3 and ext4 filesystems whose first superblock is destroyed, so that no
//! magic number identifies them.

use diskfs_block::BlockRead;
use diskfs_ext4::Ext4;

use super::content::{Content, ContentClass};

/// Identifies a volume by its first backup superblock, which is in one of four places. Called only
/// for volumes without other known content: opening such a filesystem fails with an error that
/// names the backup.
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
