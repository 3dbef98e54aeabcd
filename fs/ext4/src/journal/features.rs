//! The feature words of the journal's superblock.

use bitflags::bitflags;

bitflags! {
    /// The flags in `s_feature_compat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Compatible: u32 {
        /// A commit block has a checksum of its transaction ("v1"), `JBD2_FEATURE_COMPAT_CHECKSUM`.
        const CHECKSUM = 0x1;
        const _ = !0;
    }
}

bitflags! {
    /// The flags in `s_feature_incompat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Incompatible: u32 {
        /// The log has revocation blocks.
        const REVOKE = 0x1;
        /// Block numbers have 64 bits.
        const SIXTY_FOUR_BIT = 0x2;
        /// The commit block is written together with the blocks before it.
        const ASYNC_COMMIT = 0x4;
        /// Every block has a checksum; that of data blocks is cut to 16 bits.
        const CSUM_V2 = 0x8;
        /// Every block has a checksum.
        const CSUM_V3 = 0x10;
        /// An area of fast commits follows the log.
        const FAST_COMMIT = 0x20;
        const _ = !0;
    }
}

/// The features that this driver supports: `JBD2_KNOWN_INCOMPAT_FEATURES`.
pub(super) const KNOWN: Incompatible = Incompatible::REVOKE
    .union(Incompatible::SIXTY_FOUR_BIT)
    .union(Incompatible::ASYNC_COMMIT)
    .union(Incompatible::CSUM_V2)
    .union(Incompatible::CSUM_V3)
    .union(Incompatible::FAST_COMMIT);

/// Returns the names of unsupported features; known names are those of dumpe2fs.
pub(super) fn unknown_names(incompatible: Incompatible, read_only_compatible: u32) -> Vec<String> {
    let words = [
        (incompatible.difference(KNOWN).bits(), 'I'),
        (read_only_compatible, 'R'),
    ];
    let bits = words.into_iter().flat_map(|(word, letter)| {
        let set = move |bit: &u32| word.wrapping_shr(*bit) & 1 == 1;
        (0..u32::BITS)
            .filter(set)
            .map(move |bit| format!("FEATURE_{letter}{bit}"))
    });
    bits.collect()
}

/// The kind of checksums of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checksums {
    /// The journal has no checksums.
    None,
    /// Version 1: a checksum for each transaction, in its commit block.
    V1,
    /// Version 2: a checksum for each block, of which data blocks have 16 bits.
    V2,
    /// Version 3: a checksum for each block.
    V3,
}

impl Checksums {
    /// Returns the kind of checksums, or `None` if mutually exclusive features are set.
    pub(super) fn from_features(
        compatible: Compatible,
        incompatible: Incompatible,
    ) -> Option<Self> {
        let v1 = compatible.contains(Compatible::CHECKSUM);
        let v2 = incompatible.contains(Incompatible::CSUM_V2);
        let v3 = incompatible.contains(Incompatible::CSUM_V3);
        match (v1, v2, v3) {
            (false, false, false) => Some(Self::None),
            (true, false, false) => Some(Self::V1),
            (false, true, false) => Some(Self::V2),
            (false, false, true) => Some(Self::V3),
            _ => None,
        }
    }

    /// Returns true if each block has its own checksum.
    pub(super) const fn per_block(self) -> bool {
        matches!(self, Self::V2 | Self::V3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_versions_exclude_each_other() {
        let of = |compatible, incompatible| {
            Checksums::from_features(
                Compatible::from_bits_retain(compatible),
                Incompatible::from_bits_retain(incompatible),
            )
        };
        assert_eq!(of(0, 0x7), Some(Checksums::None));
        assert_eq!(of(1, 0x7), Some(Checksums::V1));
        assert_eq!(of(0, 0xf), Some(Checksums::V2));
        assert_eq!(of(0, 0x17), Some(Checksums::V3));
        assert_eq!(of(1, 0x17), None);
        assert_eq!(of(0, 0x18), None);
    }

    #[test]
    fn unknown_features_are_named() {
        assert!(unknown_names(KNOWN, 0).is_empty());
        let names = unknown_names(Incompatible::from_bits_retain(0x41), 2);
        assert_eq!(names, ["FEATURE_I6", "FEATURE_R1"]);
    }
}
