//! Symlinks: their targets are the contents.

use diskfs_block::bytes::index;
use diskfs_vfs::FileType;

use crate::contents;
use crate::error::{Error, ErrorKind, Result, corrupt};
use crate::inode::Inode;
use crate::volume::Volume;

/// The maximum length of a symlink's target, which is Linux's.
const TARGET_MAX_BYTES: u64 = 4096;

/// Returns the target of a symlink.
///
/// # Errors
/// `Invalid` for other types.
pub(crate) fn target(volume: &Volume, inode: &Inode) -> Result<Vec<u8>> {
    if inode.file_type != FileType::Symlink {
        return Err(Error::from(ErrorKind::Invalid).in_inode(inode.number));
    }
    if inode.size_bytes > TARGET_MAX_BYTES {
        let reason = format!("invalid symlink: its target has {} bytes", inode.size_bytes);
        return Err(corrupt(reason, inode.xattrs.at));
    }
    let mut target = vec![0; index(inode.size_bytes)];
    contents::read(volume, inode, 0, &mut target)?;
    Ok(target)
}
