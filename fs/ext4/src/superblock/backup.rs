//! Backup superblocks: they are never used, but named in the error when the primary is destroyed.

use diskfs_block::BlockRead;
use diskfs_vfs::Error;
use zerocopy::FromBytes;

use super::raw::{RawSuperblock, SIZE_BYTES};
use super::{MAGIC, Superblock};

/// The places of the first backup in filesystems of mke2fs, by block size: the start of group 1,
/// where a group has as many blocks as a bitmap of one block has bits. (Block, block size in
/// bytes.)
const FIRST_BACKUPS: [(u64, u64); 4] =
    [(32768, 4096), (8193, 1024), (16384, 2048), (524_288, 65536)];

/// Adds to `error` which backup could be used in place of the primary superblock, if there is one.
pub(super) fn hint(device: &dyn BlockRead, error: Error) -> Error {
    match find(device) {
        Some((block, size)) => error.with_hint(format!(
            "a backup superblock is at block {block}: on a copy, run `e2fsck -b {block} -B {size}`"
        )),
        None => error,
    }
}

/// Reads the first backup, if there is one.
pub(super) fn read(device: &dyn BlockRead) -> Option<Superblock> {
    let (block, block_size) = find(device)?;
    let mut bytes = [0; SIZE_BYTES];
    device
        .read_at(block.saturating_mul(block_size), &mut bytes)
        .ok()?;
    Superblock::parse(&bytes, device.size_bytes()).ok()
}

fn find(device: &dyn BlockRead) -> Option<(u64, u64)> {
    FIRST_BACKUPS.into_iter().find(|&(block, block_size)| {
        let mut bytes = [0; SIZE_BYTES];
        device
            .read_at(block.saturating_mul(block_size), &mut bytes)
            .is_ok()
            && RawSuperblock::ref_from_bytes(&bytes).is_ok_and(|raw| is_backup(raw, block_size))
    })
}

fn is_backup(raw: &RawSuperblock, block_size: u64) -> bool {
    raw.s_magic.get() == MAGIC
        && raw.s_block_group_nr.get() == 1
        && 1024u64.checked_shl(raw.s_log_block_size.get()) == Some(block_size)
}
