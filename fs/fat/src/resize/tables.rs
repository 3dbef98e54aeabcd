//! The tables with the new cluster numbers.

use diskfs_block::BlockRead;
use diskfs_clusters::resize::{Copies, Record, Renumbering};
use diskfs_clusters::{Cluster, Corrupt};

use crate::boot_sector::FatKind;
use crate::bytes::{index, len_u64};
use crate::error::{Result, device_failed};
use crate::fat::FatEntry;

use super::OldVolume;
use super::layout::NewLayout;

/// The number of entries that are computed at once. For each type they are whole sectors.
const PIECE_ENTRIES: u32 = 32_768;
/// The bits of an entry of FAT32 that are reserved and stay unchanged.
const RESERVED_BITS: u32 = 0xf000_0000;

/// Records the changed sectors of all copies of the table. Returns the number of free clusters.
///
/// # Errors
/// Those of [`Record::write`]; `Corrupt`.
pub(super) fn record(
    old: &OldVolume,
    renumbering: &Renumbering,
    layout: &NewLayout,
    record: &mut Record<'_>,
) -> Result<u32> {
    let kind = old.boot.kind;
    let copies = Copies {
        count: old.boot.fats,
        stride: layout.fat_bytes,
    };
    let end = Cluster(2).plus(layout.clusters).0;
    let (mut free, mut at, mut first): (u32, u64, u32) = (0, 0, 0);
    while at < layout.fat_bytes {
        let mut piece = Vec::new();
        for number in first..first.saturating_add(PIECE_ENTRIES) {
            let raw = match number {
                number if number < end => entry(old, renumbering, Cluster(number))?,
                _ => 0,
            };
            free = free.saturating_add(u32::from(number < end && raw & !RESERVED_BITS == 0));
            piece.push(raw);
        }
        let mut bytes = encode(kind, &piece);
        let rest = layout.fat_bytes.saturating_sub(at);
        let len = len_u64(piece_bytes(kind)).min(rest);
        bytes.resize(index(len), 0);
        let offset = old.boot.fat_offset.saturating_add(at);
        let before = read_copies(old, offset, copies, bytes.len())?;
        record.write_sectors(offset, &bytes, copies, |sector| {
            let is_same = |copy: &Vec<u8>| copy.get(sector.clone()) == bytes.get(sector.clone());
            !before.iter().all(is_same)
        })?;
        at = at.saturating_add(len);
        first = first.saturating_add(PIECE_ENTRIES);
    }
    Ok(free)
}

/// Returns the new entry with this number.
fn entry(old: &OldVolume, renumbering: &Renumbering, number: Cluster) -> Result<u32> {
    if number < Cluster(2) {
        return old.fat.whole(number);
    }
    let Some(before) = renumbering.old_number(number) else {
        return Ok(0);
    };
    let whole = old.fat.whole(before)?;
    let raw = whole & old.fat.mask();
    match old.fat.decode(raw) {
        FatEntry::Next(next) => {
            let next = renumbering.new_number(next).ok_or(Corrupt::Link {
                first: before,
                cluster: before,
                value: raw,
            })?;
            Ok(whole & !old.fat.mask() | next.0)
        }
        FatEntry::Free | FatEntry::End | FatEntry::Other(_) => Ok(whole),
    }
}

/// Returns the present bytes in the place of each copy.
fn read_copies(old: &OldVolume, offset: u64, copies: Copies, len: usize) -> Result<Vec<Vec<u8>>> {
    let read = |nth: u8| {
        let mut bytes = vec![0; len];
        let before = copies.stride.saturating_mul(nth.into());
        let read = BlockRead::read_at(&*old.device, offset.saturating_add(before), &mut bytes);
        read.map_err(device_failed)?;
        Ok(bytes)
    };
    (0..copies.count).map(read).collect()
}

const fn piece_bytes(kind: FatKind) -> usize {
    const ENTRIES: usize = 32_768;
    match kind {
        FatKind::Fat12 => ENTRIES / 2 * 3,
        FatKind::Fat16 => ENTRIES * 2,
        FatKind::Fat32 => ENTRIES * 4,
    }
}

/// Returns the bytes of these entries.
fn encode(kind: FatKind, entries: &[u32]) -> Vec<u8> {
    let low = |entry: &u32| entry.to_le_bytes();
    match kind {
        FatKind::Fat12 => entries
            .chunks(2)
            .flat_map(|pair| {
                let both = pair.first().unwrap_or(&0) & 0xfff;
                let both = both | (pair.get(1).unwrap_or(&0) & 0xfff) << 12;
                let [a, b, c, _] = both.to_le_bytes();
                [a, b, c]
            })
            .collect(),
        FatKind::Fat16 => entries
            .iter()
            .flat_map(|entry| {
                let [a, b, ..] = low(entry);
                [a, b]
            })
            .collect(),
        FatKind::Fat32 => entries.iter().flat_map(low).collect(),
    }
}
