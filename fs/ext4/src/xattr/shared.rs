//! Blocks of attributes and inodes of values that files with the same attributes share: their
//! reference counts, and the search for one with given contents.

mod relocate;

use std::sync::MutexGuard;

use crate::allocator::{Request, Reserve};
use crate::block::FsBlock;
use crate::error::{Result, Structure, malformed};
use crate::features::Compatible;
use crate::handle::Handle;
use crate::inode::Inode;
use crate::metadata_cache::Key;
use crate::shared_attributes::{KnownPlaces, remember};
use crate::superblock::Superblock;
use crate::transaction::FreedRun;

use super::attribute::{Attribute, ValueInode};
use super::{block, value_inode};

pub(crate) use relocate::{RelocatedBlocks, relocate_block};

/// The maximum number of inodes that share a block (`EXT4_XATTR_REFCOUNT_MAX`).
const REFERENCES_MAX: u32 = 1024;

/// A change of an inode's attributes, with the value inodes that become unused by it.
#[derive(Debug)]
pub(super) struct AttributeChange<'h, 'c, 'i> {
    handle: &'h Handle<'c>,
    pub(super) inode: &'i mut Inode,
    found: MutexGuard<'c, KnownPlaces>,
    /// The inodes of values without any reference.
    unused: Vec<u32>,
}

impl<'h, 'c, 'i> AttributeChange<'h, 'c, 'i> {
    pub(super) fn new(handle: &'h Handle<'c>, inode: &'i mut Inode) -> Self {
        Self {
            handle,
            inode,
            found: handle.shared_attributes.lock(),
            unused: Vec::new(),
        }
    }

    /// Ends the change, and frees the inodes without references. That may wait, so the lock is
    /// released before.
    pub(super) fn finish(self) -> Result<()> {
        let Self {
            handle,
            found,
            unused,
            ..
        } = self;
        drop(found);
        for number in unused {
            // A file seldom has more than one. Without room for more credits, the operation's own
            // must suffice: another transaction must not begin before the inode is stored.
            handle.extend(value_inode::REMOVE_CREDITS);
            value_inode::remove(handle, number)?;
        }
        Ok(())
    }

