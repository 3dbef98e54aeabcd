//! Segments of the list of a file's blocks, which are cached.

use diskfs_block::bytes::index;
use diskfs_block::{ByteCache, Weight};

use crate::data_block::StoredSize;
use crate::error::Result;
use crate::inode_reference::InodeReference;
use crate::metadata_block::{MetadataBlocks, MetadataPlace, Table};

/// The number of blocks in a segment: its sizes fill a metadata block.
pub(crate) const SEGMENT_BLOCKS: u64 = 2048;

/// The size of a full segment in memory.
const SEGMENT_BYTES: u64 = SEGMENT_BLOCKS * 4;

/// The budget of cached segments: 128 of them, or the lists of 32 GiB of files with blocks of 128
/// KiB. Small files have small segments.
const BUDGET_BYTES: u64 = 1 << 20;

/// The cache of segments, by inode and number of the segment.
pub(crate) type Segments = ByteCache<(InodeReference, u64), Segment>;

/// Returns an empty cache. Most segments are those of small files.
pub(crate) fn no_segments() -> Segments {
    Segments::new(BUDGET_BYTES, SEGMENT_BYTES)
}

/// A part of a list of blocks.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The place of the first block on the device.
    pub(crate) start: u64,
    pub(crate) sizes: Vec<StoredSize>,
    /// The next segment: its place in the list, and the place of its first block.
    pub(crate) next: MetadataPlace,
    pub(crate) next_start: u64,
}

impl Weight for Segment {
    fn weight_bytes(&self) -> usize {
        self.sizes.len().saturating_mul(4)
    }
}

impl Segment {
    /// Reads a segment of a list with `count` more blocks.
    pub(crate) fn read(
        blocks: &MetadataBlocks,
        table: Table,
        (place, start): (MetadataPlace, u64),
        count: u64,
    ) -> Result<Self> {
        let mut cursor = blocks.cursor_at(place, table);
        let bytes = cursor.read_vec(index(count.min(SEGMENT_BLOCKS).saturating_mul(4)))?;
        let (sizes, _) = bytes.as_chunks::<4>();
        let sizes: Vec<_> = sizes
            .iter()
            .map(|size| StoredSize(u32::from_le_bytes(*size)))
            .collect();
        Ok(Self {
            start,
            next_start: place_after(start, &sizes),
            sizes,
            next: cursor.position(),
        })
    }
}

/// Returns the place after blocks with these sizes.
pub(crate) fn place_after(start: u64, sizes: &[StoredSize]) -> u64 {
    let bytes = sizes.iter().map(|size| u64::from(size.bytes()));
    bytes.fold(start, u64::saturating_add)
}
