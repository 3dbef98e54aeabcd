//! Files with holes, as GNU tar stores them in pax archives (GNU tar manual, "Storing Sparse Files",
//! PAX format version 1.0): a list of runs, padded to a block, before the data.

use std::fmt::Write as _;
use std::ops::Range;

use diskfs::vfs::{FileExtentKind, Metadata};
use diskfs::{Node, Result};

use super::writer::BLOCK_BYTES;

/// More runs than that and the file is packed whole: the list is kept in memory (16 MiB then).
const MAX_RUNS: usize = 1 << 20;

/// Holes smaller than that in sum are not worth a list.
const WORTH_BYTES: u64 = 4096;

/// Where a file has data.
#[derive(Debug)]
pub(super) struct Sparse {
    size_bytes: u64,
    runs: Vec<Range<u64>>,
}

/// Where a file has data, if it has holes.
pub(super) fn map(node: &Node, metadata: &Metadata) -> Result<Option<Sparse>> {
    // Most files have none, and their allocated blocks say so.
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
    /// Whether the runs are in order and end within the file.
    fn is_sound(&self) -> bool {
        let mut end = 0;
        self.runs.iter().all(|run| {
            let sound = run.start >= end;
            end = run.end;
            sound && end <= self.size_bytes
        })
    }

    /// The runs with data.
    pub(super) fn runs(&self) -> &[Range<u64>] {
        &self.runs
    }

    /// How many bytes list and data take together.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.runs
            .iter()
            .fold(self.encoded().len() as u64, |sum, run| {
                sum.saturating_add(run.end - run.start)
            })
    }

    /// The list: decimal numbers, one to a line. A file that ends with a hole has an empty run at
    /// its end.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let end = self.runs.last().map_or(0, |run| run.end);
        let tail = (end < self.size_bytes).then_some(self.size_bytes..self.size_bytes);
        let runs = self.runs.iter().cloned().chain(tail);
        let mut text = format!("{}\n", runs.clone().count());
        for run in runs {
            let len = run.end - run.start;
            let _ = write!(text, "{}\n{len}\n", run.start); // Writing to a String does not fail.
        }
        let mut bytes = text.into_bytes();
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        bytes
    }
}
