//! Completing a change from its record.

use std::collections::BTreeMap;

use diskfs_block::bytes::{array, index, le32, len_u64, put};
use diskfs_block::{BlockRead, BlockWrite};
use diskfs_vfs::{Error, ErrorKind, Result};

use super::mark::Mark;
use super::record::{
    BEFORE, CHECKSUM, COUNT, ENTRY_LEN, Entry, HEADER_LEN, ID, LENGTH, MAGIC, NUMBER,
    PIECE_MAX_BYTES, Phase, checksum,
};
use crate::device_failed;

/// The number of bytes of the first sector that can have a mark.
const FIRST_BYTES: usize = 512;
/// The maximum number of bytes of boot sectors and their backups in a record. They have two regions
/// of twelve sectors at most.
const BOOT_BYTES_MAX: usize = 256 << 10;

/// The boot sectors of one phase by their offset, in parts.
type BootSectors = BTreeMap<u64, Vec<u8>>;

/// Completes a change whose mark is in the first sector. Returns the size of the filesystem before
/// it; `None` if there is no mark.
///
/// # Errors
/// `Corrupt` if the record is damaged; errors of the device.
pub fn resume(device: &dyn BlockWrite) -> Result<Option<u64>> {
    let mut sector = [0; FIRST_BYTES];
    if device.size_bytes() < len_u64(FIRST_BYTES) {
        return Ok(None);
    }
    BlockRead::read_at(device, 0, &mut sector).map_err(device_failed)?;
    let Some(mark) = Mark::find(&sector) else {
        return Ok(None);
    };
    // The whole record is checked before anything is written.
    let mut boot = BTreeMap::new();
    for_each_entry(device, &mark, |entry, bytes| {
        if entry.phase == Phase::Main.number() {
            return Ok(());
        }
        collect(boot.entry(entry.phase).or_default(), entry, bytes)
    })?;
    let write = |phase: Phase| {
        for (offset, bytes) in boot.get(&phase.number()).map(joined).unwrap_or_default() {
            device.write_at(offset, &bytes).map_err(device_failed)?;
        }
        device.flush().map_err(device_failed)
    };
    write(Phase::First)?;
    let pieces = for_each_entry(device, &mark, |entry, bytes| {
        write_main(device, entry, bytes)
    })?;
    device.flush().map_err(device_failed)?;
    write(Phase::Backup)?;
    write(Phase::Last)?;
    for (offset, len_bytes) in pieces {
        // The record is in free clusters, and nothing depends on their contents.
        let _ = device.discard(offset, len_bytes);
    }
    Ok(Some(mark.old_bytes))
}

fn damaged(reason: &str, offset: u64) -> Error {
    let reason = format!("invalid record of an interrupted change of the size: {reason}");
    Error::new(ErrorKind::Corrupt, reason).at(offset)
}

/// Adds an entry to the sectors of its phase.
fn collect(sectors: &mut BootSectors, entry: &Entry, bytes: &[u8]) -> Result<()> {
    let len = index(entry.len);
    let total = sectors.values().map(Vec::len).sum::<usize>();
    if entry.copies.count != 1 || total.saturating_add(len) > BOOT_BYTES_MAX {
        return Err(damaged("too many boot sectors", entry.offset));
    }
    let mut part = vec![0; len];
    put(&mut part, 0, bytes);
    sectors.insert(entry.offset, part);
    Ok(())
}

/// Joins parts that are next to each other, so that each sector is written as a whole.
fn joined(sectors: &BootSectors) -> Vec<(u64, Vec<u8>)> {
    let mut joined: Vec<(u64, Vec<u8>)> = Vec::new();
    for (&offset, part) in sectors {
        match joined.last_mut() {
            Some((start, before)) if start.saturating_add(len_u64(before.len())) == offset => {
                before.extend_from_slice(part);
            }
            _ => joined.push((offset, part.clone())),
        }
    }
    joined
}

fn write_main(device: &dyn BlockWrite, entry: &Entry, bytes: &[u8]) -> Result<()> {
    if entry.phase != Phase::Main.number() {
        return Ok(());
    }
    for offset in entry.offsets() {
        let written = if entry.is_zeroes {
            device.write_zeroes(offset, entry.len.into())
        } else {
            device.write_at(offset, bytes)
        };
        written.map_err(device_failed)?;
    }
    Ok(())
}

/// Calls `apply` with each entry and its bytes, the last piece first. Returns the places of the
/// pieces.
fn for_each_entry(
    device: &dyn BlockWrite,
    mark: &Mark,
    mut apply: impl FnMut(&Entry, &[u8]) -> Result<()>,
) -> Result<Vec<(u64, u64)>> {
    let mut pieces = Vec::new();
    let mut offset = mark.last_piece;
    // Each piece has its own number, so a loop ends.
    for number in (0..mark.pieces).rev() {
        let piece = read_piece(device, offset, mark, number)?;
        let mut at = HEADER_LEN;
        for _ in 0..le32(&piece, COUNT).unwrap_or(0) {
            let entry = piece.get(at..).and_then(Entry::decode);
            let entry = entry.ok_or_else(|| damaged("missing entry", offset))?;
            at = at.saturating_add(ENTRY_LEN);
            let len = if entry.is_zeroes { 0 } else { index(entry.len) };
            let end = at.saturating_add(len);
            let bytes = piece.get(at..end);
            check_entry(device, &entry)?;
            apply(
                &entry,
                bytes.ok_or_else(|| damaged("missing bytes", offset))?,
            )?;
            at = end;
        }
        pieces.push((offset, len_u64(piece.len())));
        offset = array(&piece, BEFORE).map_or(0, u64::from_le_bytes);
    }
    Ok(pieces)
}

fn check_entry(device: &dyn BlockWrite, entry: &Entry) -> Result<()> {
    let ends = entry.offsets().map(|at| at.checked_add(entry.len.into()));
    let mut ends = ends.map(|end| end.is_some_and(|end| end <= device.size_bytes()));
    if entry.phase > Phase::Last.number() {
        return Err(damaged("unknown phase of an entry", entry.offset));
    }
    if ends.all(|is_within| is_within) {
        return Ok(());
    }
    Err(damaged("an entry leads out of the device", entry.offset))
}

fn read_piece(device: &dyn BlockWrite, offset: u64, mark: &Mark, number: u32) -> Result<Vec<u8>> {
    let is_within = |len: usize| {
        let end = offset.checked_add(len_u64(len));
        end.is_some_and(|end| end <= device.size_bytes())
    };
    let mut piece = vec![0; HEADER_LEN];
    if !is_within(HEADER_LEN) {
        return Err(damaged("a piece is outside of the device", offset));
    }
    BlockRead::read_at(device, offset, &mut piece).map_err(device_failed)?;
    let len = le32(&piece, LENGTH).unwrap_or(0);
    let len_range = HEADER_LEN..=index(PIECE_MAX_BYTES);
    if !piece.starts_with(&MAGIC) || !len_range.contains(&index(len)) || !is_within(index(len)) {
        return Err(damaged("missing piece", offset));
    }
    piece.resize(index(len), 0);
    BlockRead::read_at(device, offset, &mut piece).map_err(device_failed)?;
    let is_ours = array(&piece, ID).map(u64::from_le_bytes) == Some(mark.id)
        && le32(&piece, NUMBER) == Some(number);
    if !is_ours || le32(&piece, CHECKSUM) != Some(checksum(&piece)) {
        return Err(damaged("wrong checksum or number of a piece", offset));
    }
    Ok(piece)
}
