//! The header of the map of a compressed inode, with the special storage of the file's end.

use crate::cluster_index;
use crate::error::Result;
use crate::inode::Inode;
use crate::layout::Layout;
use crate::map_header::{MapHeader, Tail};
use crate::volume::Volume;

/// Reads the header of an inode that is not empty.
pub(crate) fn read_header(volume: &Volume, inode: &Inode) -> Result<MapHeader> {
    let place = inode.body().aligned(8);
    let is_compact = inode.layout == Layout::CompressedCompact;
    let bytes = volume.metadata(place)?;
    let bits = volume.superblock.block_bits;
    let mut header = MapHeader::parse(bytes, is_compact, bits, place)?;
    if header.is_indexed() {
        header.tail = indexed_tail(volume, inode, &header)?;
    }
    Ok(header)
}

/// Returns the tail of an inode with indexes.
fn indexed_tail(volume: &Volume, inode: &Inode, header: &MapHeader) -> Result<Tail> {
    let len = header.inline_bytes();
    if !header.has_fragment() && len == 0 {
        return Ok(Tail::Ordinary);
    }
    let last = inode.size_bytes.saturating_sub(1);
    let found = cluster_index::find_head(volume, inode, header, last)?;
    if header.has_fragment() {
        // Full indexes have the high half of the offset in the place of the block.
        let (low, has_high) = header.fragment_offset();
        let high = if has_high { found.cluster.block } else { 0 };
        return Ok(Tail::Fragment {
            head: found.number,
            offset: u64::from(low) | high.wrapping_shl(32),
        });
    }
    Ok(Tail::Inline {
        head: found.number,
        place: found.after_index,
        len,
    })
}
