//! The identity of the filesystem, according to its superblock.

use diskfs_vfs::{ErrorKind, Identity};

use crate::features::{Compatible, Features, Incompatible, ReadOnlyCompatible};
use crate::superblock::{Superblock, check_writable};

/// Returns the kind, label, UUID and features, and notes for users who check carefully.
pub(crate) fn identity(superblock: &Superblock) -> Identity {
    Identity {
        kind: kind(superblock).to_owned(),
        label: superblock.label().to_vec(),
        uuid: uuid(&superblock.uuid),
        features: superblock.features.names(),
        notes: notes(superblock),
    }
}

/// Returns the kind as libblkid determines it: ext2 has no journal, and neither ext2 nor ext3 has a
/// newer feature.
fn kind(superblock: &Superblock) -> &'static str {
    let features = superblock.features;
    if superblock.is_test_filesystem {
        "ext4dev"
    } else if has_newer_than_ext3(features) {
        "ext4"
    } else if features.has(Compatible::HAS_JOURNAL) {
        "ext3"
    } else {
        "ext2"
    }
}

fn has_newer_than_ext3(features: Features) -> bool {
    const INCOMPATIBLE: Incompatible = Incompatible::FILETYPE
        .union(Incompatible::NEEDS_RECOVERY)
        .union(Incompatible::META_BG);
    const READ_ONLY: ReadOnlyCompatible = ReadOnlyCompatible::SPARSE_SUPER
        .union(ReadOnlyCompatible::LARGE_FILE)
        .union(ReadOnlyCompatible::BTREE_DIR);
    !INCOMPATIBLE.contains(features.incompatible)
        || !READ_ONLY.contains(features.read_only_compatible)
}

fn uuid(bytes: &[u8; 16]) -> Option<String> {
    let uuid = uuid::Uuid::from_bytes(*bytes);
    (!uuid.is_nil()).then(|| uuid.hyphenated().to_string())
}

fn notes(superblock: &Superblock) -> Vec<String> {
    let mut notes = Vec::new();
    let state = superblock.state;
    if !state.clean {
        notes.push("not cleanly unmounted".to_owned());
    }
    if state.errors {
        notes.push(format!(
            "marked as having errors ({} counted); run e2fsck on a copy",
            state.error_count
        ));
    }
    if state.orphans || superblock.features.has(ReadOnlyCompatible::ORPHAN_PRESENT) {
        notes.push("files that were deleted while open still use space".to_owned());
    }
    if superblock.features.has(Incompatible::MMP) {
        notes.push("multi-mount protection is not checked for reading".to_owned());
    }
    // Tells the user before an attempt to write. States that must be repaired first are among the
    // notes above.
    if let Err(error) = check_writable(superblock)
        && error.kind() == ErrorKind::Unsupported
    {
        notes.push(format!(
            "diskfs cannot write it without a microVM: it {}",
            error.reason()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::superblock::tests::sample;

    fn of(changes: &[(usize, u32)]) -> Identity {
        let mut bytes = sample();
        for &(offset, value) in changes {
            bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        }
        identity(&Superblock::parse(&bytes, 4 << 20).unwrap())
    }

    #[test]
    fn kinds_as_blkid_decides() {
        assert_eq!(of(&[]).kind, "ext4");
        assert_eq!(of(&[(0x60, 0x2)]).kind, "ext2");
        assert_eq!(of(&[(0x60, 0x6), (0x5c, 0x4)]).kind, "ext3");
        assert_eq!(of(&[(0x60, 0x2), (0x5c, 0x4), (0x64, 0x8)]).kind, "ext4");
        assert_eq!(of(&[(0x160, 0x4)]).kind, "ext4dev");
    }

    #[test]
    fn label_uuid_and_notes() {
        let id = of(&[
            (0x78, u32::from_le_bytes(*b"root")),
            (0x68, 1),
            (0x38, 0x0002_ef53),
        ]);
        assert_eq!(id.label, b"root");
        assert_eq!(
            id.uuid.as_deref(),
            Some("01000000-0000-0000-0000-000000000000")
        );
        assert_eq!(id.notes.len(), 2);
        assert!(of(&[]).uuid.is_none() && of(&[]).notes.is_empty());
    }

    #[test]
    fn what_is_refused_for_writing_is_reported_before() {
        assert_eq!(
            of(&[(0x64, 0x100)]).notes,
            [
                "diskfs cannot write it without a microVM: it has features that this driver does not write: quota"
            ]
        );
    }
}
