//! The metadata of files, as Linux shows it.

use diskfs_vfs::{FileFlags, FileType, Metadata};

use crate::inode::Inode;
use crate::volume::Volume;

/// Returns the metadata of an inode.
pub(crate) fn metadata(volume: &Volume, inode: &Inode) -> Metadata {
    let is_special = !matches!(
        inode.file_type,
        FileType::Regular | FileType::Directory | FileType::Symlink
    );
    Metadata {
        inode: inode.number,
        generation: 0,
        file_type: inode.file_type,
        permissions: inode.mode & 0o7777,
        links: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        size_bytes: if is_special { 0 } else { inode.size_bytes },
        allocated_bytes: allocated_bytes(volume, inode),
        accessed: inode.modified,
        modified: inode.modified,
        changed: inode.modified,
        created: None,
        device: inode.device(),
        block_size: u32::try_from(volume.superblock.block_bytes()).unwrap_or(4096),
        flags: FileFlags::default(),
    }
}

/// Returns the number of compressed bytes; otherwise the size, rounded up to a block.
fn allocated_bytes(volume: &Volume, inode: &Inode) -> u64 {
    if inode.layout.is_compressed() {
        return volume.superblock.byte_of(inode.compressed_blocks());
    }
    let block_bytes = volume.superblock.block_bytes();
    let size = inode.size_bytes;
    size.checked_next_multiple_of(block_bytes).unwrap_or(size)
}
