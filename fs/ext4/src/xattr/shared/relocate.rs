//! Moving blocks of attributes out of the part of the filesystem that will be cut off.

use super::super::attribute::Attribute;
use super::super::block;
use super::{AttributeChange, REFERENCES_MAX};
use crate::block::FsBlock;
use crate::error::Result;
use crate::handle::Handle;
use crate::hashing::HashMap;
use crate::inode::Inode;
use crate::metadata_cache::Key;

/// The new places of blocks of attributes. Inodes that shared a block share the new one.
pub(crate) type RelocatedBlocks = HashMap<FsBlock, FsBlock>;

/// Moves an inode's block of attributes if it is not allocatable. The caller stores the inode.
///
/// # Errors
/// `NoSpace`, with nothing changed; `Corrupt`, `Io`.
pub(crate) fn relocate_block(
    handle: &Handle<'_>,
    inode: &mut Inode,
    relocated: &mut RelocatedBlocks,
) -> Result<()> {
    let old = FsBlock(inode.xattr_block);
    if old < handle.allocator.allocatable_end() {
        return Ok(());
    }
    let mut change = AttributeChange::new(handle, inode);
    let before = change.block_attributes()?;
    let new = if let Some(new) = change.relocated(old, relocated)? {
        change.change_references(new, 1)?;
        new
    } else {
        let new = change.copy_block(&before)?;
        relocated.insert(old, new);
        new
    };
    change.drop_block(&before)?;
    change.set_block(new);
    change.finish()
}

impl AttributeChange<'_, '_, '_> {
    /// Returns the new place of a block that another inode had before, if it has room for one more
    /// reference.
    fn relocated(&self, old: FsBlock, relocated: &RelocatedBlocks) -> Result<Option<FsBlock>> {
        let Some(&new) = relocated.get(&old) else {
            return Ok(None);
        };
        let bytes = block::read_at(self.handle.volume(), new)?;
        let references = block::references(&bytes);
        Ok((1..REFERENCES_MAX).contains(&references).then_some(new))
    }

    /// Copies the inode's block. The copy has one reference, and has its own references to values
    /// in inodes.
    fn copy_block(&self, attributes: &[Attribute]) -> Result<FsBlock> {
        let superblock = self.superblock();
        let mut bytes = block::read(self.handle.volume(), self.inode)?.to_vec();
        let new = self.allocate_block()?;
        block::set_references(&mut bytes, 1);
        block::seal(superblock, new, &mut bytes);
        self.handle.replace(Key::xattr_block(new), bytes);
        for value in attributes.iter().filter_map(Attribute::value_inode) {
            self.refer(value.inode)?;
        }
        Ok(new)
    }
}
