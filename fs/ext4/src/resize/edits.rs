//! The changed blocks of a filesystem that is being resized, until they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::FsBlock;
use crate::bytes::{index, part};
use crate::device_writer::DeviceWriter;
use crate::error::{Result, Structure, malformed};
use crate::group_descriptor::{GroupDescriptor, table_block};
use crate::journal::write_to_final_places;
use crate::metadata_cache::zeroed;
use crate::superblock::{self, Superblock};
use crate::volume::Volume;

/// Changed blocks over the blocks of a device.
#[derive(Debug)]
pub(crate) struct Edits<'v> {
    volume: &'v Volume,
    blocks: BTreeMap<FsBlock, Arc<[u8]>>,
}

impl<'v> Edits<'v> {
    /// Returns no changes of a filesystem.
    pub(crate) const fn new(volume: &'v Volume) -> Self {
        Self {
            volume,
            blocks: BTreeMap::new(),
        }
    }

    /// Returns the current content of a block.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn read(&self, block: FsBlock) -> Result<Arc<[u8]>> {
        match self.blocks.get(&block) {
            Some(bytes) => Ok(Arc::clone(bytes)),
            None => self.volume.read_blocks(block, 1),
        }
    }

    /// Changes a block.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn change<R>(
        &mut self,
        block: FsBlock,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        let mut bytes = match self.blocks.remove(&block) {
            Some(bytes) => bytes,
            None => self.volume.read_blocks(block, 1)?,
        };
        let result = change(Arc::make_mut(&mut bytes));
        self.blocks.insert(block, bytes);
        Ok(result)
    }

    /// Replaces a block's content.
    pub(crate) fn put(&mut self, block: FsBlock, bytes: impl Into<Arc<[u8]>>) {
        self.blocks.insert(block, bytes.into());
    }

    /// Fills a block with zeroes.
    pub(crate) fn zero(&mut self, block: FsBlock) {
        let len = self.volume.superblock.block_size.len();
        self.put(block, zeroed(len));
    }

    /// Reads the descriptor of a group of the old filesystem.
    ///
    /// # Errors
    /// `Corrupt`, `Io`.
    pub(crate) fn descriptor(&self, group: u32) -> Result<GroupDescriptor> {
        let superblock = &self.volume.superblock;
        let (block, offset) = descriptor_place(superblock, group);
        let bytes = self.read(block)?;
        match part(&bytes, offset, usize::from(superblock.descriptor_size)) {
            Some(descriptor) => GroupDescriptor::parse(superblock, group, descriptor),
            None => Err(malformed(Structure::GroupDescriptor(group), "truncated")),
        }
    }

    /// Changes the bytes of a group's descriptor.
    ///
    /// # Errors
    /// Those of `encode`; `Io`.
    pub(crate) fn change_descriptor(
        &mut self,
        superblock: &Superblock,
        group: u32,
        encode: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let (block, offset) = descriptor_place(superblock, group);
        let end = offset.saturating_add(usize::from(superblock.descriptor_size));
        self.change(block, |bytes| {
            encode(bytes.get_mut(offset..end).unwrap_or_default())
        })?
    }

    /// Returns the volume of the old filesystem.
    pub(crate) const fn volume(&self) -> &'v Volume {
        self.volume
    }

    /// Returns the number of changed blocks.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Splits the changes into those before block `end` and those from it on.
    pub(crate) fn split(mut self, end: FsBlock) -> (Blocks, Blocks) {
        let after = self.blocks.split_off(&end);
        (self.blocks, after)
    }
}

/// Blocks with their contents, in order.
pub(crate) type Blocks = BTreeMap<FsBlock, Arc<[u8]>>;

/// Writes all blocks but that of the superblock, flushes, writes the superblock, and flushes.
///
/// # Errors
/// `Io`, `NoSpace`.
pub(crate) fn write_superblock_last(
    device: &DeviceWriter,
    new: &Superblock,
    changed: &Blocks,
) -> Result<()> {
    let superblock = superblock::superblock_block(new.block_size);
    write_with_last(device, changed, superblock)
}

/// Writes all blocks but `last_block`, flushes, writes `last_block`, and flushes.
///
/// # Errors
/// `Io`, `NoSpace`.
pub(crate) fn write_with_last(
    device: &DeviceWriter,
    changed: &Blocks,
    last_block: FsBlock,
) -> Result<()> {
    for last in [false, true] {
        let now = changed
            .iter()
            .filter(|(block, _)| (**block == last_block) == last);
        write_to_final_places(device, now.map(|(block, bytes)| (*block, bytes)))?;
        device.flush()?;
    }
    Ok(())
}

/// Returns the block that holds a group's descriptor, and the byte offset in it.
fn descriptor_place(superblock: &Superblock, group: u32) -> (FsBlock, usize) {
    let (nth, position) = superblock.descriptor_place(group);
    let size = usize::from(superblock.descriptor_size);
    (
        table_block(superblock, nth),
        index(position).saturating_mul(size),
    )
}
