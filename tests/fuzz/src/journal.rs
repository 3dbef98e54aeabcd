//! Correction of a journal's checksums after a mutation, which never hits them by chance.
//!
//! The layout is that of jbd2 in the kernel's `Documentation/filesystems/ext4/journal.rst`; all
//! numbers are big-endian.

use crate::Sparse;

const MAGIC: u32 = 0xc03b_3998;

/// The size of the journal's superblock in bytes.
const SUPERBLOCK_BYTES: u64 = 1024;

/// Returns the offset of the first journal superblock, at the start of a block of at least 1 KiB;
/// `None` if there is none with checksums of version 2 or 3.
pub(crate) fn superblock_with_checksums(image: &Sparse) -> Option<u64> {
    let at = headers(image).find(|&at| matches!(number(image, at + 4), 3 | 4))?;
    let incompat = number(image, at + 0x28);
    (incompat & 0x18 != 0).then_some(at)
}

/// Corrects the checksums of all blocks of the journal whose superblock is at `superblock`. The
/// checksums of data blocks, which are in their tags, stay unchanged.
pub(crate) fn seal(image: &mut Sparse, superblock: u64) {
    let block_bytes = u64::from(number(image, superblock + 0x0c));
    if !(1024..=65_536).contains(&block_bytes) || !block_bytes.is_power_of_two() {
        return;
    }
    let uuid = bytes(image, superblock + 0x30, 16);
    let seed = raw_crc(!0, &uuid);
    let places: Vec<u64> = headers(image).filter(|at| at % block_bytes == 0).collect();
    for at in places {
        match number(image, at + 4) {
            // Descriptor and revocation blocks have the checksum in a tail, commit blocks in a
            // field.
            1 | 5 => put(image, at, block_bytes, block_bytes - 4, seed),
            2 => put(image, at, block_bytes, 0x10, seed),
            3 | 4 => put(image, at, SUPERBLOCK_BYTES, 0xfc, !0),
            _ => {}
        }
    }
}

/// Returns the offsets of possible journal blocks: the magic number at a multiple of 1 KiB.
fn headers(image: &Sparse) -> impl Iterator<Item = u64> + '_ {
    image
        .block_offsets()
        .flat_map(|block| (0..4).map(move |kib| block + 1024 * kib))
        .filter(|&at| number(image, at) == MAGIC)
}

/// Computes and stores the checksum of `len` bytes at `at`; its own four bytes at `field` count as
/// zero.
fn put(image: &mut Sparse, at: u64, len: u64, field: u64, seed: u32) {
    image.write(at + field, &[0; 4]);
    let crc = raw_crc(seed, &bytes(image, at, len));
    image.write(at + field, &crc.to_be_bytes());
}

/// Computes CRC-32C without the inversions at both ends, as jbd2 chains it.
fn raw_crc(seed: u32, data: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, data)
}

fn bytes(image: &Sparse, at: u64, len: u64) -> Vec<u8> {
    (at..at + len).map(|at| image.byte(at)).collect()
}

fn number(image: &Sparse, at: u64) -> u32 {
    (0..4).fold(0, |n, i| n << 8 | u32::from(image.byte(at + i)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixtures were sealed by the tools and the kernel, so sealing them again changes nothing.
    #[test]
    fn seals_as_the_tools_do() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/images");
        let seeds = crate::seeds::load(directory.as_ref(), None).unwrap();
        let mut sealed = 0;
        // In those images, the contents of a file look like a journal block.
        for seed in seeds.iter().filter(|seed| !seed.name.contains("escape")) {
            let Some(at) = superblock_with_checksums(&seed.image) else {
                continue;
            };
            let mut again = seed.image.clone();
            seal(&mut again, at);
            assert!(again.to_input() == seed.image.to_input(), "{}", seed.name);
            sealed += 1;
        }
        assert!(sealed > 10, "{sealed}");
    }
}
