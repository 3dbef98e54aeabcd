//! Directories of a filesystem whose size changes: reading them, and recording what changes.

use diskfs_block::BlockRead;
use diskfs_block::bytes::{index, len_u64};
use diskfs_vfs::{Error, ErrorKind, Result};

use super::record::{Copies, Record};
use super::renumbering::Renumbering;
use crate::chain::{Chain, Run};
use crate::device_failed;
use crate::place::ENTRY_LEN;

/// The number of bytes to read at once.
const PIECE_BYTES: u64 = 64 * 1024;

/// Reads the entries of a directory, up to the piece that contains its end.
///
/// # Errors
/// `Corrupt` for a directory without an end in `max_bytes`; errors of the device.
pub fn read_directory(
    device: &dyn BlockRead,
    runs: &[(u64, u64)],
    max_bytes: u64,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (offset, len_bytes) in runs {
        let mut done: u64 = 0;
        while done < *len_bytes {
            let step = len_bytes.saturating_sub(done).min(PIECE_BYTES);
            let start = bytes.len();
            if len_u64(start).saturating_add(step) > max_bytes {
                let reason = format!("invalid directory: it has more than {max_bytes} bytes");
                return Err(Error::new(ErrorKind::Corrupt, reason).at(*offset));
            }
            bytes.resize(start.saturating_add(index(step)), 0);
            let piece = bytes.get_mut(start..).unwrap_or_default();
            let at = offset.saturating_add(done);
            device.read_at(at, piece).map_err(device_failed)?;
            if piece
                .chunks(ENTRY_LEN)
                .any(|entry| entry.first() == Some(&0))
            {
                return Ok(bytes);
            }
            done = done.saturating_add(step);
        }
    }
    Ok(bytes)
}

/// Returns a chain with the new cluster numbers.
///
/// # Errors
/// `Corrupt` if a cluster of it is free.
pub fn move_chain(chain: &Chain, renumbering: &Renumbering) -> Result<Chain> {
    let mut moved = Chain::default();
    for cluster in chain.runs().iter().flat_map(Run::clusters) {
        let Some(new) = renumbering.new_number(cluster) else {
            let reason = format!("cluster {cluster} is in use, but marked as free");
            return Err(Error::new(ErrorKind::Corrupt, reason));
        };
        moved.push(new, 1);
    }
    Ok(moved)
}

/// Records the changed sectors of a directory. `runs` are the places of its new clusters, which
/// have the old bytes already.
///
/// # Errors
/// Those of [`Record::write`].
pub fn record_directory(
    record: &mut Record<'_>,
    runs: &[(u64, u64)],
    old: &[u8],
    new: &[u8],
) -> Result<()> {
    let mut start: usize = 0;
    for (offset, len_bytes) in runs {
        let end = start.saturating_add(index(*len_bytes)).min(new.len());
        let (old, new) = (old.get(start..end), new.get(start..end));
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        record.write_sectors(*offset, new, Copies::ONE, |sector| {
            old.get(sector.clone()) != new.get(sector)
        })?;
        start = end;
    }
    Ok(())
}
