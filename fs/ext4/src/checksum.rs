//! CRC-32C and CRC-16 as ext4 seeds and chains them.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Checksums".

/// Returns the CRC-32C of `bytes`, continued from `seed`, without the usual inversions before and
/// after: ext4 chains bare register values.
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    // The crate inverts before and after; a second inversion on both sides gives the bare register.
    !crc32c::crc32c_append(!seed, bytes)
}

/// The seed of all checksums of the filesystem: the checksum of its UUID, or `s_checksum_seed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChecksumSeed(pub(crate) u32);

impl ChecksumSeed {
    /// Returns the seed of a filesystem without `metadata_csum_seed`.
    pub(crate) fn of_uuid(uuid: &[u8; 16]) -> Self {
        Self(crc32c(u32::MAX, uuid))
    }

    /// Returns the seed of everything that belongs to one inode.
    pub(crate) fn of_inode(self, inode: u32, generation: u32) -> Self {
        let seed = crc32c(self.0, &inode.to_le_bytes());
        Self(crc32c(seed, &generation.to_le_bytes()))
    }

    /// Returns the CRC-32C of the concatenated parts, from this seed.
    pub(crate) fn of(self, parts: &[&[u8]]) -> u32 {
        parts.iter().fold(self.0, |crc, part| crc32c(crc, part))
    }
}

/// Returns the CRC-16 (polynomial 0x8005, reflected) of `bytes`, continued from `crc`, as group
/// descriptors use it with `gdt_csum`.
pub(crate) fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte), |crc, _| {
            let carry = crc & 1;
            (crc >> 1) ^ 0xa001u16.wrapping_mul(carry)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_is_the_bare_register() {
        // RFC 3720, B.4: 32 bytes of zeroes give 0x8a9136aa with both inversions.
        assert_eq!(!crc32c(u32::MAX, &[0; 32]), 0x8a91_36aa);
        let whole = crc32c(u32::MAX, b"123456789");
        assert_eq!(!whole, 0xe306_9283);
        assert_eq!(crc32c(crc32c(u32::MAX, b"1234"), b"56789"), whole);
        assert_eq!(ChecksumSeed(u32::MAX).of(&[b"12", b"", b"3456789"]), whole);
    }

    #[test]
    fn crc16_is_crc_16_arc() {
        // The catalogue's check value of CRC-16/ARC.
        assert_eq!(crc16(0, b"123456789"), 0xbb3d);
    }
}
