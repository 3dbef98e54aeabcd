//! Blocks of the directories of a new filesystem.

use diskfs_vfs::FileType;

use crate::checksum::ChecksumSeed;
use crate::superblock::Superblock;

use super::entry::NewEntry;
use super::{region, tail};

/// Returns a block with these entries (name and inode number), all of directories. `seed` is that
/// of the directory's inode.
pub(crate) fn new_block(
    superblock: &Superblock,
    seed: Option<ChecksumSeed>,
    directories: &[(&[u8], u32)],
) -> Vec<u8> {
    let entries: Vec<_> = directories
        .iter()
        .map(|&(name, inode)| {
            let entry = NewEntry {
                inode,
                name,
                file_type: FileType::Directory,
            };
            let mut bytes = vec![0; entry.bytes()];
            let len = bytes.len();
            entry.put(superblock, &mut bytes, 0, len);
            bytes
        })
        .collect();
    let mut block = vec![0; superblock.block_size.len()];
    let room = tail::entries_mut(seed, &mut block);
    region::pack(superblock, room, entries.iter().map(Vec::as_slice));
    tail::seal(seed, &mut block);
    block
}
