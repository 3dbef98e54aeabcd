//! The checksum of a file that is read as an image.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use diskfs::Result;
use diskfs::block::{self, BlockRead, Extent};

use crate::cli::ProgressMode;
use crate::cli::checksum::{Checksum, Hasher};
use crate::cli::progress::Progress;

/// The bytes that are kept until those before them were read: threads read a few pieces ahead.
const MAX_AHEAD_BYTES: usize = 64 << 20;

/// The number of bytes of a read.
const PIECE_BYTES: u64 = 1 << 20;

/// A file that is hashed while somebody else reads it, mostly in order.
///
/// What nobody has read in order until the end is read once more then: the checksum is always that
/// of the whole file.
#[derive(Debug)]
pub(super) struct Checking {
    file: Arc<dyn BlockRead>,
    expected: Checksum,
    hashed: Mutex<Hashed>,
}

/// The state of a checksum.
#[derive(Debug)]
struct Hashed {
    hasher: Hasher,
    /// The end of the bytes that were hashed.
    end: u64,
    /// Bytes after that, by their offsets.
    ahead: BTreeMap<u64, Vec<u8>>,
    ahead_bytes: usize,
}

impl Checking {
    /// Creates the state for a file.
    pub(super) fn new(file: Arc<dyn BlockRead>, expected: &Checksum) -> Self {
        Self {
            file,
            expected: expected.clone(),
            hashed: Mutex::new(Hashed {
                hasher: expected.hasher(),
                end: 0,
                ahead: BTreeMap::new(),
                ahead_bytes: 0,
            }),
        }
    }

    /// Reads the rest, and compares the checksum.
    ///
    /// # Errors
    /// `Corrupt` if it is not the expected one; those of the file.
    pub(super) fn finish(&self) -> Result<()> {
        let mut hashed = self.hashed.lock().unwrap_or_else(PoisonError::into_inner);
        let start = hashed.end;
        hash_rest(&*self.file, start, &mut |bytes| hashed.hasher.update(bytes))?;
        self.expected.check(hashed.hasher.clone())
    }
}

impl Hashed {
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len() as u64);
        if offset <= self.end && end > self.end {
            let known = usize::try_from(self.end - offset).unwrap_or(usize::MAX);
            self.hasher.update(&bytes[known..]);
            self.end = end;
            self.take_ahead();
        } else if offset > self.end && self.ahead_bytes + bytes.len() <= MAX_AHEAD_BYTES {
            self.ahead_bytes += bytes.len();
            let replaced = self.ahead.insert(offset, bytes.to_vec());
            self.ahead_bytes -= replaced.map_or(0, |bytes| bytes.len());
        }
    }

    /// Hashes what was read before its turn.
    fn take_ahead(&mut self) {
        while let Some(entry) = self.ahead.first_entry()
            && *entry.key() <= self.end
        {
            let (offset, bytes) = entry.remove_entry();
            self.ahead_bytes -= bytes.len();
            self.add(offset, &bytes);
        }
    }
}

impl BlockRead for Checking {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> block::Result<()> {
        self.file.read_at(offset, buf)?;
        let mut hashed = self.hashed.lock().unwrap_or_else(PoisonError::into_inner);
        hashed.add(offset, buf);
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> block::Result<Extent> {
        self.file.extent_at(offset)
    }

    fn block_size(&self) -> u32 {
        self.file.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.file.will_need(offset, len_bytes);
    }
}

/// Reads a whole file, and compares its checksum.
///
/// # Errors
/// `Corrupt` if it is not the expected one; those of the file.
pub(super) fn check(
    file: &Arc<dyn BlockRead>,
    expected: &Checksum,
    progress: ProgressMode,
) -> Result<()> {
    let mut progress = Progress::new(progress, Some(file.size_bytes()));
    progress.name_step("checksum");
    let mut hasher = expected.hasher();
    hash_rest(&**file, 0, &mut |bytes| {
        hasher.update(bytes);
        progress.advance(bytes.len() as u64);
    })?;
    progress.finish();
    expected.check(hasher)
}

fn hash_rest(file: &dyn BlockRead, start: u64, take: &mut dyn FnMut(&[u8])) -> Result<()> {
    let mut buf = Vec::new();
    let mut at = start;
    while at < file.size_bytes() {
        let len = PIECE_BYTES.min(file.size_bytes() - at);
        buf.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
        file.read_at(at, &mut buf)?;
        take(&buf);
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use diskfs::block::Memory;

    use super::*;

    fn expected(bytes: &[u8]) -> Checksum {
        let none = format!("sha256:{}", "0".repeat(64));
        let Ok(crate::cli::checksum::ExpectedChecksum::Known(any)) = none.parse() else {
            panic!("{none}");
        };
        let mut hasher = any.hasher();
        hasher.update(bytes);
        hasher.finish()
    }

    #[test]
    fn reads_in_any_order_make_the_same_checksum() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let file: Arc<dyn BlockRead> = Arc::new(Memory::new(bytes.clone()));
        let right = expected(&bytes);
        for reads in [
            &[][..],
            &[
                (0, 1_000_000),
                (1_000_000, 1_000_000),
                (2_000_000, 1_000_000),
            ],
            &[
                (2_000_000, 1_000_000),
                (1_000_000, 1_000_000),
                (0, 1_000_000),
            ],
            &[
                (500, 1000),
                (0, 600),
                (0, 600),
                (1000, 100),
                (1400, 2000),
                (7000, 10),
            ],
        ] {
            let checking = Checking::new(Arc::clone(&file), &right);
            for (offset, len) in reads {
                checking.read_at(*offset, &mut vec![0; *len]).unwrap();
            }
            checking.finish().unwrap();
            let checking = Checking::new(Arc::clone(&file), &expected(b"other"));
            for (offset, len) in reads {
                checking.read_at(*offset, &mut vec![0; *len]).unwrap();
            }
            checking.finish().unwrap_err();
        }
    }
}
