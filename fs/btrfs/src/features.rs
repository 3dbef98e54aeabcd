//! The feature bits of the superblock, with the names that the kernel shows in sysfs.

use crate::error::{Result, unsupported};

/// A feature bit, its name, and its meaning to a reader.
type Feature = (u64, &'static str, Support);

/// The support for a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Support {
    Read,
    Refused,
}

pub(crate) const METADATA_UUID: u64 = 1 << 10;

/// The incompatible features: a reader must know them all.
const INCOMPAT: &[Feature] = &[
    (1 << 0, "mixed_backref", Support::Read),
    (1 << 1, "default_subvol", Support::Read),
    (1 << 2, "mixed_groups", Support::Read),
    (1 << 3, "compress_lzo", Support::Read),
    (1 << 4, "compress_zstd", Support::Read),
    (1 << 5, "big_metadata", Support::Read),
    (1 << 6, "extended_iref", Support::Read),
    (1 << 7, "raid56", Support::Read),
    (1 << 8, "skinny_metadata", Support::Read),
    (1 << 9, "no_holes", Support::Read),
    (METADATA_UUID, "metadata_uuid", Support::Read),
    (1 << 11, "raid1c34", Support::Read),
    (1 << 12, "zoned", Support::Read),
    (1 << 13, "extent_tree_v2", Support::Refused),
    (1 << 14, "raid_stripe_tree", Support::Refused),
    (1 << 15, "encrypt", Support::Refused),
    (1 << 16, "simple_quota", Support::Read),
    (1 << 17, "remap_tree", Support::Refused),
];

/// The features that only a writer must know.
const COMPAT_RO: &[Feature] = &[
    (FREE_SPACE_TREE, "free_space_tree", Support::Read),
    (1 << 1, "free_space_tree_valid", Support::Read),
    (1 << 2, "verity", Support::Read),
    (BLOCK_GROUP_TREE, "block_group_tree", Support::Read),
];

pub(crate) const FREE_SPACE_TREE: u64 = 1 << 0;
pub(crate) const BLOCK_GROUP_TREE: u64 = 1 << 3;

/// Fails if an incompatible feature is unknown or not supported.
pub(crate) fn check_incompat(bits: u64) -> Result<()> {
    let known = INCOMPAT.iter().fold(0, |all, (bit, ..)| all | bit);
    for (bit, name, support) in INCOMPAT {
        if bits & bit != 0 && *support == Support::Refused {
            return Err(unsupported(format!(
                "the feature {name} of btrfs is not supported"
            )));
        }
    }
    if bits & !known != 0 {
        let unknown = bits & !known;
        return Err(unsupported(format!(
            "unknown incompatible features of btrfs: {unknown:#x}"
        )));
    }
    Ok(())
}

/// Returns the names of the features in use.
pub(crate) fn names(incompat: u64, compat_ro: u64) -> Vec<String> {
    let of = |table: &'static [Feature], bits: u64| {
        let used = table.iter().filter(move |(bit, ..)| bits & bit != 0);
        used.map(|(_, name, _)| (*name).to_owned())
    };
    of(INCOMPAT, incompat)
        .chain(of(COMPAT_RO, compat_ro))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn features_are_refused_by_name_or_number() {
        assert!(check_incompat(0x361).is_ok());
        let error = check_incompat(1 << 13).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("extent_tree_v2"), "{error}");
        let error = check_incompat(1 << 40).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("0x10000000000"), "{error}");
    }
}
