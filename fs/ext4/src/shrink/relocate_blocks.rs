//! Moving the blocks of one inode.

use diskfs_vfs::FileType;

use crate::block::FsBlock;
use crate::bytes::index;
use crate::error::Result;
use crate::file_blocks::{self, RELOCATE_CREDITS, Relocation};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::metadata_cache::Key;
use crate::symlink;
use crate::volume::Volume;
use crate::writer::{Core, empty_orphan_block};
use crate::xattr::{self, RelocatedBlocks};

/// The number of bytes of a file that are copied at once.
const COPY_BYTES: u32 = 4 << 20;
/// The number of blocks of a directory that are moved within one handle.
const DIRECTORY_BLOCKS: u32 = 16;
/// The credits for moving a block of attributes: both blocks, their bitmaps and descriptors, and
/// some inodes of values.
const XATTR_CREDITS: u32 = 24;

/// Moves all blocks of an inode that are not allocatable: contents, tree and attributes.
///
/// # Errors
/// `NoSpace`, after which some are moved; `Corrupt`, `Io`.
pub(super) fn relocate_blocks(
    core: &Core,
    number: u32,
    relocated: &mut RelocatedBlocks,
) -> Result<()> {
    let credits = RELOCATE_CREDITS.saturating_add(XATTR_CREDITS);
    core.update(&[number], credits, |handle| {
        let mut inode = handle.inode(number)?;
        let before = inode.xattr_block;
        if before != 0 {
            xattr::relocate_block(handle, &mut inode, relocated)?;
            if inode.xattr_block != before {
                handle.store(&inode)?;
            }
        }
        if !has_blocks(handle.volume(), &inode) {
            return Ok(());
        }
        relocate_contents(handle, &mut inode)
    })
}

/// Returns true if `i_block` contains an extent tree or a block map.
fn has_blocks(volume: &Volume, inode: &Inode) -> bool {
    match inode.file_type {
        _ if inode.has(InodeFlags::INLINE_DATA) => false,
        Some(FileType::Regular | FileType::Directory) => true,
        Some(FileType::Symlink) => !symlink::is_short(volume, inode),
        _ => false,
    }
}

fn relocate_contents(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    let number = inode.number;
    let superblock = &handle.volume().superblock;
    let seed = inode.checksum_seed;
    let copy_metadata = |handle: &Handle<'_>, from, to, len_blocks| {
        for nth in 0..u64::from(len_blocks) {
            let (from, to): (FsBlock, FsBlock) =
                (FsBlock::after(from, nth), FsBlock::after(to, nth));
            if number == superblock.orphan_file_inode {
                // Nothing is an orphan now, and the checksum covers the place.
                let bytes = empty_orphan_block(superblock.block_size.len(), seed, to);
                handle.replace(Key::orphan_block(number, to), bytes);
            } else {
                let bytes = handle.volume().read_blocks(from, 1)?;
                handle.replace(Key::directory_block(number, to), bytes);
            }
            handle.forget(from);
        }
        Ok(())
    };
    let is_metadata = inode.is(FileType::Directory) || number == superblock.orphan_file_inode;
    let relocation = if is_metadata {
        Relocation {
            copy: &copy_metadata,
            step_blocks: DIRECTORY_BLOCKS,
        }
    } else {
        Relocation {
            copy: &copy_contents,
            step_blocks: COPY_BYTES.wrapping_shr(superblock.block_size.bits()),
        }
    };
    file_blocks::relocate(handle, inode, &relocation)
}

/// Copies contents past the journal: they are written before the transaction that refers to them.
fn copy_contents(handle: &Handle<'_>, from: FsBlock, to: FsBlock, len_blocks: u32) -> Result<()> {
    let size = handle.volume().superblock.block_size;
    let mut bytes = vec![0; index(size.bytes_of(u64::from(len_blocks)))];
    handle
        .volume()
        .read_device(size.byte_of(from), &mut bytes)?;
    handle.device.write_block(to, &bytes)
}
