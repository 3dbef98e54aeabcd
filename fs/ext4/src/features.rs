//! The feature words of the superblock: `s_feature_compat`, `s_feature_incompat`,
//! `s_feature_ro_compat`.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Super Block". The
//! names are those that `dumpe2fs` and `tune2fs` use.

use bitflags::bitflags;

bitflags! {
    /// The compatible features: a reader or writer may ignore them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Compatible: u32 {
        const DIR_PREALLOC = 0x1;
        const IMAGIC_INODES = 0x2;
        const HAS_JOURNAL = 0x4;
        const EXT_ATTR = 0x8;
        const RESIZE_INODE = 0x10;
        const DIR_INDEX = 0x20;
        const LAZY_BG = 0x40;
        const EXCLUDE_BITMAP = 0x100;
        const SPARSE_SUPER2 = 0x200;
        const FAST_COMMIT = 0x400;
        const STABLE_INODES = 0x800;
        const ORPHAN_FILE = 0x1000;
        const _ = !0;
    }
}

bitflags! {
    /// The incompatible features: a reader that does not know them misinterprets the bytes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Incompatible: u32 {
        const COMPRESSION = 0x1;
        const FILETYPE = 0x2;
        const NEEDS_RECOVERY = 0x4;
        const JOURNAL_DEV = 0x8;
        const META_BG = 0x10;
        const EXTENTS = 0x40;
        const SIXTY_FOUR_BIT = 0x80;
        const MMP = 0x100;
        const FLEX_BG = 0x200;
        const EA_INODE = 0x400;
        const DIRDATA = 0x1000;
        const CSUM_SEED = 0x2000;
        const LARGE_DIR = 0x4000;
        const INLINE_DATA = 0x8000;
        const ENCRYPT = 0x1_0000;
        const CASEFOLD = 0x2_0000;
        const _ = !0;
    }
}

bitflags! {
    /// The read-only-compatible features: only a writer must know them.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct ReadOnlyCompatible: u32 {
        const SPARSE_SUPER = 0x1;
        const LARGE_FILE = 0x2;
        const BTREE_DIR = 0x4;
        const HUGE_FILE = 0x8;
        const GDT_CSUM = 0x10;
        const DIR_NLINK = 0x20;
        const EXTRA_ISIZE = 0x40;

        const QUOTA = 0x100;
        const BIGALLOC = 0x200;
        const METADATA_CSUM = 0x400;
        const REPLICA = 0x800;
        const READONLY = 0x1000;
        const PROJECT = 0x2000;
        const SHARED_BLOCKS = 0x4000;
        const VERITY = 0x8000;
        const ORPHAN_PRESENT = 0x1_0000;
        const _ = !0;
    }
}

/// The incompatible features that this driver reads. `COMPRESSION` and `DIRDATA` never had an
/// implementation in Linux; `JOURNAL_DEV` marks a device that is a journal, not a filesystem.
pub(crate) const READABLE: Incompatible = Incompatible::FILETYPE
    .union(Incompatible::NEEDS_RECOVERY)
    .union(Incompatible::META_BG)
    .union(Incompatible::EXTENTS)
    .union(Incompatible::SIXTY_FOUR_BIT)
    .union(Incompatible::MMP)
    .union(Incompatible::FLEX_BG)
    .union(Incompatible::EA_INODE)
    .union(Incompatible::CSUM_SEED)
    .union(Incompatible::LARGE_DIR)
    .union(Incompatible::INLINE_DATA)
    .union(Incompatible::ENCRYPT)
    .union(Incompatible::CASEFOLD);

