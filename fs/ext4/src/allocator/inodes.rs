//! Allocation of inodes near their directory, and freeing.

use crate::error::{Result, Structure, malformed};
use crate::group_descriptor::{GroupDescriptor, GroupFlags};
use crate::metadata_cache::{Key, zeroed};
use crate::superblock::Superblock;
use crate::transaction::TransactionHandle;

use super::Allocator;
use super::bits::{self, Bits, Run};
use super::block_bitmap::{has_flags, stored};
use super::group::Group;

impl Allocator {
    /// Allocates an inode near its directory. Its bytes in the inode table are those of an unused
    /// inode; the caller stores it as a new one.
    ///
    /// # Errors
    /// `NoSpace`, `Corrupt`, `Io`.
    pub(crate) fn allocate_inode(
        &self,
        handle: &TransactionHandle<'_>,
        parent: u32,
        is_dir: bool,
    ) -> Result<u32> {
        let parent_group = self
            .geometry
            .inode_place(parent)
            .map_or(0, |(group, _)| group);
        let best = if is_dir {
            self.group_for_directory(handle.volume(), parent, parent_group)?
        } else {
            self.group_for_file(parent_group)
        };
        for group in self.geometry.groups_from(best) {
            if self
                .summary(group)
                .is_none_or(|summary| summary.free_inodes() == 0)
            {
                continue;
            }
            if let Some(number) = self.take_inode(handle, group, is_dir)? {
                return Ok(number);
            }
        }
        Err(self.full(handle.volume(), "no space left: no free inodes"))
    }

    fn take_inode(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        is_dir: bool,
    ) -> Result<Option<u32>> {
        let Some(mut group) = self.group(number) else {
            return Ok(None);
        };
        if number >= self.allocatable.groups {
            return Ok(None);
        }
        let superblock = &handle.volume().superblock;
        if group.descriptor.free_inodes == 0 {
            return Ok(None);
        }
        let bitmap = self.inode_bitmap(handle.volume(), number, &group.descriptor)?;
        let bits = Bits::new(&bitmap.bytes, None, self.geometry.inodes_per_group);
        let reserved = if number == 0 {
            superblock.first_inode.saturating_sub(1)
        } else {
            0
        };
        let Some(nth) = bits.next_clear(group.first_free_inode.max(reserved)) else {
            return Ok(None);
        };
        self.take_nth_inode(handle, number, &mut group, nth, is_dir)?;
        group.first_free_inode = nth.saturating_add(1);
        Ok(Some(self.geometry.inode_number(number, nth)))
    }

    /// Allocates an inode that is free in the bitmap.
    pub(super) fn take_nth_inode(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        group: &mut Group,
        nth: u32,
        is_dir: bool,
    ) -> Result<()> {
        let superblock = &handle.volume().superblock;
        let bitmap = self.inode_bitmap(handle.volume(), number, &group.descriptor)?;
        if has_flags(superblock) {
            self.initialise_block_bitmap(handle, number, group)?;
        }
        let mut descriptor = group.descriptor;
        if has_flags(superblock) {
            self.extend_table(handle, number, &mut descriptor, nth)?;
        }
        let key = Key::inode_bitmap(number, descriptor.inode_bitmap);
        let checksum = bitmap.change(handle, key, self.inode_bitmap_bytes(), |bitmap| {
            bits::set(bitmap, one(nth));
        })?;
        descriptor.inode_bitmap_checksum = checksum.unwrap_or(0) & stored(superblock);
        descriptor.free_inodes = descriptor.free_inodes.saturating_sub(1);
        let directories = u32::from(is_dir);
        descriptor.used_directories = descriptor.used_directories.saturating_add(directories);
        self.store(handle, number, group, descriptor)?;
        self.counters.take_inode(directories);
        Ok(())
    }

