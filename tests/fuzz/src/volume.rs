//! Some accesses to a volume: at its start, within it, and at its end.

use diskfs_block::{BlockRead, BlockWrite};

/// The length of an access in bytes. It is no multiple of a sector.
const LEN: usize = 5000;

fn places(size_bytes: u64) -> [u64; 3] {
    [0, size_bytes / 3, size_bytes.saturating_sub(LEN as u64)]
}

/// Reads some bytes, and where they are stored.
pub(crate) fn read_some(volume: &dyn BlockRead) {
    for offset in places(volume.size_bytes()) {
        let _ = volume.read_at(offset, &mut [0; LEN]);
        let _ = volume.extent_at(offset);
    }
}

/// Makes a few writes of each kind.
pub(crate) fn write_some(volume: &dyn BlockWrite) {
    volume.will_need(0, 1 << 20);
    let _ = volume.block_size();
    for offset in places(volume.size_bytes()) {
        let _ = volume.write_at(offset, &[0x5a; LEN]);
        let _ = volume.write_zeroes(offset, 3000);
        let _ = volume.discard(offset, 2000);
    }
    let _ = volume.flush();
    let _ = volume.read_at(0, &mut [0; 512]);
}