/// The read-only-compatible features that this driver writes. `QUOTA` would require updating the
/// quota, `SHARED_BLOCKS` and `READONLY` forbid writing, `REPLICA` never had an implementation.
const WRITABLE: ReadOnlyCompatible = ReadOnlyCompatible::SPARSE_SUPER
    .union(ReadOnlyCompatible::LARGE_FILE)
    .union(ReadOnlyCompatible::BTREE_DIR)
    .union(ReadOnlyCompatible::HUGE_FILE)
    .union(ReadOnlyCompatible::GDT_CSUM)
    .union(ReadOnlyCompatible::DIR_NLINK)
    .union(ReadOnlyCompatible::EXTRA_ISIZE)
    .union(ReadOnlyCompatible::BIGALLOC)
    .union(ReadOnlyCompatible::METADATA_CSUM)
    .union(ReadOnlyCompatible::PROJECT)
    .union(ReadOnlyCompatible::VERITY)
    .union(ReadOnlyCompatible::ORPHAN_PRESENT);

/// The three feature words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features {
    pub(crate) compatible: Compatible,
    pub(crate) incompatible: Incompatible,
    pub(crate) read_only_compatible: ReadOnlyCompatible,
}

impl Features {
    /// No features.
    pub(crate) const EMPTY: Self = Self {
        compatible: Compatible::empty(),
        incompatible: Incompatible::empty(),
        read_only_compatible: ReadOnlyCompatible::empty(),
    };

    /// All features, including unknown ones.
    pub(crate) const ALL: Self = Self {
        compatible: Compatible::from_bits_retain(u32::MAX),
        incompatible: Incompatible::from_bits_retain(u32::MAX),
        read_only_compatible: ReadOnlyCompatible::from_bits_retain(u32::MAX),
    };

    /// Returns the feature that `dumpe2fs` prints with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let bit = |name_of: fn(u32) -> Option<&'static str>| {
            let found = (0..u32::BITS).find(|&bit| name_of(bit) == Some(name));
            found.map_or(0, |bit| 1u32.wrapping_shl(bit))
        };
        let features = Self {
            compatible: Compatible::from_bits_retain(bit(compatible_name)),
            incompatible: Incompatible::from_bits_retain(bit(incompatible_name)),
            read_only_compatible: ReadOnlyCompatible::from_bits_retain(bit(
                read_only_compatible_name,
            )),
        };
        Some(features).filter(|&features| features != Self::EMPTY)
    }

    /// Returns the features of both sets.
    pub(crate) const fn union(self, other: Self) -> Self {
        Self {
            compatible: self.compatible.union(other.compatible),
            incompatible: self.incompatible.union(other.incompatible),
            read_only_compatible: self.read_only_compatible.union(other.read_only_compatible),
        }
    }

    /// Returns the features without those of the other set.
    pub(crate) const fn difference(self, other: Self) -> Self {
        Self {
            compatible: self.compatible.difference(other.compatible),
            incompatible: self.incompatible.difference(other.incompatible),
            read_only_compatible: self
                .read_only_compatible
                .difference(other.read_only_compatible),
        }
    }

    /// Returns true if all of these features are set.
    pub(crate) fn has(self, features: impl Into<AnyFeature>) -> bool {
        match features.into() {
            AnyFeature::Compatible(f) => self.compatible.contains(f),
            AnyFeature::Incompatible(f) => self.incompatible.contains(f),
            AnyFeature::ReadOnlyCompatible(f) => self.read_only_compatible.contains(f),
        }
    }

    /// Returns the names of all features that are set, in the order of `dumpe2fs`: by word
    /// (compatible, incompatible, read-only-compatible), then by bit.
    pub(crate) fn names(self) -> Vec<String> {
        let mut names = names_of(self.compatible.bits(), 'C', compatible_name);
        names.extend(names_of(self.incompatible.bits(), 'I', incompatible_name));
        let read_only = self.read_only_compatible.bits();
        names.extend(names_of(read_only, 'R', read_only_compatible_name));
        names
    }

    /// Returns the names of the incompatible features that this driver cannot read.
    pub(crate) fn unreadable_names(self) -> Vec<String> {
        let unreadable = self.incompatible.difference(READABLE);
        names_of(unreadable.bits(), 'I', incompatible_name)
    }

    /// Returns the names of the features that this driver can read but not write. `MMP` would
    /// require regular updates while the filesystem is open.
    pub(crate) fn unwritable_names(self) -> Vec<String> {
        let incompatible = self.incompatible.intersection(Incompatible::MMP);
        let mut names = names_of(incompatible.bits(), 'I', incompatible_name);
        let read_only = self.read_only_compatible.difference(WRITABLE);
        names.extend(names_of(read_only.bits(), 'R', read_only_compatible_name));
        names
    }
}

