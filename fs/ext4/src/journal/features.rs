//! The feature words of the journal's superblock.

use bitflags::bitflags;

bitflags! {
    /// `s_feature_compat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Compatible: u32 {
        /// `JBD2_FEATURE_COMPAT_CHECKSUM`: a commit block sums up its transaction ("v1").
        const CHECKSUM = 0x1;
        const _ = !0;
    }
}

bitflags! {
    /// `s_feature_incompat`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Incompatible: u32 {
        /// Revocation blocks.
        const REVOKE = 0x1;
        /// Block numbers of 64 bits.
        const SIXTY_FOUR_BIT = 0x2;
        /// The commit block is written along with the blocks before it.
        const ASYNC_COMMIT = 0x4;
        /// Every block has a checksum, those of data cut to 16 bits.
        const CSUM_V2 = 0x8;
        /// Every block has a checksum.
        const CSUM_V3 = 0x10;
        /// There is an area of fast commits behind the log.
        const FAST_COMMIT = 0x20;
        const _ = !0;
    }
}

/// What this driver knows: `JBD2_KNOWN_INCOMPAT_FEATURES`.
pub(super) const KNOWN: Incompatible = Incompatible::REVOKE
    .union(Incompatible::SIXTY_FOUR_BIT)
    .union(Incompatible::ASYNC_COMMIT)
    .union(Incompatible::CSUM_V2)
    .union(Incompatible::CSUM_V3)
    .union(Incompatible::FAST_COMMIT);

/// The names, as dumpe2fs spells those that it knows, of the features that this driver does not.
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

/// The checksums that a journal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checksums {
    /// None at all.
    None,
    /// One for each transaction, in its commit block.
    V1,
    /// One for each block; 16 bits of it for data.
    V2,
    /// One for each block.
    V3,
}

impl Checksums {
    /// `None` when features that exclude each other are set.
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

    /// Whether each block has its own.
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
