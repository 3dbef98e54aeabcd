//! Changes of the numbers of inodes that hold attribute values.

use crate::block::FsBlock;
use crate::bytes::{le32, put};
use crate::error::Result;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::metadata_cache::Key;
use crate::volume::Volume;

use super::block;
use super::entry::{HEADER_BYTES, RawEntry};

/// The place of attributes: within an inode, or in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttributePlace {
    Inode(u32),
    Block(FsBlock),
}

const VALUE_INODE: usize = std::mem::offset_of!(RawEntry, e_value_inum);

/// Calls `found` for each attribute whose value is in an inode, with that inode's number. Blocks for
/// which `visit` returns false are left out.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn for_each_value_inode(
    volume: &Volume,
    inode: &Inode,
    visit: impl FnOnce(FsBlock) -> bool,
    mut found: impl FnMut(AttributePlace, u32),
) -> Result<()> {
    for (_, value) in value_inodes(&inode.xattr_bytes, 0) {
        found(AttributePlace::Inode(inode.number), value);
    }
    let block = FsBlock(inode.xattr_block);
    if block.0 == 0 || !visit(block) {
        return Ok(());
    }
    let bytes = block::read(volume, inode)?;
    for (_, value) in value_inodes(&bytes, block::HEADER_BYTES) {
        found(AttributePlace::Block(block), value);
    }
    Ok(())
}

/// Makes the attributes in a place that have their value in inode `old` refer to `new`.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn renumber_values(
    handle: &Handle<'_>,
    place: AttributePlace,
    numbers: (u32, u32),
) -> Result<()> {
    match place {
        AttributePlace::Inode(number) => {
            let mut inode = handle.inode(number)?;
            renumber(&mut inode.xattr_bytes, 0, numbers);
            handle.store(&inode)
        }
        AttributePlace::Block(block) => {
            let superblock = &handle.volume().superblock;
            handle.change(Key::xattr_block(block), |bytes| {
                renumber(bytes, block::HEADER_BYTES, numbers);
                block::seal(superblock, block, bytes);
            })
        }
    }
}

fn renumber(bytes: &mut [u8], first: usize, (old, new): (u32, u32)) {
    for (offset, value) in value_inodes(bytes, first) {
        if value == old {
            put(bytes, offset, &new.to_le_bytes());
        }
    }
}

/// Returns the offsets of the numbers of inodes with values, and the numbers.
fn value_inodes(bytes: &[u8], first: usize) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    let mut at = first;
    // Four bytes of zeroes end the list.
    while le32(bytes, at).unwrap_or(0) != 0 {
        let name_len = bytes.get(at).copied().map_or(0, usize::from);
        let offset = at.saturating_add(VALUE_INODE);
        let value = le32(bytes, offset).unwrap_or(0);
        if value != 0 {
            found.push((offset, value));
        }
        let len = HEADER_BYTES.saturating_add(name_len).next_multiple_of(4);
        at = at.saturating_add(len);
    }
    found
}