/// A set of features of one of the words.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyFeature {
    Compatible(Compatible),
    Incompatible(Incompatible),
    ReadOnlyCompatible(ReadOnlyCompatible),
}

impl From<Compatible> for AnyFeature {
    fn from(features: Compatible) -> Self {
        Self::Compatible(features)
    }
}

impl From<Incompatible> for AnyFeature {
    fn from(features: Incompatible) -> Self {
        Self::Incompatible(features)
    }
}

impl From<ReadOnlyCompatible> for AnyFeature {
    fn from(features: ReadOnlyCompatible) -> Self {
        Self::ReadOnlyCompatible(features)
    }
}

fn names_of(word: u32, letter: char, name: fn(u32) -> Option<&'static str>) -> Vec<String> {
    (0..u32::BITS)
        .filter(|&bit| word.wrapping_shr(bit) & 1 == 1)
        .map(|bit| match name(bit) {
            Some(name) => name.to_owned(),
            None => format!("FEATURE_{letter}{bit}"),
        })
        .collect()
}

fn compatible_name(bit: u32) -> Option<&'static str> {
    Some(match bit {
        0 => "dir_prealloc",
        1 => "imagic_inodes",
        2 => "has_journal",
        3 => "ext_attr",
        4 => "resize_inode",
        5 => "dir_index",
        6 => "lazy_bg",
        8 => "snapshot_bitmap",
        9 => "sparse_super2",
        10 => "fast_commit",
        11 => "stable_inodes",
        12 => "orphan_file",
        _ => return None,
    })
}

fn incompatible_name(bit: u32) -> Option<&'static str> {
    Some(match bit {
        0 => "compression",
        1 => "filetype",
        2 => "needs_recovery",
        3 => "journal_dev",
        4 => "meta_bg",
        6 => "extent",
        7 => "64bit",
        8 => "mmp",
        9 => "flex_bg",
        10 => "ea_inode",
        12 => "dirdata",
        13 => "metadata_csum_seed",
        14 => "large_dir",
        15 => "inline_data",
        16 => "encrypt",
        17 => "casefold",
        _ => return None,
    })
}

fn read_only_compatible_name(bit: u32) -> Option<&'static str> {
    Some(match bit {
        0 => "sparse_super",
        1 => "large_file",
        3 => "huge_file",
        4 => "uninit_bg",
        5 => "dir_nlink",
        6 => "extra_isize",
        8 => "quota",
        9 => "bigalloc",
        10 => "metadata_csum",
        11 => "replica",
        12 => "read-only",
        13 => "project",
        14 => "shared_blocks",
        15 => "verity",
        16 => "orphan_present",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(compatible: u32, incompatible: u32, read_only: u32) -> Features {
        Features {
            compatible: Compatible::from_bits_retain(compatible),
            incompatible: Incompatible::from_bits_retain(incompatible),
            read_only_compatible: ReadOnlyCompatible::from_bits_retain(read_only),
        }
    }

    #[test]
    fn names_in_the_order_of_dumpe2fs() {
        // The features that `dumpe2fs -h` prints for a default ext4 of Debian 13.
        let f = features(0x103c, 0x22c2, 0x46b);
        assert_eq!(
            f.names().join(" "),
            "has_journal ext_attr resize_inode dir_index orphan_file filetype extent 64bit \
             flex_bg metadata_csum_seed sparse_super large_file huge_file dir_nlink extra_isize \
             metadata_csum"
        );
    }

    #[test]
    fn unknown_bits_are_named_by_number() {
        let f = features(0, 0x8000_0001 | 0x2, 0x8000_0000);
        assert_eq!(f.unreadable_names(), ["compression", "FEATURE_I31"]);
        assert!(f.names().contains(&"FEATURE_R31".to_owned()));
    }
}
