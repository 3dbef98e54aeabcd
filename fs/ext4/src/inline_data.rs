//! Inline data, stored in the inode: the 60 bytes of `i_block`, then the attribute `system.data`.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Inline Data".

use crate::bytes::index;
use crate::error::Result;
use crate::inode::Inode;
use crate::xattr;

/// Returns the part of the contents after `i_block`; it may be empty.
pub(crate) fn after_block(inode: &Inode) -> Result<&[u8]> {
    Ok(xattr::inline_data(inode)?.unwrap_or_default())
}

/// Fills `buf` with the bytes from `offset` on, and with zeroes where nothing is stored.
pub(crate) fn read(inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<()> {
    let behind = after_block(inode)?;
    let stored = inode.block.iter().chain(behind).skip(index(offset));
    buf.fill(0);
    for (to, from) in buf.iter_mut().zip(stored) {
        *to = *from;
    }
    Ok(())
}
