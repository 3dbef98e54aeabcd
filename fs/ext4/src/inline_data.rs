//! Contents within the inode: the 60 bytes of `i_block`, then the attribute `system.data`.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Inline Data".

use crate::bytes::index;
use crate::error::Result;
use crate::inode::Inode;
use crate::xattr;

/// What follows behind `i_block`; empty without any.
pub(crate) fn behind_block(inode: &Inode) -> Result<&[u8]> {
    Ok(xattr::inline_data(inode)?.unwrap_or_default())
}

/// Fills `buf` with what is at `offset`; zeroes where nothing is stored.
pub(crate) fn read(inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<()> {
    let behind = behind_block(inode)?;
    let stored = inode.block.iter().chain(behind).skip(index(offset));
    buf.fill(0);
    for (to, from) in buf.iter_mut().zip(stored) {
        *to = *from;
    }
    Ok(())
}
