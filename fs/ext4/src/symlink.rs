//! Symlink targets: in `i_block`, as inline data, or in a block.
//!
//! Source: kernel documentation, "ext4 Data Structures and Algorithms", section "Symbolic Links".

use crate::bytes::{index, le16, len_u64, part};
use crate::contents;
use crate::error::{Corrupt, InInode, Result, Structure, malformed};
use crate::features::Incompatible;
use crate::inode::{Inode, InodeFlags};
use crate::no_key_name;
use crate::volume::Volume;

/// The maximum length of a target, `PATH_MAX`: no system call creates a longer one.
const SIZE_MAX_BYTES: u64 = 4096;

/// Returns the target up to the first NUL, as the kernel reads it; an encrypted target in the form
/// without the key.
pub(crate) fn target(volume: &Volume, inode: &Inode) -> Result<Vec<u8>> {
    let mut target = stored(volume, inode)?;
    if inode.has(InodeFlags::ENCRYPT) {
        return without_key(inode, &target);
    }
    let len = target.iter().position(|&byte| byte == 0);
    target.truncate(len.unwrap_or(target.len()));
    Ok(target)
}

fn stored(volume: &Volume, inode: &Inode) -> Result<Vec<u8>> {
    let size = inode.size_bytes;
    if size == 0 || size > SIZE_MAX_BYTES {
        return Err(Corrupt::Field {
            structure: Structure::Inode(inode.number),
            field: "i_size",
            value: size,
            range: "1 to 4096 (for a symlink)",
        })
        .in_inode(inode.number);
    }
    let mut target = vec![0; index(size)];
    match inode.block.get(..target.len()) {
        Some(short) if is_short(volume, inode) => target.copy_from_slice(short),
        _ => {
            contents::read(volume, inode, 0, &mut target)?;
        }
    }
    Ok(target)
}

/// Decodes `struct fscrypt_symlink_data`: 16 bits of length, and the ciphertext.
fn without_key(inode: &Inode, stored: &[u8]) -> Result<Vec<u8>> {
    const LENGTH_BYTES: usize = 2;
    let len = le16(stored, 0).map_or(0, usize::from);
    match part(stored, LENGTH_BYTES, len) {
        Some(ciphertext) if len > 0 => Ok(no_key_name::encode([0, 0], ciphertext)),
        _ => {
            let problem = "its encrypted target is truncated";
            Err(malformed(Structure::Inode(inode.number), problem)).in_inode(inode.number)
        }
    }
}

/// Returns true if the target is in `i_block`: the inode has no blocks besides that of attributes.
/// If attribute values can have inodes of their own, their blocks count, too; then only the size
/// decides.
pub(crate) fn is_short(volume: &Volume, inode: &Inode) -> bool {
    // A target that fills `i_block` completely has no room for its NUL terminator in memory.
    if inode.has(InodeFlags::INLINE_DATA) || inode.size_bytes >= len_u64(inode.block.len()) {
        return false;
    }
    let superblock = &volume.superblock;
    if superblock.features.has(Incompatible::EA_INODE) {
        return true;
    }
    let cluster_bytes =
        u64::from(superblock.block_size.bytes()).wrapping_shl(superblock.cluster_ratio_bits);
    let attributes = if inode.xattr_block == 0 {
        0
    } else {
        cluster_bytes
    };
    inode.allocated_bytes <= attributes
}