    /// Extends the initialised part of a group's inode table to include the `nth` inode. The block
    /// of the table may never have been written, so the device may have arbitrary bytes there.
    fn extend_table(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        descriptor: &mut GroupDescriptor,
        nth: u32,
    ) -> Result<()> {
        let inodes = self.geometry.inodes_per_group;
        let used = if descriptor.flags.contains(GroupFlags::INODE_UNINIT) {
            0
        } else {
            inodes.saturating_sub(descriptor.unused_inodes)
        };
        descriptor.flags.remove(GroupFlags::INODE_UNINIT);
        if nth < used {
            return Ok(());
        }
        // All inodes before the first free one are in use.
        if nth > used {
            let problem = "it marks inodes as used that bg_itable_unused counts as never used";
            return Err(malformed(Structure::InodeBitmap(number), problem));
        }
        descriptor.unused_inodes = inodes.saturating_sub(nth).saturating_sub(1);
        let superblock = &handle.volume().superblock;
        if !descriptor.flags.contains(GroupFlags::INODE_ZEROED)
            && let Some(block) = first_in_block(superblock, nth)
        {
            let key = Key::inode_table(descriptor.inode_table.after(u64::from(block)));
            handle.replace(key, zeroed(superblock.block_size.len()));
        }
        Ok(())
    }

    /// Frees an inode that no longer has blocks and is stored as unused.
    ///
    /// # Errors
    /// `Corrupt` if it is already free, or reserved; `Io`.
    pub(crate) fn free_inode(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        is_dir: bool,
    ) -> Result<()> {
        let superblock = &handle.volume().superblock;
        let place = self.geometry.inode_place(number);
        let Some((group, nth)) = place.filter(|_| number >= superblock.first_inode) else {
            let problem = "cannot be freed: it is reserved or outside of the filesystem";
            return Err(malformed(Structure::Inode(number), problem));
        };
        let Some(mut state) = self.group(group) else {
            return Ok(());
        };
        self.free_inode_in_group(handle, group, &mut state, nth, u32::from(is_dir))
    }

    fn free_inode_in_group(
        &self,
        handle: &TransactionHandle<'_>,
        number: u32,
        group: &mut Group,
        nth: u32,
        directories: u32,
    ) -> Result<()> {
        let mut descriptor = group.descriptor;
        let bitmap = self.inode_bitmap(handle.volume(), number, &descriptor)?;
        let bits = Bits::new(&bitmap.bytes, None, self.geometry.inodes_per_group);
        if bits.next_clear(nth) == Some(nth) {
            let problem = "it marks an inode that is in use as free";
            return Err(malformed(Structure::InodeBitmap(number), problem));
        }
        let used_directories = descriptor.used_directories.checked_sub(directories);
        descriptor.used_directories = used_directories.ok_or_else(|| {
            let problem = "bg_used_dirs_count is less than the number of directories";
            malformed(Structure::GroupDescriptor(number), problem)
        })?;
        let key = Key::inode_bitmap(number, descriptor.inode_bitmap);
        let checksum = bitmap.change(handle, key, self.inode_bitmap_bytes(), |bitmap| {
            bits::clear(bitmap, one(nth));
        })?;
        descriptor.inode_bitmap_checksum =
            checksum.unwrap_or(0) & stored(&handle.volume().superblock);
        descriptor.free_inodes = descriptor.free_inodes.saturating_add(1);
        self.store(handle, number, group, descriptor)?;
        group.first_free_inode = group.first_free_inode.min(nth);
        self.counters.free_inode(directories);
        Ok(())
    }
}

const fn one(bit: u32) -> Run {
    Run { start: bit, len: 1 }
}

/// Returns the block of the table whose first inode is the `nth` one, if a block begins with it.
fn first_in_block(superblock: &Superblock, nth: u32) -> Option<u32> {
    let per_block = superblock.inodes_per_block();
    let block = nth.checked_div(per_block)?;
    (nth.checked_rem(per_block)? == 0).then_some(block)
}
