//! The list of a file's blocks: the stored size of each, after the inode.
//!
//! The place of a block is the sum of the sizes before it. So the list is read in segments, which
//! are cached with the place of their first block.

use std::sync::Arc;

use diskfs_block::bytes::index;

use crate::data_block::{DataBlock, StoredSize};
use crate::error::{Error, ErrorKind, Result};
use crate::inode_body::File;
use crate::inode_reference::InodeReference;
use crate::metadata_block::MetadataPlace;
use crate::segment::{SEGMENT_BLOCKS, Segment, place_after};
use crate::volume::Volume;

/// The maximum number of blocks of a file: 16 TiB with blocks of 128 KiB. Finding the last block of
/// such a file reads 65536 metadata blocks, half a second.
const BLOCKS_MAX: u64 = 1 << 27;

/// Returns the number of blocks of a file, without its fragment.
///
/// # Errors
/// `Unsupported` for more than 2^27 blocks.
pub(crate) fn count(volume: &Volume, file: &File) -> Result<u64> {
    let block = u64::from(volume.superblock.block_bytes);
    let whole = file.size_bytes.checked_div(block).unwrap_or(0);
    let has_rest = file.size_bytes.checked_rem(block).unwrap_or(0) != 0;
    let is_own_block = has_rest && file.fragment.is_none();
    if whole >= BLOCKS_MAX {
        let reason = "files of more than 134217728 blocks are not supported";
        return Err(Error::new(ErrorKind::Unsupported, reason));
    }
    Ok(whole.saturating_add(is_own_block.into()))
}

/// The blocks of a file from one on. The iterator ends after the first error.
#[derive(Debug)]
pub(crate) struct FileBlocks<'a> {
    volume: &'a Volume,
    reference: InodeReference,
    list: (MetadataPlace, u64),
    next: u64,
    count: u64,
    segment: Option<Arc<Segment>>,
    /// The place of the next block, if a segment is loaded.
    start: u64,
}

impl<'a> FileBlocks<'a> {
    /// Returns the blocks of a file from the block `first` on.
    pub(crate) fn new(
        volume: &'a Volume,
        reference: InodeReference,
        file: &File,
        first: u64,
    ) -> Result<Self> {
        Ok(Self {
            volume,
            reference,
            list: (file.list, file.start),
            next: first,
            count: count(volume, file)?,
            segment: None,
            start: 0,
        })
    }

    /// Returns a segment; those before it are read to find it, unless they are cached.
    fn segment(&self, number: u64) -> Result<Arc<Segment>> {
        let cache = &self.volume.segments;
        let (mut at, (mut place, mut start)) = (0, self.list);
        for before in (0..=number).rev() {
            if let Some(kept) = cache.get(&(self.reference, before)) {
                if before == number {
                    return Ok(kept);
                }
                at = before.saturating_add(1);
                (place, start) = (kept.next, kept.next_start);
                break;
            }
        }
        loop {
            let left = self.count.saturating_sub(at.saturating_mul(SEGMENT_BLOCKS));
            let table = self.volume.inode_table();
            let segment = Segment::read(&self.volume.blocks, table, (place, start), left)?;
            let segment = Arc::new(segment);
            cache.insert((self.reference, at), Arc::clone(&segment));
            if at >= number {
                return Ok(segment);
            }
            (place, start) = (segment.next, segment.next_start);
            at = at.saturating_add(1);
        }
    }

    fn block(&mut self) -> Result<DataBlock> {
        let nth = index(self.next % SEGMENT_BLOCKS);
        let segment = match &self.segment {
            Some(segment) if nth != 0 => Arc::clone(segment),
            _ => {
                let segment = self.segment(self.next.wrapping_div(SEGMENT_BLOCKS))?;
                let before = segment.sizes.get(..nth).unwrap_or_default();
                self.start = place_after(segment.start, before);
                self.segment.insert(segment).clone()
            }
        };
        let size = segment.sizes.get(nth).copied().unwrap_or(StoredSize(0));
        let start = self.start;
        self.start = start.saturating_add(size.bytes().into());
        self.next = self.next.saturating_add(1);
        Ok(DataBlock { start, size })
    }
}

impl Iterator for FileBlocks<'_> {
    type Item = Result<DataBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.count {
            return None;
        }
        let block = self.block();
        if block.is_err() {
            self.count = 0;
        }
        Some(block)
    }
}
