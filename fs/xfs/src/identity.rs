//! The identity of the filesystem, according to its superblock.

use diskfs_vfs::Identity;

use crate::superblock::Superblock;

/// Returns the kind, label, UUID and features, and notes for users who check carefully.
pub(crate) fn identity(superblock: &Superblock, notes: Vec<String>) -> Identity {
    let uuid = uuid::Uuid::from_bytes(superblock.uuid);
    Identity {
        kind: "xfs".to_owned(),
        label: superblock.label().to_vec(),
        uuid: (!uuid.is_nil()).then(|| uuid.hyphenated().to_string()),
        features: superblock.features.names(),
        notes: notes.into_iter().chain(own_notes(superblock)).collect(),
    }
}

fn own_notes(superblock: &Superblock) -> Vec<String> {
    let mut notes = Vec::new();
    let unknown = superblock.features.unknown_read_only();
    if !unknown.is_empty() {
        notes.push(format!(
            "features that only matter for writing: {}",
            unknown.join(", ")
        ));
    }
    if superblock.realtime_blocks > 0 {
        notes.push("files on the real-time device are not read".to_owned());
    }
    notes
}
