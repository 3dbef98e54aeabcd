//! Transaction logs written after the specification, because no available program writes any.

use crate::base_block::checksum;
use crate::marvin32::{LOG_SEED, Marvin32};

/// Sets the sequence numbers of a hive or a log, and corrects the checksum.
pub fn set_sequence_numbers(file: &mut [u8], primary: u32, secondary: u32) {
    file[4..8].copy_from_slice(&primary.to_le_bytes());
    file[8..12].copy_from_slice(&secondary.to_le_bytes());
    seal(file);
}

fn seal(file: &mut [u8]) {
    let sum = checksum(file);
    file[508..512].copy_from_slice(&sum.to_le_bytes());
}

/// Returns the first sector of a log for the hive with this base block.
fn base_block(hive: &[u8], file_type: u32) -> Vec<u8> {
    let mut block = hive[..512].to_vec();
    block[28..32].copy_from_slice(&file_type.to_le_bytes());
    seal(&mut block);
    block
}

/// Returns the numbers of the pages of the hive bins data that differ in `after`.
fn changed(before: &[u8], after: &[u8], page_bytes: usize) -> Vec<usize> {
    let pages = after[4096..].chunks(page_bytes).enumerate();
    let pages = pages.filter(|(number, page)| {
        let at = 4096 + number * page_bytes;
        before.get(at..at + page_bytes) != Some(*page)
    });
    pages.map(|(number, _)| number).collect()
}

/// Returns a log with a dirty vector that turns the hive `before` into `after`.
pub fn old(before: &[u8], after: &[u8]) -> Vec<u8> {
    let mut log = base_block(after, 1);
    let mut bitmap = vec![0_u8; (after.len() - 4096).div_ceil(512 * 8)];
    let dirty = changed(before, after, 512);
    for sector in &dirty {
        bitmap[sector / 8] |= 1 << (sector % 8);
    }
    log.extend(b"DIRT");
    log.extend(bitmap);
    log.resize(log.len().next_multiple_of(512), 0);
    for sector in dirty {
        let at = 4096 + sector * 512;
        log.extend(&after[at..at + 512]);
    }
    log
}

/// Returns a log with entries: one for each step from a hive to the next. The base block is that of
/// the last hive, with the sequence number of the first entry.
pub fn new(first_sequence_number: u32, hives: &[&[u8]]) -> Vec<u8> {
    let mut log = base_block(hives[hives.len() - 1], 6);
    set_sequence_numbers(&mut log, first_sequence_number, first_sequence_number);
    let steps = hives.windows(2).zip(first_sequence_number..);
    for (step, sequence_number) in steps {
        log.extend(entry(step[0], step[1], sequence_number));
    }
    log
}

fn entry(before: &[u8], after: &[u8], sequence_number: u32) -> Vec<u8> {
    let pages = changed(before, after, 4096);
    let mut entry = b"HvLE".to_vec();
    let size = (40 + pages.len() * (8 + 4096)).next_multiple_of(512);
    for number in [
        size,
        0,
        sequence_number as usize,
        after.len() - 4096,
        pages.len(),
    ] {
        entry.extend((number as u32).to_le_bytes());
    }
    entry.resize(40, 0);
    for page in &pages {
        entry.extend(((page * 4096) as u32).to_le_bytes());
        entry.extend(4096_u32.to_le_bytes());
    }
    for page in pages {
        let at = 4096 + page * 4096;
        entry.extend(&after[at..at + 4096]);
    }
    entry.resize(size, 0);
    seal_entry(&mut entry);
    entry
}

/// Corrects the hashes of an entry.
pub fn seal_entry(entry: &mut [u8]) {
    let hash = Marvin32::of(LOG_SEED, &entry[40..]);
    entry[24..32].copy_from_slice(&hash.to_le_bytes());
    let hash = Marvin32::of(LOG_SEED, &entry[..32]);
    entry[32..40].copy_from_slice(&hash.to_le_bytes());
}
