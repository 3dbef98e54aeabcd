//! The metadata of files, as Linux shows it.

use diskfs_vfs::{FileFlags, Metadata, Timestamp};

use crate::error::Result;
use crate::inode::Inode;
use crate::inode_body::Contents;
use crate::volume::Volume;
use crate::xattr;

/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;

/// Returns the metadata of an inode.
pub(crate) fn metadata(volume: &Volume, inode: &Inode) -> Result<Metadata> {
    let time = Timestamp {
        seconds: inode.modified_seconds.into(),
        nanoseconds: 0,
    };
    let (size_bytes, allocated_bytes) = sizes(&inode.contents);
    let (uid, gid) = inode.owner;
    Ok(Metadata {
        inode: inode.number,
        generation: 0,
        file_type: inode.file_type,
        permissions: inode.mode & 0o7777,
        links: inode.links,
        uid: volume.id(uid)?,
        gid: volume.id(gid)?,
        size_bytes,
        allocated_bytes: allocated_bytes.saturating_add(sectors(xattr::size_bytes(volume, inode)?)),
        accessed: time,
        modified: time,
        changed: time,
        created: None,
        device: match inode.contents {
            Contents::Device(device) => Some(device),
            _ => None,
        },
        block_size: volume.superblock.block_bytes,
        flags: FileFlags::default(),
    })
}

/// Rounds up to whole sectors.
fn sectors(bytes: u64) -> u64 {
    bytes.div_ceil(SECTOR_BYTES).saturating_mul(SECTOR_BYTES)
}

/// Returns the size, and the number of allocated bytes: those that are not in holes, as if nothing
/// were compressed.
fn sizes(contents: &Contents) -> (u64, u64) {
    match contents {
        Contents::File(file) => {
            let stored = file.size_bytes.saturating_sub(file.sparse_bytes);
            (file.size_bytes, sectors(stored))
        }
        Contents::Directory(directory) => (directory.size_bytes.into(), 0),
        Contents::Symlink { len, .. } => ((*len).into(), 0),
        Contents::Device(_) | Contents::Ipc => (0, 0),
    }
}
