//! The metadata of thin pools and caches.

use diskfs_block::BlockWrite;

const BLOCK: usize = 4096;

/// The maximum number of blocks whose checksums are corrected: more than any fixture has.
const MAX_BLOCKS: u64 = 1280;

/// Corrects the checksums of all blocks that look like such metadata. Blocks that cannot be read or
/// written are skipped.
pub(crate) fn seal(metadata: &dyn BlockWrite) {
    for number in 0..MAX_BLOCKS {
        let mut block = vec![0; BLOCK];
        if metadata.read_at(number * BLOCK as u64, &mut block).is_err() {
            return;
        }
        if let Some(xor) = xor(&block, number) {
            let sum = !crc32c::crc32c(&block[4..]) ^ xor;
            let _ = metadata.write_at(number * BLOCK as u64, &sum.to_le_bytes());
        }
    }
}

/// Returns the value with which the checksum of a block's type is combined by exclusive or.
fn xor(block: &[u8], number: u64) -> Option<u32> {
    let says = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
    match () {
        () if number == 0 && says(32) == 0o6_142_003 => Some(9_031_977),
        () if number == 0 => Some(160_774),
        () if says(8) == number => Some(121_107),
        () if says(16) == number => Some(595_846_735),
        () => None,
    }
}
