//! Removal of the blocks that were not used for the longest time.
//!
//! No process knows what the others have stored, so each stored block leads to a look at the whole
//! directory with a small probability: once for each sixteenth of the limit on average, however many
//! processes store blocks.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use super::directory::DiskCache;
use crate::blocks::BLOCK_BYTES;

/// The part of the limit that is stored between two looks, on average.
const BETWEEN_LOOKS: u64 = 16;

/// The part of the limit that is free after old blocks were removed.
const FREED: u64 = 8;

/// A file of the cache.
struct Stored {
    used: SystemTime,
    size_bytes: u64,
    path: PathBuf,
}

/// Removes old blocks, if it is time for that.
pub(super) fn sometimes(cache: &DiskCache) {
    let blocks = cache
        .limit_bytes()
        .checked_div(BLOCK_BYTES.saturating_mul(BETWEEN_LOOKS))
        .unwrap_or(0);
    if fastrand::u64(0..=blocks) == 0
        && let Err(error) = trim(cache)
    {
        tracing::debug!("cannot remove old blocks: {error}");
    }
}

/// Removes the blocks that were not used for the longest time, if there are more than the limit.
pub(super) fn trim(cache: &DiskCache) -> io::Result<()> {
    let mut stored = all(cache)?;
    let mut total = stored
        .iter()
        .fold(0_u64, |sum, file| sum.saturating_add(file.size_bytes));
    let limit = cache.limit_bytes();
    if total <= limit {
        return Ok(());
    }
    let target = limit.saturating_sub(limit.checked_div(FREED).unwrap_or(0));
    stored.sort_unstable_by_key(|file| file.used);
    for file in stored {
        if total <= target {
            break;
        }
        // Another process may have removed it.
        let _ = fs::remove_file(&file.path);
        if let Some(object) = file.path.parent() {
            // It fails while the object has blocks.
            let _ = fs::remove_dir(object);
        }
        total = total.saturating_sub(file.size_bytes);
    }
    Ok(())
}

fn all(cache: &DiskCache) -> io::Result<Vec<Stored>> {
    let mut stored = Vec::new();
    for object in fs::read_dir(cache.directory())? {
        // Other processes remove objects and blocks meanwhile.
        let Ok(blocks) = fs::read_dir(object?.path()) else {
            continue;
        };
        for block in blocks.flatten() {
            let Ok(found) = block.metadata() else {
                continue;
            };
            stored.push(Stored {
                used: found.modified()?,
                size_bytes: found.len(),
                path: block.path(),
            });
        }
    }
    Ok(stored)
}
