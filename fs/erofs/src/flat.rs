//! Flat contents: blocks in a row, of which the last may follow the inode.

use crate::error::{Result, corrupt};
use crate::inode::Inode;
use crate::layout::Layout;
use crate::mapped::{Mapped, Source};
use crate::volume::Volume;

/// Returns the range that contains the byte `offset`.
pub(crate) fn map(volume: &Volume, inode: &Inode, offset: u64) -> Result<Mapped> {
    let size = inode.size_bytes;
    let Some(block) = inode.start_block() else {
        return Ok(Mapped {
            start: 0,
            len: size,
            source: Source::Hole,
        });
    };
    let block_bytes = volume.superblock.block_bytes();
    let has_tail = inode.layout == Layout::FlatInline;
    let blocks = size.div_ceil(block_bytes);
    let tail = blocks
        .saturating_sub(has_tail.into())
        .saturating_mul(block_bytes);
    if offset < tail {
        return Ok(Mapped {
            start: 0,
            len: tail.min(size),
            source: Source::Stored {
                device: 0,
                at: volume.superblock.byte_of(block),
            },
        });
    }
    let len = size.saturating_sub(tail);
    let place = inode.body();
    if volume.offset_in_block(place.at).saturating_add(len) > block_bytes {
        let reason = "invalid inode: inline contents that cross a block boundary";
        return Err(corrupt(reason, place.at));
    }
    Ok(Mapped {
        start: tail,
        len,
        source: Source::Inline(place),
    })
}
