//! The runs of a range of the guest's disk, merged where they are stored contiguously.

use diskfs_block::{Error, ImageMap, Result, RunStorage};

/// The largest number of runs of the format to merge into one: 512 MiB of a disk in blocks of 1
/// MiB. It bounds the cost of a call in an image that maps a huge disk to nothing, block by block.
const MERGE_MAX: u32 = 512;

/// A run of the guest's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The offset in the guest's disk in bytes.
    pub(super) at: u64,
    pub(super) len_bytes: u64,
    pub(super) storage: RunStorage,
}

/// The runs of a range, in order.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    map: &'a dyn ImageMap,
    at: u64,
    left: u64,
    /// A run that was looked up and does not continue the one before.
    pending: Option<Run>,
}

impl<'a> Runs<'a> {
    pub(super) const fn new(map: &'a dyn ImageMap, at: u64, len_bytes: u64) -> Self {
        Self {
            map,
            at,
            left: len_bytes,
            pending: None,
        }
    }

    /// Returns the next run; `None` at the end of the range.
    pub(super) fn next_run(&mut self) -> Result<Option<Run>> {
        let Some(mut run) = self.next_unmerged()? else {
            return Ok(None);
        };
        for _ in 0..MERGE_MAX {
            let Some(next) = self.next_unmerged()? else {
                break;
            };
            if run.storage.skip(run.len_bytes) != next.storage {
                self.pending = Some(next);
                break;
            }
            run.len_bytes = run.len_bytes.saturating_add(next.len_bytes);
        }
        Ok(Some(run))
    }

    /// Returns `first` and all runs after it.
    pub(super) fn collect_after(mut self, first: Run) -> Result<Vec<Run>> {
        let mut runs = vec![first];
        while let Some(run) = self.next_run()? {
            runs.push(run);
        }
        Ok(runs)
    }

    fn next_unmerged(&mut self) -> Result<Option<Run>> {
        if let Some(run) = self.pending.take() {
            return Ok(Some(run));
        }
        if self.left == 0 {
            return Ok(None);
        }
        let at = self.at;
        let found = self.map.run_at(at, self.left)?;
        let len_bytes = found.len_bytes.min(self.left);
        if len_bytes == 0 {
            // A defect of a format's map must not become an endless loop.
            return Err(Error::corrupt("image maps an empty run").at(at));
        }
        self.at = at.saturating_add(len_bytes);
        self.left = self.left.saturating_sub(len_bytes);
        Ok(Some(Run {
            at,
            len_bytes,
            storage: found.storage,
        }))
    }
}
