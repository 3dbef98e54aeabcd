//! The features of a new filesystem: the defaults of mke2fs 1.47.4, changed by the options, and
//! checked against each other.

use super::options::{FormatKind, FormatOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::features::{AnyFeature, Compatible, Features, Incompatible, ReadOnlyCompatible};

/// The features of every type (`base_features` of mke2fs.conf).
const BASE: Features = Features {
    compatible: Compatible::RESIZE_INODE
        .union(Compatible::DIR_INDEX)
        .union(Compatible::EXT_ATTR),
    incompatible: Incompatible::FILETYPE,
    read_only_compatible: ReadOnlyCompatible::SPARSE_SUPER.union(ReadOnlyCompatible::LARGE_FILE),
};

/// The further features of ext3.
const EXT3: Features = Features {
    compatible: Compatible::HAS_JOURNAL,
    ..Features::EMPTY
};

/// The further features of ext4.
const EXT4: Features = Features {
    compatible: Compatible::HAS_JOURNAL.union(Compatible::ORPHAN_FILE),
    incompatible: Incompatible::EXTENTS
        .union(Incompatible::FLEX_BG)
        .union(Incompatible::CSUM_SEED)
        .union(Incompatible::SIXTY_FOUR_BIT),
    read_only_compatible: ReadOnlyCompatible::HUGE_FILE
        .union(ReadOnlyCompatible::METADATA_CSUM)
        .union(ReadOnlyCompatible::DIR_NLINK)
        .union(ReadOnlyCompatible::EXTRA_ISIZE),
};

/// Returns the features for these options.
///
/// # Errors
/// `Invalid` for features that contradict each other.
pub(super) fn choose(options: &FormatOptions) -> Result<Features> {
    let mut features = options.features.apply(match options.kind {
        FormatKind::Ext2 => BASE,
        FormatKind::Ext3 => BASE.union(EXT3),
        FormatKind::Ext4 => BASE.union(EXT4),
    });
    if options.journal.size_mib.is_some() {
        features.compatible.insert(Compatible::HAS_JOURNAL);
    }
    if options.extended.resize.is_some() {
        features.compatible.insert(Compatible::RESIZE_INODE);
    }
    drop_dependent_defaults(&mut features, options);
    if features.has(ReadOnlyCompatible::METADATA_CSUM) {
        // The checksums of `metadata_csum` replace those of `uninit_bg`.
        features
            .read_only_compatible
            .remove(ReadOnlyCompatible::GDT_CSUM);
    }
    check(features)?;
    Ok(features)
}

/// Removes defaults that need another feature, which was cleared.
fn drop_dependent_defaults(features: &mut Features, options: &FormatOptions) {
    let orphan_file = Features {
        compatible: Compatible::ORPHAN_FILE,
        ..Features::EMPTY
    };
    let seed = Features {
        incompatible: Incompatible::CSUM_SEED,
        ..Features::EMPTY
    };
    if !features.has(Compatible::HAS_JOURNAL) && !options.features.asks_for(orphan_file) {
        *features = features.difference(orphan_file);
    }
    if !features.has(ReadOnlyCompatible::METADATA_CSUM) && !options.features.asks_for(seed) {
        *features = features.difference(seed);
    }
}

fn check(features: Features) -> Result<()> {
    requires(
        features,
        Incompatible::SIXTY_FOUR_BIT,
        Incompatible::EXTENTS,
    )?;
    requires(features, ReadOnlyCompatible::VERITY, Incompatible::EXTENTS)?;
    requires(
        features,
        ReadOnlyCompatible::BIGALLOC,
        Incompatible::EXTENTS,
    )?;
    requires(
        features,
        Incompatible::CSUM_SEED,
        ReadOnlyCompatible::METADATA_CSUM,
    )?;
    requires(features, Compatible::ORPHAN_FILE, Compatible::HAS_JOURNAL)?;
    requires(
        features,
        Compatible::RESIZE_INODE,
        ReadOnlyCompatible::SPARSE_SUPER,
    )?;
    if features.has(Incompatible::META_BG) && features.has(Compatible::RESIZE_INODE) {
        let reason = "the features `meta_bg` and `resize_inode` exclude each other";
        let hint = "clear one of them, as with `^resize_inode`";
        return Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint));
    }
    Ok(())
}

/// Fails if `feature` is set, and `required` is not.
fn requires(
    features: Features,
    feature: impl Into<AnyFeature>,
    required: impl Into<AnyFeature>,
) -> Result<()> {
    let (feature, required) = (feature.into(), required.into());
    if !features.has(feature) || features.has(required) {
        return Ok(());
    }
    let (name, needed) = (name(feature), name(required));
    let reason = format!("the feature `{name}` requires `{needed}`");
    let hint = format!("set `{needed}`, or clear `{name}`");
    Err(Error::new(ErrorKind::Invalid, reason).with_hint(hint))
}

fn name(feature: AnyFeature) -> String {
    let mut features = Features::EMPTY;
    match feature {
        AnyFeature::Compatible(f) => features.compatible = f,
        AnyFeature::Incompatible(f) => features.incompatible = f,
        AnyFeature::ReadOnlyCompatible(f) => features.read_only_compatible = f,
    }
    features.names().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(kind: FormatKind, changes: &str) -> Result<String> {
        let mut options = FormatOptions {
            kind,
            ..FormatOptions::default()
        };
        options.parse_features(changes)?;
        choose(&options).map(|features| features.names().join(" "))
    }

    #[test]
    fn defaults_are_those_of_mke2fs() {
        assert_eq!(
            features(FormatKind::Ext2, "").unwrap(),
            "ext_attr resize_inode dir_index filetype sparse_super large_file"
        );
        assert_eq!(
            features(FormatKind::Ext4, "").unwrap(),
            "has_journal ext_attr resize_inode dir_index orphan_file filetype extent 64bit \
             flex_bg metadata_csum_seed sparse_super large_file huge_file dir_nlink extra_isize \
             metadata_csum"
        );
        let without = features(FormatKind::Ext4, "^has_journal,^metadata_csum").unwrap();
        assert!(!without.contains("orphan_file") && !without.contains("seed"));
    }

    #[test]
    fn contradictions_are_named() {
        for (changes, says) in [
            ("^extent", "`64bit` requires `extent`"),
            ("^extent,^64bit,bigalloc", "`bigalloc` requires `extent`"),
            ("meta_bg", "exclude each other"),
            ("^sparse_super", "`resize_inode` requires `sparse_super`"),
            (
                "^has_journal,orphan_file",
                "`orphan_file` requires `has_journal`",
            ),
            (
                "^metadata_csum,metadata_csum_seed",
                "requires `metadata_csum`",
            ),
        ] {
            let e = features(FormatKind::Ext4, changes).unwrap_err();
            assert!(e.to_string().contains(says), "{e}");
        }
    }
}
