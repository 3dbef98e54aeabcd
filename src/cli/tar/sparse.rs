//! Files with holes in pax archives of GNU tar (GNU tar manual, "Storing Sparse Files", PAX format
//! version 1.0): a list of runs, padded to a block, precedes the data.

use std::fmt::Write as _;
use std::ops::Range;

use diskfs::vfs::{FileExtentKind, Metadata};
use diskfs::{Node, Result};

use super::writer::BLOCK_BYTES;

/// The maximum number of runs. A file with more is packed without holes, since the list is kept in
/// memory (16 MiB at the maximum).
const MAX_RUNS: usize = 1 << 20;

/// The minimum total size of holes for which a list is worthwhile.
const WORTH_BYTES: u64 = 4096;

/// The data ranges of a file with holes.
#[derive(Debug)]
pub(super) struct Sparse {
    size_bytes: u64,
    runs: Vec<Range<u64>>,
}

/// Returns the data ranges of a file, or `None` if it has no holes.
pub(super) fn map(node: &Node, metadata: &Metadata) -> Result<Option<Sparse>> {
    // Most files have no holes, as their number of allocated blocks shows.
    if metadata.allocated_bytes >= metadata.size_bytes || metadata.size_bytes < WORTH_BYTES {
        return Ok(None);
    }
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut data_bytes = 0_u64;
    for extent in node.extents(0)? {
        let extent = extent?;
        if extent.kind == FileExtentKind::Hole {
            continue;
        }
        data_bytes = data_bytes.saturating_add(extent.len_bytes);
        let full = runs.len() >= MAX_RUNS;
        let end = extent.offset.saturating_add(extent.len_bytes);
        match runs.last_mut() {
            Some(run) if run.end == extent.offset => run.end = end,
            _ if full => return Ok(None),
            _ => runs.push(extent.offset..end),
        }
    }
    let sparse = Sparse {
        size_bytes: metadata.size_bytes,
        runs,
    };
    let worth = metadata.size_bytes.saturating_sub(data_bytes) >= WORTH_BYTES;
    Ok((worth && sparse.is_sound()).then_some(sparse))
}

impl Sparse {
    /// Returns true if the runs are in order and end within the file.
    fn is_sound(&self) -> bool {
        let mut end = 0;
        self.runs.iter().all(|run| {
            let sound = run.start >= end;
            end = run.end;
            sound && end <= self.size_bytes
        })
    }

    /// Returns the runs with data.
    pub(super) fn runs(&self) -> &[Range<u64>] {
        &self.runs
    }

    /// Returns the number of bytes of the list and the data together.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.runs
            .iter()
            .fold(self.encoded().len() as u64, |sum, run| {
                sum.saturating_add(run.end - run.start)
            })
    }

    /// Encodes the list: decimal numbers, one per line. If a file ends with a hole, the last run is
    /// empty and at its end.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let end = self.runs.last().map_or(0, |run| run.end);
        let tail = (end < self.size_bytes).then_some(self.size_bytes..self.size_bytes);
        let runs = self.runs.iter().cloned().chain(tail);
        let mut text = format!("{}\n", runs.clone().count());
        for run in runs {
            let len = run.end - run.start;
            let _ = write!(text, "{}\n{len}\n", run.start); // Writing to a String cannot fail.
        }
        let mut bytes = text.into_bytes();
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        bytes
    }
}
