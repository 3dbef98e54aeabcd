//! Blobs whose digest is computed while they are read.

use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use diskfs_block::{BlockRead, Extent, Result, len_of};
use diskfs_oci::{Digest, Hasher};

/// The number of bytes to read at once for the rest of a digest.
const PIECE_BYTES: usize = 1 << 20;

/// A blob whose bytes are hashed as long as they are read in order.
#[derive(Debug)]
pub(crate) struct Hashed {
    blob: Arc<dyn BlockRead>,
    /// The hash of the bytes so far; `None` after the comparison.
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    hasher: Hasher,
    hashed_bytes: u64,
}

impl Hashed {
    /// Begins to compute the digest of a blob with the algorithm of `digest`.
    pub(crate) fn new(blob: Arc<dyn BlockRead>, digest: &Digest) -> Self {
        let state = State {
            hasher: digest.hasher(),
            hashed_bytes: 0,
        };
        Self {
            blob,
            state: Mutex::new(Some(state)),
        }
    }

    /// Compares the digest, if all of the blob was read, or if `is_whole`: then the rest is read
    /// first. From now on, nothing is hashed.
    pub(crate) fn verify(&self, digest: &Digest, is_whole: bool) -> Result<()> {
        let Some(mut state) = self.state().take() else {
            return Ok(());
        };
        let size_bytes = self.blob.size_bytes();
        let mut piece = vec![0; PIECE_BYTES];
        while is_whole && state.hashed_bytes < size_bytes {
            let left = size_bytes.saturating_sub(state.hashed_bytes);
            let len = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let piece = piece.get_mut(..len).unwrap_or_default();
            self.blob.read_at(state.hashed_bytes, piece)?;
            state.add(state.hashed_bytes, piece);
        }
        if state.hashed_bytes < size_bytes {
            return Ok(());
        }
        digest.verify_found(&state.hasher.finish(), "layer")
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds the bytes at `offset` that follow those so far, if there are any.
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let Some(known) = self.hashed_bytes.checked_sub(offset) else {
            return;
        };
        let new = usize::try_from(known)
            .ok()
            .and_then(|known| bytes.get(known..));
        if let Some(new) = new {
            self.hasher.update(new);
            self.hashed_bytes = self.hashed_bytes.saturating_add(len_of(new));
        }
    }
}

impl BlockRead for Hashed {
    fn size_bytes(&self) -> u64 {
        self.blob.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.blob.read_at(offset, buf)?;
        if let Some(state) = self.state().as_mut() {
            state.add(offset, buf);
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.blob.extent_at(offset)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        self.blob.stored_at(offset)
    }

    fn block_size(&self) -> u32 {
        self.blob.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.blob.will_need(offset, len_bytes);
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::{ErrorKind, Memory};

    use super::*;

    #[test]
    fn what_is_read_as_a_whole_is_verified() {
        let blob = |bytes: &[u8]| Hashed::new(Arc::new(Memory::new(bytes)), &Digest::of(b""));
        let (right, wrong) = (Digest::of(b"0123456789"), Digest::of(b"other"));
        let read = |parts: &[(u64, usize)]| {
            let hashed = blob(b"0123456789");
            for (offset, len) in parts {
                hashed.read_at(*offset, &mut vec![0; *len]).unwrap();
            }
            hashed
        };
        // The head is read twice, and a part out of order.
        for (parts, is_whole) in [
            (&[(0, 4), (0, 2), (8, 2), (2, 8)][..], false),
            (&[(0, 4)], true),
            (&[], true),
        ] {
            read(parts).verify(&right, is_whole).unwrap();
            let error = read(parts).verify(&wrong, is_whole).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        read(&[(0, 4), (5, 5)]).verify(&wrong, false).unwrap();
    }
}
