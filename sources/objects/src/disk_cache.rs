//! The blocks of objects in a directory, which several processes use at once.
//!
//! Each block is a file of its own: `DIR/OBJECT/BLOCK`, the checksum first. A file gets its name when
//! it is complete, so processes need no locks. A block whose checksum is wrong is taken for missing.

mod cached;
mod directory;
mod trim;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use diskfs_oci::Digest;
use twox_hash::XxHash64;

use crate::blocks::BLOCK_BYTES;
pub(crate) use cached::CachedObject;
pub use directory::DiskCache;

/// The length of a checksum, XXH64 in little-endian order.
const CHECKSUM_LEN: usize = 8;

/// The age from which on reading a block makes it young again.
const OLD: Duration = Duration::from_mins(10);

/// The blocks of one version of an object.
#[derive(Debug)]
pub(crate) struct StoredBlocks {
    cache: DiskCache,
    directory: PathBuf,
}

impl StoredBlocks {
    /// Returns the blocks of an object: `identity` tells it and its version from all others.
    pub(crate) fn of(cache: &DiskCache, identity: &[&str]) -> Self {
        // No part contains a zero.
        let digest = Digest::of(identity.join("\0").as_bytes());
        Self {
            cache: cache.clone(),
            directory: cache.directory().join(digest.hex()),
        }
    }

    /// Returns a block that has `len` bytes, if it is stored.
    fn load(&self, block: u64, len: usize) -> Option<Vec<u8>> {
        let path = self.path(block);
        let mut file = File::open(&path).ok()?;
        let mut stored = Vec::with_capacity(CHECKSUM_LEN.saturating_add(len));
        file.read_to_end(&mut stored).ok()?;
        let (sum, bytes) = stored.split_at_checked(CHECKSUM_LEN)?;
        if bytes.len() != len || sum != checksum(block, bytes) {
            tracing::debug!(path = %path.display(), "a cached block is damaged");
            return None;
        }
        stored.drain(..CHECKSUM_LEN);
        touch(&file);
        Some(stored)
    }

    /// Stores a block, and sometimes removes old ones.
    fn store(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let mut file = tempfile::Builder::new().tempfile_in(&self.directory)?;
        file.write_all(&checksum(block, bytes))?;
        file.write_all(bytes)?;
        file.persist(self.path(block))?;
        trim::sometimes(&self.cache);
        Ok(())
    }

    fn path(&self, block: u64) -> PathBuf {
        self.directory.join(format!("{block:x}"))
    }
}

/// Returns the checksum of a block, which another block with the same bytes does not have.
fn checksum(block: u64, bytes: &[u8]) -> [u8; CHECKSUM_LEN] {
    XxHash64::oneshot(block, bytes).to_le_bytes()
}

/// Marks a block as used now. Of two uses soon after each other, one is enough.
fn touch(file: &File) {
    let modified = file.metadata().and_then(|found| found.modified());
    let is_old = modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > OLD));
    if is_old {
        // If it fails, the block is removed earlier.
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Returns the length of a block in an object.
fn len_in(size_bytes: u64, block: u64) -> usize {
    let rest = size_bytes.saturating_sub(block.saturating_mul(BLOCK_BYTES));
    usize::try_from(rest.min(BLOCK_BYTES)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
