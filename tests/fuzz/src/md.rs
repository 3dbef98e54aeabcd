//! md arrays.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Overlay};
use diskfs_volume::md::{Member, arrays};

use crate::lvm::{SEALED_BYTES, places};

const MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();

/// Reads the arrays on the device and its partitions, with corrected checksums, which mutations
/// never hit.
pub(crate) fn all(device: &Arc<dyn BlockRead>) {
    let sealed = Arc::new(Overlay::in_memory(Arc::clone(device), SEALED_BYTES));
    let whole: Arc<dyn BlockRead> = sealed.clone();
    let places = places(&whole, 64);
    for (start, place) in &places {
        let size = place.size_bytes();
        let end = (size / 512).saturating_sub(16) & !7;
        let old = (size & !0xffff).saturating_sub(1 << 16);
        for at in [0, 4096, end * 512, old] {
            // Superblocks that are outside of the device or invalid cannot be sealed.
            let _ = seal(&*sealed, start + at);
        }
    }
    let read = places.iter();
    let read = read.filter_map(|(_, place)| Some((Member::read(&**place).ok()??, place)));
    let (members, devices): (Vec<Member>, Vec<_>) = read.unzip();
    for array in arrays(&members) {
        let Ok(opened) = array.open(&|index| Ok(Arc::clone(devices[index]))) else {
            continue;
        };
        let size_bytes = opened.size_bytes();
        for offset in [0, size_bytes / 3, size_bytes.saturating_sub(5000)] {
            let _ = opened.read_at(offset, &mut [0; 5000]);
            let _ = opened.extent_at(offset);
        }
    }
}

/// Corrects the checksum of a superblock.
fn seal(device: &dyn BlockWrite, at: u64) -> diskfs_block::Result<()> {
    let mut block = vec![0; 4096];
    device.read_at(at, &mut block)?;
    if !block.starts_with(&MAGIC) {
        return Ok(());
    }
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes"));
    let (len, own) = match word(4) {
        0 => (4096, 38 * 4),
        _ => (256 + 2 * (word(220) as usize).min(1920), 216),
    };
    let words = block[..len].chunks(4).enumerate();
    let sum: u64 = words
        .filter(|(n, _)| n * 4 != own)
        .map(|(_, word)| {
            let mut padded = [0; 4];
            padded[..word.len()].copy_from_slice(word);
            u64::from(u32::from_le_bytes(padded))
        })
        .sum();
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    device.write_at(at + own as u64, &sum.to_le_bytes()[..4])
}