    fn superblock(&self) -> &'c Superblock {
        &self.handle.volume().superblock
    }

    /// Finds or creates an inode with the value, and adds one reference. If this fails, the change
    /// must still be [finished](Self::finish).
    pub(super) fn store_value(&mut self, name: &[u8], value: &[u8]) -> Result<ValueInode> {
        let checksum = self.superblock().value_seed.of(&[value]);
        let known = self.found.values.get(&checksum).copied();
        let number = match known {
            Some(number) if value_inode::is_same(self.handle, number, checksum, value) => {
                self.refer(number)?;
                number
            }
            _ => {
                let mut made = value_inode::make(self.handle, self.inode, checksum)?;
                if let Err(e) = value_inode::fill(self.handle, &mut made, value) {
                    self.unused.push(made.number);
                    return Err(e);
                }
                remember(&mut self.found.values, checksum, made.number);
                made.number
            }
        };
        Ok(ValueInode {
            inode: number,
            size_bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
            hash: super::hash::of_entry_with_inode(name, checksum),
        })
    }

    fn refer(&self, number: u32) -> Result<()> {
        let mut inode = value_inode::read(self.handle, number)?;
        inode.version = inode.version.checked_add(1).ok_or_else(|| {
            let problem = "its reference count is at the maximum";
            malformed(Structure::XattrValue(number), problem)
        })?;
        self.handle.store(&inode)
    }

    /// Drops one reference to a value.
    pub(super) fn drop_value(&mut self, value: ValueInode) -> Result<()> {
        let mut inode = value_inode::read(self.handle, value.inode)?;
        inode.version = inode.version.checked_sub(1).ok_or_else(|| {
            let problem = "its reference count is 0, although an attribute refers to it";
            malformed(Structure::XattrValue(value.inode), problem)
        })?;
        if inode.version == 0 {
            self.found.values.retain(|_, number| *number != value.inode);
            self.unused.push(value.inode);
        }
        self.handle.store(&inode)
    }

    /// Updates `i_blocks`: each inode counts the blocks of its values as its own, once for each
    /// reference.
    pub(super) fn count_values(&mut self, added: &[Attribute], removed: &[Attribute]) {
        let superblock = self.superblock();
        let cluster_bits = superblock
            .block_size
            .bits()
            .saturating_add(superblock.cluster_ratio_bits);
        let bytes = |attributes: &[Attribute]| {
            let values = attributes.iter().filter_map(Attribute::value_inode);
            let sizes = values.map(|value| {
                let clusters =
                    u64::from(value.size_bytes).div_ceil(1u64.wrapping_shl(cluster_bits));
                clusters.wrapping_shl(cluster_bits)
            });
            sizes.fold(0, u64::saturating_add)
        };
        self.inode.allocated_bytes = self
            .inode
            .allocated_bytes
            .saturating_add(bytes(added))
            .saturating_sub(bytes(removed));
    }

    /// Returns the attributes in the inode's block.
    pub(super) fn block_attributes(&self) -> Result<Vec<Attribute>> {
        if self.inode.xattr_block == 0 {
            return Ok(Vec::new());
        }
        let bytes = block::read(self.handle.volume(), self.inode)?;
        Attribute::all(block::entries(self.inode, &bytes))
    }

    /// Replaces the inode's block with attributes `before` by one with `attributes`. The block
    /// takes over the existing reference to the value of `fresh`. If this fails, nothing has
    /// changed, and the reference still belongs to the caller.
    pub(super) fn put_block(
        &mut self,
        before: &[Attribute],
        attributes: &[Attribute],
        fresh: Option<ValueInode>,
    ) -> Result<()> {
        if attributes.is_empty() {
            self.drop_block(before)?;
            self.count_values(attributes, before);
            return Ok(());
        }
        let bytes = block::encode(self.superblock(), attributes);
        if let Some(block) = self.same_block(&bytes)? {
            self.change_references(block, 1)?;
            // The block refers to the value already.
            if let Some(fresh) = fresh {
                self.drop_value(fresh)?;
            }
            self.drop_block(before)?;
            self.set_block(block);
        } else if self.is_own_block()? {
            self.rewrite_block(bytes, before, attributes, fresh)?;
        } else {
            let block = self.allocate_block()?;
            self.write_block(block, bytes);
            for value in carried(attributes, fresh) {
                self.refer(value.inode)?;
            }
            self.drop_block(before)?;
            self.set_block(block);
        }
        self.count_values(attributes, before);
        Ok(())
    }

    /// Sets the inode's block, and counts it in `i_blocks`.
    fn set_block(&mut self, block: FsBlock) {
        self.inode.xattr_block = block.0;
        self.inode.allocated_bytes = self
            .inode
            .allocated_bytes
            .saturating_add(self.block_bytes());
    }

    /// Returns true if no other inode has the inode's block.
    fn is_own_block(&self) -> Result<bool> {
        if self.inode.xattr_block == 0 {
            return Ok(false);
        }
        let bytes = block::read(self.handle.volume(), self.inode)?;
        Ok(block::references(&bytes) == 1)
    }

    /// Returns another inode's block with the same attributes, if it has room for one more
    /// reference.
    fn same_block(&mut self, wanted: &[u8]) -> Result<Option<FsBlock>> {
        let hash = block::hash(wanted);
        let Some(&known) = self.found.blocks.get(&hash).filter(|_| hash != 0) else {
            return Ok(None);
        };
        let volume = self.handle.volume();
        let bytes = block::read_at(volume, known)?;
        let references = block::references(&bytes);
        let body = |bytes: &[u8]| bytes.get(block::HEADER_BYTES..).map(<[u8]>::to_vec);
        let same = body(&bytes) == body(wanted);
        Ok((same && (1..REFERENCES_MAX).contains(&references)).then_some(known))
    }

    /// Changes the inode's own block.
    fn rewrite_block(
        &mut self,
        bytes: Vec<u8>,
        before: &[Attribute],
        attributes: &[Attribute],
        fresh: Option<ValueInode>,
    ) -> Result<()> {
        for value in carried(attributes, fresh) {
            self.refer(value.inode)?;
        }
        for value in before.iter().filter_map(Attribute::value_inode) {
            self.drop_value(value)?;
        }
        let block = FsBlock(self.inode.xattr_block);
        self.found.blocks.retain(|_, known| *known != block);
        self.write_block(block, bytes);
        Ok(())
    }

    fn write_block(&mut self, block: FsBlock, mut bytes: Vec<u8>) {
        block::seal(self.superblock(), block, &mut bytes);
        remember(&mut self.found.blocks, block::hash(&bytes), block);
        self.handle.replace(Key::xattr_block(block), bytes);
    }

    fn change_references(&self, block: FsBlock, by: i32) -> Result<()> {
        let superblock = self.superblock();
        self.handle.change(Key::xattr_block(block), |bytes| {
            let references = block::references(bytes).saturating_add_signed(by);
            block::set_references(bytes, references);
            block::seal(superblock, block, bytes);
        })
    }

    /// Removes the inode's block, and frees it if no other inode has it.
    fn drop_block(&mut self, attributes: &[Attribute]) -> Result<()> {
        if self.inode.xattr_block == 0 {
            return Ok(());
        }
        let block = FsBlock(self.inode.xattr_block);
        let bytes = block::read(self.handle.volume(), self.inode)?;
        match block::references(&bytes) {
            0 => {
                let problem = "its reference count is 0, although an inode refers to it";
                return Err(malformed(Structure::XattrBlock(block), problem));
            }
            1 => {
                self.found.blocks.retain(|_, known| *known != block);
                self.handle.forget(block);
                self.handle
                    .allocator
                    .free(self.handle, self.run_of(block))?;
                for value in attributes.iter().filter_map(Attribute::value_inode) {
                    self.drop_value(value)?;
                }
            }
            _ => {
                remember(&mut self.found.blocks, block::hash(&bytes), block);
                self.change_references(block, -1)?;
            }
        }
        self.inode.xattr_block = 0;
        self.inode.allocated_bytes = self
            .inode
            .allocated_bytes
            .saturating_sub(self.block_bytes());
        Ok(())
    }

    fn allocate_block(&self) -> Result<FsBlock> {
        let superblock = self.superblock();
        if !superblock.features.has(Compatible::EXT_ATTR) {
            let flag = Compatible::EXT_ATTR.bits();
            self.handle.change_superblock(|raw| {
                let compatible = raw.s_feature_compat.get() | flag;
                raw.s_feature_compat.set(compatible);
            })?;
        }
        let allocator = self.handle.allocator;
        let request = Request {
            goal: allocator.goal_for(self.inode),
            len_blocks: 1u32.wrapping_shl(superblock.cluster_ratio_bits),
            preallocate_blocks: 0,
            reserve: Reserve::Keep,
        };
        Ok(allocator.allocate(self.handle, request)?.first)
    }

    /// Returns the run that is allocated for a block: with bigalloc a whole cluster.
    fn run_of(&self, block: FsBlock) -> FreedRun {
        let len_blocks = 1u64.wrapping_shl(self.superblock().cluster_ratio_bits);
        FreedRun {
            first: FsBlock(block.0 & !len_blocks.wrapping_sub(1)),
            len_blocks,
        }
    }

    fn block_bytes(&self) -> u64 {
        let blocks = 1u64.wrapping_shl(self.superblock().cluster_ratio_bits);
        self.superblock().block_size.bytes_of(blocks)
    }

    /// Drops the references of the attributes within an inode.
    pub(super) fn drop_values(&mut self, attributes: &[Attribute]) -> Result<()> {
        for value in attributes.iter().filter_map(Attribute::value_inode) {
            self.drop_value(value)?;
        }
        Ok(())
    }
}

/// Returns the values in inodes to which a new block needs a reference.
fn carried(
    attributes: &[Attribute],
    fresh: Option<ValueInode>,
) -> impl Iterator<Item = ValueInode> {
    let values = attributes.iter().filter_map(Attribute::value_inode);
    let mut fresh = fresh;
    values.filter(move |value| {
        let is_fresh = fresh == Some(*value);
        if is_fresh {
            fresh = None;
        }
        !is_fresh
    })
}
