//! The tail of a directory block, `struct ext4_dir_entry_tail`: an unused entry of type 0xde, with
//! the block's checksum in place of its name.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Directory
//! Entries".

use crate::block::FileBlock;
use crate::bytes::{le32, put};
use crate::checksum::ChecksumSeed;
use crate::error::{Corrupt, Result, Structure, malformed};

/// The size of the tail.
pub(super) const TAIL_BYTES: usize = 12;
const TAIL_START: [u8; 8] = [0, 0, 0, 0, 12, 0, 0, 0xde];

/// Returns where the tail of a block begins: the entries end there.
const fn start(bytes: &[u8]) -> usize {
    bytes.len().saturating_sub(TAIL_BYTES)
}

/// Returns the part of a block that contains entries.
pub(crate) fn entries(seed: Option<ChecksumSeed>, bytes: &[u8]) -> &[u8] {
    let end = seed.map_or(bytes.len(), |_| start(bytes));
    bytes.get(..end).unwrap_or_default()
}

/// Returns the part of a block that contains entries, for changes.
pub(super) fn entries_mut(seed: Option<ChecksumSeed>, bytes: &mut [u8]) -> &mut [u8] {
    let end = seed.map_or(bytes.len(), |_| start(bytes));
    bytes.get_mut(..end).unwrap_or_default()
}

/// Writes a block's tail with its checksum.
pub(super) fn seal(seed: Option<ChecksumSeed>, bytes: &mut [u8]) {
    let Some(seed) = seed else { return };
    let start = start(bytes);
    let sum = seed.of(&[bytes.get(..start).unwrap_or_default()]);
    put(bytes, start, &TAIL_START);
    let behind = start.saturating_add(TAIL_START.len());
    put(bytes, behind, &sum.to_le_bytes());
}

/// Returns true if a block has a tail, whatever its checksum.
pub(crate) fn exists(bytes: &[u8]) -> bool {
    let tail = bytes.get(start(bytes)..).unwrap_or_default();
    tail.starts_with(&TAIL_START)
}

/// Checks a block's checksum.
pub(crate) fn verify(seed: ChecksumSeed, block: FileBlock, bytes: &[u8]) -> Result<()> {
    let structure = Structure::DirectoryBlock(block);
    let (covered, tail) = bytes.split_at_checked(start(bytes)).unwrap_or_default();
    let Some(stored) = tail.strip_prefix(&TAIL_START) else {
        return Err(malformed(structure, "missing checksum tail"));
    };
    let expected = seed.of(&[covered]);
    let actual = le32(stored, 0).unwrap_or(0);
    if expected == actual {
        return Ok(());
    }
    Err(Corrupt::Checksum {
        structure,
        expected,
        actual,
    }
    .into())
}

const _: () = assert!(TAIL_BYTES == TAIL_START.len() + 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_found_and_checked() {
        let seed = ChecksumSeed(5);
        let mut bytes = vec![7; 1024];
        seal(Some(seed), &mut bytes);
        assert_eq!(entries(Some(seed), &bytes), [7; 1012]);
        verify(seed, FileBlock(3), &bytes).unwrap();
        bytes[0] ^= 1;
        let e = verify(seed, FileBlock(3), &bytes).unwrap_err();
        assert!(
            e.to_string()
                .starts_with("invalid directory block 3: checksum"),
            "{e}"
        );
        bytes[1012] = 1;
        let e = verify(seed, FileBlock(3), &bytes).unwrap_err();
        assert!(e.to_string().contains("missing checksum tail"), "{e}");
    }
}
