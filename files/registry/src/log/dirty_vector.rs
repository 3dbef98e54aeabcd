//! Logs up to Windows 8: a bitmap of dirty sectors, then the sectors. Specification, "Old format".

use diskfs_block::bytes::{array, index, le32};
use diskfs_block::{BlockRead, Result, read_within};

use super::sectors::Sectors;
use super::{Log, SECTOR_BYTES};
use crate::base_block::BASE_BLOCK_BYTES;

const SIGNATURE: &[u8; 4] = b"DIRT";

/// The size of the smallest bin in bytes.
const BIN_BYTES: u64 = 4096;

/// The dirty vector: one bit for each sector of the hive bins data.
struct DirtyVector {
    bitmap: Vec<u8>,
    /// The offset of the first dirty page in the log.
    pages: u64,
}

impl DirtyVector {
    /// Reads the dirty vector of a log; `None` if there is none, or if the log does not have all of
    /// its pages.
    fn read(log: &Log) -> Result<Option<Self>> {
        let bins_bytes = u64::from(log.base_block.hive_bins_data_size);
        let sector_bytes = log.base_block.sector_bytes();
        let bits = bins_bytes.checked_div(SECTOR_BYTES).unwrap_or(0);
        let len = bits.div_ceil(8).saturating_add(4);
        let Some(vector) = read_within(&*log.device, sector_bytes, index(len))? else {
            return Ok(None);
        };
        let Some(bitmap) = vector.strip_prefix(SIGNATURE) else {
            return Ok(None);
        };
        let pages = sector_bytes
            .saturating_add(len)
            .next_multiple_of(sector_bytes);
        let dirty = bitmap.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let all = SECTOR_BYTES.saturating_mul(dirty);
        let is_whole = pages.saturating_add(all) <= log.device.size_bytes();
        Ok((dirty > 0 && is_whole).then(|| Self {
            bitmap: bitmap.to_vec(),
            pages,
        }))
    }

    /// Returns the dirty sectors and their offsets in the log.
    fn pages(&self) -> impl Iterator<Item = (u64, u64)> {
        let bits = self
            .bitmap
            .iter()
            .flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
        let dirty = (0_u64..).zip(bits).filter(|(_, bit)| *bit == 1);
        dirty.zip(0_u64..).map(|((sector, _), number)| {
            let into = number.saturating_mul(SECTOR_BYTES);
            (sector, self.pages.saturating_add(into))
        })
    }
}

/// Applies the pages of a log, up to the first bin with an invalid header. Returns true if any was
/// applied.
///
/// # Errors
/// The errors of reading the log.
pub(super) fn apply(primary: &dyn BlockRead, log: &Log, sectors: &mut Sectors) -> Result<bool> {
    let Some(vector) = DirtyVector::read(log)? else {
        return Ok(false);
    };
    let mut is_applied = false;
    for (sector, offset) in vector.pages() {
        let to = sector.saturating_mul(SECTOR_BYTES);
        if begins_bin(primary, to)? && !has_bin(&*log.device, offset, to)? {
            break;
        }
        sectors.put(to, SECTOR_BYTES, log.number, offset);
        is_applied = true;
    }
    Ok(is_applied)
}

/// Returns true if a bin of the hive starts at this place.
fn begins_bin(primary: &dyn BlockRead, at: u64) -> Result<bool> {
    if !at.is_multiple_of(BIN_BYTES) {
        return Ok(false);
    }
    has_bin(primary, BASE_BLOCK_BYTES.saturating_add(at), at)
}

/// Returns true if `offset` of the device has the header of the bin for this place. Specification,
/// "Hive bin".
fn has_bin(device: &dyn BlockRead, offset: u64, place: u64) -> Result<bool> {
    let header = read_within(device, offset, 32)?.unwrap_or_default();
    let is_of_place = le32(&header, 4).is_some_and(|at| u64::from(at) == place);
    let is_large_enough = le32(&header, 8).is_some_and(|size| u64::from(size) >= BIN_BYTES);
    Ok(array(&header, 0) == Some(*b"hbin") && is_of_place && is_large_enough)
}
