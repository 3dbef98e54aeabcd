//! The limits of a replay.

use std::cell::Cell;

use crate::bytes::len_u64;
use crate::error::{Error, Result, unsupported};

/// The largest number of steps: each item that is read or written is one, and each KiB of it
/// another. A log of a hundred thousand new files takes about so many, and some seconds; the work of
/// a larger one is left to a kernel, so that a hostile image can't take longer.
const STEPS_MAX: u64 = 4 << 20;

/// The largest number of bytes that the changed items may have, keys and bookkeeping included: they
/// stay in memory. It is enough for the checksums of 40 GiB of data.
const BYTES_MAX: u64 = 64 << 20;

/// The memory for a changed item besides its data.
const ITEM_OVERHEAD_BYTES: u64 = 96;

/// The rest of the time and the memory that a replay may spend.
#[derive(Debug)]
pub(super) struct Budget {
    steps: Cell<u64>,
    bytes: Cell<u64>,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            steps: Cell::new(STEPS_MAX),
            bytes: Cell::new(BYTES_MAX),
        }
    }

    /// Spends the time for an item of this length.
    pub(super) fn spend_step(&self, len_bytes: usize) -> Result<()> {
        let steps = (len_u64(len_bytes) >> 10).saturating_add(1);
        spend(&self.steps, steps)
    }

    /// Spends the memory for a changed item of this length.
    pub(super) fn spend_memory(&self, len_bytes: usize) -> Result<()> {
        spend(&self.bytes, memory(len_bytes))
    }

    /// Gives back the memory of a changed item that another has replaced.
    pub(super) fn release_memory(&self, len_bytes: Option<usize>) {
        let released = len_bytes.map_or(0, memory);
        self.bytes.set(self.bytes.get().saturating_add(released));
    }
}

fn memory(len_bytes: usize) -> u64 {
    len_u64(len_bytes).saturating_add(ITEM_OVERHEAD_BYTES)
}

fn spend(rest: &Cell<u64>, amount: u64) -> Result<()> {
    rest.set(rest.get().checked_sub(amount).ok_or_else(too_large)?);
    Ok(())
}

fn too_large() -> Error {
    unsupported("log tree of btrfs that is too large to be replayed in memory")
        .with_hint("mount the filesystem once for writing, so that its log is replayed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_replay_ends_at_its_limits() {
        let budget = Budget::new();
        let half = crate::bytes::index(BYTES_MAX / 2);
        budget.spend_memory(half).unwrap();
        let error = budget.spend_memory(half).unwrap_err();
        budget.release_memory(Some(half));
        budget.spend_memory(half).unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        budget.spend_step(2 << 30).unwrap();
        assert!(budget.spend_step(2 << 30).is_err());
    }
}
