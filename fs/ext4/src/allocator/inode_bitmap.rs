//! Inode bitmaps: one bit for each inode of a group.

use crate::bytes::index;
use crate::error::{Result, Structure, malformed};
use crate::group_descriptor::{GroupDescriptor, GroupFlags};
use crate::metadata_cache::Key;
use crate::superblock::Superblock;
use crate::volume::Volume;

use super::Allocator;
use super::bits::Bits;
use super::block_bitmap::{Bitmap, has_flags, set_padding, verify};

impl Allocator {
    /// Reads a group's inode bitmap, and checks that it agrees with its descriptor.
    pub(super) fn inode_bitmap(
        &self,
        volume: &Volume,
        group: u32,
        descriptor: &GroupDescriptor,
    ) -> Result<Bitmap> {
        let inodes = self.geometry.inodes_per_group;
        if descriptor.flags.contains(GroupFlags::INODE_UNINIT) && has_flags(&volume.superblock) {
            let mut made = vec![0; self.geometry.bitmap_bytes];
            set_padding(&mut made, inodes);
            check_free_inodes(group, descriptor, &made, inodes)?;
            return Ok(Bitmap::generated(made));
        }
        let key = Key::inode_bitmap(group, descriptor.inode_bitmap);
        let bytes = volume.checked_block(key, |bytes| {
            self.check_inode_bitmap(&volume.superblock, group, descriptor, bytes)
        })?;
        Ok(Bitmap::on_device(bytes))
    }

    fn check_inode_bitmap(
        &self,
        superblock: &Superblock,
        group: u32,
        descriptor: &GroupDescriptor,
        bytes: &[u8],
    ) -> Result<()> {
        verify(
            superblock,
            Structure::InodeBitmap(group),
            bytes,
            self.inode_bitmap_bytes(),
            descriptor.inode_bitmap_checksum,
        )?;
        check_free_inodes(group, descriptor, bytes, self.geometry.inodes_per_group)
    }

    /// Returns how many bytes of an inode bitmap its checksum covers.
    pub(super) fn inode_bitmap_bytes(&self) -> usize {
        index(self.geometry.inodes_per_group.wrapping_div(8))
    }
}

fn check_free_inodes(
    group: u32,
    descriptor: &GroupDescriptor,
    bytes: &[u8],
    inodes: u32,
) -> Result<()> {
    if Bits::new(bytes, None, inodes).count_clear() == descriptor.free_inodes {
        return Ok(());
    }
    let problem = "its number of free inodes differs from the group descriptor's";
    Err(malformed(Structure::InodeBitmap(group), problem))
}
