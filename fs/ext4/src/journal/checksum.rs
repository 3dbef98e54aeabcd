//! The checksums of the log: CRC-32 over a transaction ("v1"), or CRC-32C over each block.

use crate::checksum::crc32c;

use super::block_header::Sequence;

/// The seed of all CRC-32C checksums of a journal, computed from its UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockChecksum {
    seed: u32,
}

impl BlockChecksum {
    /// Returns the seed of the journal with this `s_uuid`.
    pub(super) fn of_uuid(uuid: &[u8; 16]) -> Self {
        Self {
            seed: crc32c(u32::MAX, uuid),
        }
    }

    /// Computes the checksum of a block. The four bytes at `field` hold the checksum, and count as
    /// zeroes.
    pub(super) fn of_block(self, block: &[u8], field: usize) -> u32 {
        let before = block.get(..field).unwrap_or_default();
        let behind = field.saturating_add(4);
        let after = block.get(behind..).unwrap_or_default();
        crc32c(crc32c(crc32c(self.seed, before), &[0; 4]), after)
    }

    /// Computes the checksum of a data block in parts; it includes the transaction's sequence
    /// number.
    pub(super) fn of_data(self, sequence: Sequence, parts: &[&[u8]]) -> u32 {
        let seed = crc32c(self.seed, &sequence.0.to_be_bytes());
        parts.iter().fold(seed, |crc, part| crc32c(crc, part))
    }
}

/// A CRC-32 with the bits of each byte in their own order (`crc32_be` in Linux), without
/// inversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransactionChecksum(u32);

impl TransactionChecksum {
    /// Returns the checksum of no blocks.
    pub(super) const fn new() -> Self {
        Self(u32::MAX)
    }

    /// Adds a block.
    pub(super) fn update(&mut self, block: &[u8]) {
        self.0 = block.iter().fold(self.0, |crc, &byte| {
            let [high, ..] = crc.to_be_bytes();
            let entry = TABLE
                .get(usize::from(high ^ byte))
                .copied()
                .unwrap_or_default();
            crc.wrapping_shl(8) ^ entry
        });
    }

    /// Returns the checksum.
    pub(super) const fn value(self) -> u32 {
        self.0
    }
}

/// The result of eight shifts for each byte.
static TABLE: [u32; 256] = table();

#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "evaluated by the compiler, which has no other conversion; below 256 throughout"
)]
const fn table() -> [u32; 256] {
    const POLYNOMIAL: u32 = 0x04c1_1db7;
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256usize {
        let mut crc = (index as u32).wrapping_shl(24);
        let mut bit = 0;
        while bit < 8u32 {
            let carry = crc & 0x8000_0000 != 0;
            crc = crc.wrapping_shl(1) ^ if carry { POLYNOMIAL } else { 0 };
            bit = bit.wrapping_add(1);
        }
        table[index] = crc;
        index = index.wrapping_add(1);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_in_the_order_of_bits() {
        // The catalogue's check values: CRC-32/MPEG-2 has neither inversion nor reflection.
        let mut sum = TransactionChecksum::new();
        sum.update(b"1234");
        sum.update(b"56789");
        assert_eq!(sum.value(), 0x0376_e6e7);
    }

    #[test]
    fn the_checksum_itself_counts_as_zeroes() {
        let checksum = BlockChecksum::of_uuid(&[7; 16]);
        let zero = checksum.of_block(b"abcd\0\0\0\0efgh", 4);
        assert_eq!(checksum.of_block(b"abcd\x01\x02\x03\x04efgh", 4), zero);
        assert_ne!(checksum.of_block(b"abcd\0\0\0\0efgi", 4), zero);
        assert_eq!(checksum.of_block(b"abcd\x01\x02\x03\x04", 4), {
            checksum.of_block(b"abcd\0\0\0\0", 8 - 4)
        });
    }

    #[test]
    fn data_depends_on_the_transaction() {
        let checksum = BlockChecksum::of_uuid(&[7; 16]);
        let of = |n| checksum.of_data(Sequence(n), &[b"data"]);
        assert_ne!(of(1), of(2));
    }
}
