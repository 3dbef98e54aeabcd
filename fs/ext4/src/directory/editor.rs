//! A directory that is being changed: one block at a time, with the checksum updated after each
//! change.

use std::sync::Arc;

use diskfs_vfs::InodeNumber;

use crate::block::FileBlock;
use crate::error::{Error, ErrorKind, Result};
use crate::features::Incompatible;
use crate::file_blocks;
use crate::handle::Handle;
use crate::htree;
use crate::inode::Inode;
use crate::metadata_cache::Key;
use crate::volume::Volume;

use super::{block, tail};

/// A directory, and the operation that changes it.
#[derive(Debug)]
pub(super) struct DirectoryEditor<'a, 'c> {
    handle: &'a Handle<'c>,
    pub(super) inode: &'a mut Inode,
}

/// A block that was read.
#[derive(Debug)]
pub(super) struct Block {
    key: Key,
    pub(super) number: FileBlock,
    pub(super) bytes: Arc<[u8]>,
}

impl From<Block> for Key {
    fn from(block: Block) -> Self {
        block.key
    }
}

impl From<&Block> for Key {
    fn from(block: &Block) -> Self {
        block.key
    }
}

impl<'a, 'c> DirectoryEditor<'a, 'c> {
    pub(super) const fn new(handle: &'a Handle<'c>, inode: &'a mut Inode) -> Self {
        Self { handle, inode }
    }

    pub(super) fn volume(&self) -> &'c Volume {
        self.handle.volume()
    }

    /// Reads a block of the directory.
    pub(super) fn block(&self, number: FileBlock) -> Result<Block> {
        let (key, bytes) = block::read_keyed(self.volume(), self.inode, number)?;
        Ok(Block { key, number, bytes })
    }

    /// Returns the part of an ordinary block that contains entries.
    pub(super) fn entries<'b>(&self, block: &'b Block) -> &'b [u8] {
        tail::entries(self.inode.checksum_seed, &block.bytes)
    }

    /// Changes the part of an ordinary block that contains entries. The caller should drop its copy
    /// of the block's bytes before: then nothing has to be copied.
    pub(super) fn change_entries(
        &self,
        block: impl Into<Key>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let seed = self.inode.checksum_seed;
        self.handle.change(block.into(), |bytes| {
            change(tail::entries_mut(seed, bytes));
            tail::seal(seed, bytes);
        })
    }

    /// Changes a block; `change` also updates the block's checksum.
    pub(super) fn change(
        &self,
        block: impl Into<Key>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        self.handle.change(block.into(), change)
    }

    /// Appends an ordinary block whose entries `fill` writes.
    pub(super) fn append_entries(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<Block> {
        let mut bytes = vec![0; self.volume().superblock.block_size.len()];
        let seed = self.inode.checksum_seed;
        fill(tail::entries_mut(seed, &mut bytes));
        tail::seal(seed, &mut bytes);
        self.append(bytes)
    }

    /// Appends a block to the directory.
    pub(super) fn append(&mut self, bytes: Vec<u8>) -> Result<Block> {
        self.check_size()?;
        let (number, fs_block) = file_blocks::append_block(self.handle, self.inode)?;
        let size = self.volume().superblock.block_size;
        self.inode.size_bytes = size.bytes_of(u64::from(number.0).saturating_add(1));
        let key = Key::directory_block(self.inode.number, fs_block);
        let bytes: Arc<[u8]> = bytes.into();
        self.handle.replace(key, Arc::clone(&bytes));
        Ok(Block { key, number, bytes })
    }

    /// Fails if the directory cannot have another block.
    fn check_size(&self) -> Result<()> {
        let superblock = &self.volume().superblock;
        let blocks = superblock.block_size.blocks_for(self.inode.size_bytes);
        let size = superblock.block_size.bytes_of(blocks.saturating_add(1));
        // A directory's size has an upper half only with this feature.
        let size_fits =
            superblock.features.has(Incompatible::LARGE_DIR) || u32::try_from(size).is_ok();
        let reached = u32::try_from(blocks).is_ok_and(|next| htree::reaches(FileBlock(next)));
        if size_fits && reached {
            return Ok(());
        }
        Err(self.full("no space left in the directory: it has reached its maximum size"))
    }

    /// Returns the error for a directory without room for another name.
    pub(super) fn full(&self, reason: &'static str) -> Error {
        let directory = InodeNumber(u64::from(self.inode.number));
        Error::new(ErrorKind::NoSpace, reason).in_inode(directory)
    }
}

impl htree::Blocks for DirectoryEditor<'_, '_> {
    type Block = Arc<[u8]>;

    fn block(&self, block: FileBlock) -> Result<Arc<[u8]>> {
        block::read(self.volume(), self.inode, block)
    }
}
