//! The checksum algorithms of metadata blocks and of file data.

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use sha2::Sha256;
use twox_hash::XxHash64;

/// The bytes that a checksum can take in a superblock or in the header of a tree block.
pub(crate) const FIELD_BYTES: usize = 32;

/// The checksum algorithm of a filesystem (`csum_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChecksumType {
    Crc32c,
    Xxhash64,
    Sha256,
    Blake2b,
}

impl ChecksumType {
    /// Returns the algorithm with this number in the superblock; `None` if it is unknown.
    pub(crate) const fn from_number(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Crc32c),
            1 => Some(Self::Xxhash64),
            2 => Some(Self::Sha256),
            3 => Some(Self::Blake2b),
            _ => None,
        }
    }

    /// Returns the length of a checksum in bytes.
    pub(crate) const fn len_bytes(self) -> usize {
        match self {
            Self::Crc32c => 4,
            Self::Xxhash64 => 8,
            Self::Sha256 | Self::Blake2b => 32,
        }
    }

    /// Returns the name that `mkfs.btrfs --csum` uses.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Xxhash64 => "xxhash64",
            Self::Sha256 => "sha256",
            Self::Blake2b => "blake2b",
        }
    }

    /// Returns true if `stored` starts with the checksum of `data`.
    pub(crate) fn matches(self, data: &[u8], stored: &[u8]) -> bool {
        let Some(stored) = stored.get(..self.len_bytes()) else {
            return false;
        };
        match self {
            Self::Crc32c => stored == crc32c::crc32c(data).to_le_bytes(),
            Self::Xxhash64 => stored == XxHash64::oneshot(0, data).to_le_bytes(),
            Self::Sha256 => stored == Sha256::digest(data).as_slice(),
            Self::Blake2b => stored == Blake2b::<U32>::digest(data).as_slice(),
        }
    }

    /// Returns true if `block`, a superblock or a tree block, matches the checksum in its first
    /// [`FIELD_BYTES`].
    pub(crate) fn matches_block(self, block: &[u8]) -> bool {
        block
            .split_at_checked(FIELD_BYTES)
            .is_some_and(|(stored, data)| self.matches(data, stored))
    }
}

/// Returns the hash of a name, from which the key of its directory entry or attribute is made.
pub(crate) fn name_hash(name: &[u8]) -> u64 {
    // The kernel's CRC starts with ~1 and is not inverted at the end.
    u64::from(!crc32c::crc32c_append(1, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_names_are_the_kernels() {
        // `btrfs inspect-internal dump-tree` shows this key for `default` in the root tree.
        assert_eq!(name_hash(b"default"), 2_378_154_706);
    }

    #[test]
    fn a_wrong_checksum_does_not_match() {
        for number in 0..4 {
            let kind = ChecksumType::from_number(number).unwrap();
            assert!(!kind.matches(b"data", &[0; 32]), "{}", kind.name());
            assert!(!kind.matches(b"data", &[0; 3]), "{}", kind.name());
        }
        assert!(ChecksumType::Crc32c.matches(b"123456789", &0xe306_9283_u32.to_le_bytes()));
    }
}
