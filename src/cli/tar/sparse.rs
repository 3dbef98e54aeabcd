//! Files with holes, as GNU tar stores them in pax archives (GNU tar manual, "Storing Sparse Files",
//! PAX format version 1.0): a list of runs, padded to a block, before the data.

use std::fmt::Write as _;

use diskfs::vfs::{self, FileExtentKind, FsRead, Metadata};

use super::writer::BLOCK_BYTES;

/// More runs than that and the file is packed whole: the list is kept in memory (16 MiB then).
const MAX_RUNS: usize = 1 << 20;

/// Holes smaller than that in sum are not worth a list.
const WORTH_BYTES: u64 = 4096;

/// Where a file has data.
#[derive(Debug)]
pub(super) struct Sparse {
    size_bytes: u64,
    /// Offset and length.
    runs: Vec<(u64, u64)>,
}

/// Where a file has data, if it has holes.
pub(super) fn map(fs: &dyn FsRead, metadata: &Metadata) -> vfs::Result<Option<Sparse>> {
    // Most files have none, and their allocated blocks say so.
    if metadata.allocated_bytes >= metadata.size_bytes || metadata.size_bytes < WORTH_BYTES {
        return Ok(None);
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut data_bytes = 0_u64;
    for extent in fs.extents_of(metadata.inode, 0)? {
        let extent = extent?;
        if extent.kind == FileExtentKind::Hole {
            continue;
        }
        data_bytes = data_bytes.saturating_add(extent.len_bytes);
        let full = runs.len() >= MAX_RUNS;
        match runs.last_mut() {
            Some((offset, len)) if offset.saturating_add(*len) == extent.offset => {
                *len = len.saturating_add(extent.len_bytes);
            }
            _ if full => return Ok(None),
            _ => runs.push((extent.offset, extent.len_bytes)),
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
        self.runs.iter().all(|(offset, len)| {
            let sound = *offset >= end;
            end = offset.saturating_add(*len);
            sound && end <= self.size_bytes
        })
    }

    /// The runs with data.
    pub(super) fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// How many bytes list and data take together.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.runs
            .iter()
            .fold(self.encoded().len() as u64, |sum, (_, len)| {
                sum.saturating_add(*len)
            })
    }

    /// The list: decimal numbers, one to a line. A file that ends with a hole has an empty run at
    /// its end.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let end = self.runs.last().map_or(0, |(offset, len)| offset + len);
        let tail = (end < self.size_bytes).then_some((self.size_bytes, 0));
        let runs = self.runs.iter().copied().chain(tail);
        let mut text = format!("{}\n", runs.clone().count());
        for (offset, len) in runs {
            let _ = write!(text, "{offset}\n{len}\n"); // Writing to a String does not fail.
        }
        let mut bytes = text.into_bytes();
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        bytes
    }
}
