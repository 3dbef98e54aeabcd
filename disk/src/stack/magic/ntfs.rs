//! NTFS: the boot sector's OEM ID and serial number; the label is an attribute of the file
//! `$Volume`.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

/// The limit on the size of a file record; no formatter makes larger ones.
const MAX_RECORD_BYTES: usize = 4096;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    view.has(3, b"NTFS    ").then(|| {
        let serial = view.le64(0x48);
        let label = label(view).unwrap_or_default();
        filesystem("ntfs", label, Some(format!("{serial:016X}")))
    })
}

/// Returns the name in the fourth record of the master file table.
fn label(view: &View<'_>) -> Option<Vec<u8>> {
    const VOLUME: u64 = 3;
    let cluster_bytes = match view.u8(13) {
        sectors @ ..=128 => u64::from(sectors),
        power => 1_u64.checked_shl(256 - u32::from(power))?, // two's complement
    }
    .checked_mul(u64::from(view.le16(11)))?;
    let record_bytes = match view.u8(64) {
        clusters @ ..128 => u64::from(clusters).checked_mul(cluster_bytes)?,
        power => 1_u64.checked_shl(256 - u32::from(power))?,
    };
    let len = usize::try_from(record_bytes).ok()?;
    let table = view.le64(48).checked_mul(cluster_bytes)?;
    let at = table.checked_add(VOLUME.checked_mul(record_bytes)?)?;
    if len > MAX_RECORD_BYTES {
        return None;
    }
    let mut record = view.with(at, len, <[u8]>::to_vec)?;
    fix_up(&mut record)?;
    volume_name(&record)
}

/// Restores the last two bytes of each sector, which the update sequence array stores.
fn fix_up(record: &mut [u8]) -> Option<()> {
    let (from, count) = (short(record, 4)?, short(record, 6)?);
    if !record.starts_with(b"FILE") {
        return None;
    }
    for sector in 1..count {
        let kept: [u8; 2] = *record.get(from + 2 * sector..)?.first_chunk()?;
        record
            .get_mut(512 * sector - 2..512 * sector)?
            .copy_from_slice(&kept);
    }
    Some(())
}

/// Returns the attribute `$VOLUME_NAME`, which is always resident in the record.
fn volume_name(record: &[u8]) -> Option<Vec<u8>> {
    const VOLUME_NAME: usize = 0x60;
    const END: usize = 0xffff_ffff;
    let mut at = short(record, 20)?;
    loop {
        let (kind, len) = (long(record, at)?, long(record, at + 4)?);
        if kind == VOLUME_NAME {
            let (value_len, value_at) = (long(record, at + 16)?, short(record, at + 20)?);
            let from = at.checked_add(value_at)?;
            let value = record.get(from..from.checked_add(value_len)?)?;
            let units = value
                .chunks_exact(2)
                .map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
            return Some(String::from_utf16_lossy(&units.collect::<Vec<_>>()).into_bytes());
        }
        if kind == END || len == 0 {
            return None;
        }
        at = at.checked_add(len)?;
    }
}

fn short(record: &[u8], at: usize) -> Option<usize> {
    let bytes = record.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_le_bytes(*bytes)))
}

fn long(record: &[u8], at: usize) -> Option<usize> {
    let bytes = record.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}
