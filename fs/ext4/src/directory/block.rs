//! Directory blocks: reading and checking them, one or several at once.

use std::sync::Arc;

use crate::block::FileBlock;
use crate::checksum::ChecksumSeed;
use crate::error::{Corrupt, InInode, Result, Structure, malformed};
use crate::features::{Compatible, Incompatible};
use crate::file_blocks::runs;
use crate::htree;
use crate::inode::{Inode, InodeFlags};
use crate::metadata_cache::Key;
use crate::run::Run;
use crate::superblock::Superblock;
use crate::volume::Volume;

use super::tail;

/// The number of bytes read at once while a whole directory is listed.
const BATCH_BYTES: u32 = 64 * 1024;
/// The number of bytes announced to the device ahead of the reads.
const AHEAD_BYTES: u32 = 512 * 1024;

/// Returns true if the directory has an htree index.
pub(super) fn is_indexed(volume: &Volume, directory: &Inode) -> bool {
    directory.has(InodeFlags::INDEX) && volume.superblock.features.has(Compatible::DIR_INDEX)
}

/// Returns the directory's properties that the htree code needs.
pub(super) fn htree_directory(volume: &Volume, directory: &Inode) -> htree::Directory {
    htree_directory_of(
        &volume.superblock,
        directory.number,
        directory.checksum_seed,
    )
}

/// Returns the properties of the directory `inode` that the htree code needs.
pub(crate) fn htree_directory_of(
    superblock: &Superblock,
    inode: u32,
    checksum: Option<ChecksumSeed>,
) -> htree::Directory {
    htree::Directory {
        inode: diskfs_vfs::InodeNumber(u64::from(inode)),
        block_size: superblock.block_size,
        checksum,
        levels_max: if superblock.features.has(Incompatible::LARGE_DIR) {
            htree::Directory::LEVELS_MAX_LARGE_DIR
        } else {
            htree::Directory::LEVELS_MAX
        },
        sign: superblock.hash_signedness,
        seed: htree::HashSeed::new(superblock.hash_seed),
    }
}

/// Reads one block of a directory. A hole is an error.
pub(super) fn read(volume: &Volume, directory: &Inode, block: FileBlock) -> Result<Arc<[u8]>> {
    read_keyed(volume, directory, block).map(|(_, bytes)| bytes)
}

/// Reads one block of a directory, and returns it with its key in the pool, which a change needs.
pub(super) fn read_keyed(
    volume: &Volume,
    directory: &Inode,
    block: FileBlock,
) -> Result<(Key, Arc<[u8]>)> {
    let run = runs(volume, directory, block).next().transpose()?;
    match run {
        Some(run) if run.file_block == block && run.written => {
            let key = Key::directory_block(directory.number, run.fs_block);
            Ok((key, fetch(volume, directory, run, 1)?))
        }
        _ => Err(malformed(
            Structure::DirectoryBlock(block),
            "missing: the directory has a hole here",
        ))
        .in_inode(directory.number),
    }
}

/// Returns true if the directory has this block, which is within its size; false for a hole.
pub(super) fn is_mapped(volume: &Volume, directory: &Inode, block: FileBlock) -> Result<bool> {
    let run = runs(volume, directory, block).next().transpose()?;
    Ok(run.is_some_and(|run| run.file_block == block && run.written))
}

/// Reads the first block of a run while a directory is listed block by block. The next blocks of
/// the run are read with it.
pub(super) fn read_first(volume: &Volume, directory: &Inode, run: Run) -> Result<Arc<[u8]>> {
    let bits = volume.superblock.block_size.bits();
    let batch = BATCH_BYTES.wrapping_shr(bits).max(1);
    let key = Key::directory_block(directory.number, run.fs_block);
    if volume.has_block(key) {
        return fetch(volume, directory, run, 1);
    }
    if let Some(behind) = run.starting_at(FileBlock(run.file_block.0.saturating_add(batch))) {
        let ahead = u64::from(AHEAD_BYTES.wrapping_shr(bits));
        volume.will_need_blocks(behind.fs_block, ahead.min(u64::from(behind.len_blocks)));
    }
    fetch(volume, directory, run, batch.min(run.len_blocks))
}

/// Reads the first block of `run`. If it is not cached, `batch` blocks are read and cached at once.
fn fetch(volume: &Volume, directory: &Inode, run: Run, batch: u32) -> Result<Arc<[u8]>> {
    let key = Key::directory_block(directory.number, run.fs_block);
    if batch <= 1 {
        return volume
            .checked_block(key, |bytes| {
                verify(volume, directory, run.file_block, bytes)
            })
            .in_inode(directory.number);
    }
    if let Some(pool) = &volume.pool {
        volume.fill_pool(pool, run.fs_block, batch)?;
        return fetch(volume, directory, run, 1);
    }
    volume
        .metadata
        .get_or_make(&key, || -> Result<Arc<[u8]>> {
            let all = volume.read_blocks(run.fs_block, batch)?;
            let mut blocks = all.chunks(volume.superblock.block_size.len());
            let first = blocks.next().unwrap_or_default();
            verify_at(volume, directory, run, first)?;
            for (bytes, nth) in blocks.zip(1..) {
                cache_block(volume, directory, run, nth, bytes);
            }
            Ok(Arc::from(first))
        })
        .in_inode(directory.number)
}

/// Caches the `nth` block of a run, unless it is invalid: the error is reported when the block
/// itself is read.
fn cache_block(volume: &Volume, directory: &Inode, run: Run, nth: u32, bytes: &[u8]) {
    let Some(rest) = run.starting_at(FileBlock(run.file_block.0.saturating_add(nth))) else {
        return;
    };
    if verify(volume, directory, rest.file_block, bytes).is_ok() {
        let key = Key::directory_block(directory.number, rest.fs_block);
        volume.metadata.insert(key, Arc::from(bytes));
    }
}

fn verify_at(volume: &Volume, directory: &Inode, run: Run, bytes: &[u8]) -> Result<()> {
    let offset = volume.superblock.block_size.byte_of(run.fs_block);
    verify(volume, directory, run.file_block, bytes).map_err(|e| e.at(offset))
}

/// Checks a block's checksum, which is in the tail, or, in an index block, after the index.
fn verify(volume: &Volume, directory: &Inode, block: FileBlock, bytes: &[u8]) -> Result<()> {
    let Some(seed) = directory.checksum_seed else {
        return Ok(());
    };
    if is_indexed(volume, directory) {
        let htree = htree_directory(volume, directory);
        if htree::is_index_block(&htree, block, bytes) {
            return htree::verify(&htree, block, bytes);
        }
    }
    tail::verify(seed, block, bytes)
}

/// Returns the number of blocks that the directory's size covers. It is at most the number of
/// blocks of the filesystem.
pub(super) fn len_blocks(volume: &Volume, directory: &Inode) -> Result<u64> {
    let size = directory.size_bytes;
    let blocks = volume.superblock.block_size.blocks_for(size);
    if blocks > volume.superblock.blocks_count {
        return Err(Corrupt::Field {
            structure: Structure::Inode(directory.number),
            field: "i_size",
            value: size,
            range: "at most the size of the filesystem (for a directory)",
        })
        .in_inode(directory.number);
    }
    Ok(blocks)
}

/// Returns the byte offset of a block within its directory.
pub(super) fn start_of(volume: &Volume, block: FileBlock) -> u64 {
    volume.superblock.block_size.file_byte_of(block)
}
