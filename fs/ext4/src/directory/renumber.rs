//! Changes of inode numbers in a directory's entries, without looking at names: so they are
//! possible in encrypted and casefolded directories, too.

use crate::block::FileBlock;
use crate::bytes::{le32, put};
use crate::error::{InInode, Result};
use crate::file_blocks::runs;
use crate::handle::Handle;
use crate::htree;
use crate::inode::{Inode, InodeFlags};
use crate::metadata_cache::Key;
use crate::superblock::Superblock;
use crate::volume::Volume;

use super::{block, inline, region, tail};

/// The place of an entry, as exactly as it is needed to find the entry by its inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryBlock {
    Block(FileBlock),
    /// In the inode itself.
    Inline,
}

/// Calls `found` for each entry of a directory, including `.` and `..`, with its inode number.
/// Inline directories have no entry `.`.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn for_each_number(
    volume: &Volume,
    directory: &Inode,
    mut found: impl FnMut(EntryBlock, u32),
) -> Result<()> {
    let superblock = &volume.superblock;
    if directory.has(InodeFlags::INLINE_DATA) {
        found(EntryBlock::Inline, le32(&directory.block, 0).unwrap_or(0));
        for part in inline::PARTS {
            for offset in places(superblock, part.of(directory)?) {
                found(EntryBlock::Inline, offset.1);
            }
        }
        return Ok(());
    }
    let len = block::len_blocks(volume, directory)?;
    for run in runs(volume, directory, FileBlock(0)) {
        let run = run?;
        for number in (u64::from(run.file_block.0)..run.end().min(len))
            .map_while(|nth| u32::try_from(nth).ok())
        {
            let number = FileBlock(number);
            let bytes = block::read(volume, directory, number)?;
            let region = entries_of(volume, directory, number, &bytes);
            for (_, inode) in places(superblock, region) {
                found(EntryBlock::Block(number), inode);
            }
        }
    }
    Ok(())
}

/// Makes the entries in one place that refer to inode `old` refer to `new`.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn renumber(
    handle: &Handle<'_>,
    directory: &mut Inode,
    place: EntryBlock,
    (old, new): (u32, u32),
) -> Result<()> {
    let superblock = &handle.volume().superblock;
    match place {
        EntryBlock::Inline => {
            if le32(&directory.block, 0) == Some(old) {
                inline::set_parent(directory, new);
            }
            for part in inline::PARTS {
                let has_old = places(superblock, part.of(directory)?)
                    .iter()
                    .any(|(_, inode)| *inode == old);
                if has_old {
                    part.change(superblock, directory, |region| {
                        renumber_region(superblock, region, (old, new));
                    })?;
                }
            }
            handle.store(directory)
        }
        EntryBlock::Block(number) => {
            let (key, _) = block::read_keyed(handle.volume(), directory, number)?;
            change_block(handle, directory, (key, number), |region| {
                renumber_region(superblock, region, (old, new));
            })
        }
    }
}

/// Updates the checksums of all blocks of a directory that has got a new inode number.
///
/// # Errors
/// `Corrupt`, `Io`.
pub(crate) fn seal_all(handle: &Handle<'_>, directory: &Inode) -> Result<()> {
    let volume = handle.volume();
    let len = block::len_blocks(volume, directory)?;
    for run in runs(volume, directory, FileBlock(0)) {
        let run = run.in_inode(directory.number)?;
        for nth in 0..run.len_blocks {
            let number = FileBlock(run.file_block.0.saturating_add(nth));
            // Blocks after the directory's end have no contents.
            if u64::from(number.0) < len {
                let block = run.fs_block.after(u64::from(nth));
                let key = Key::directory_block(directory.number, block);
                change_block(handle, directory, (key, number), |_| {})?;
            }
        }
    }
    Ok(())
}

/// Changes the entries of a block, and updates its checksum.
fn change_block(
    handle: &Handle<'_>,
    directory: &Inode,
    (key, number): (Key, FileBlock),
    change: impl FnOnce(&mut [u8]),
) -> Result<()> {
    let volume = handle.volume();
    let htree = block::htree_directory(volume, directory);
    let indexed = block::is_indexed(volume, directory);
    let seed = directory.checksum_seed;
    handle.change(key, |bytes| {
        if indexed && htree::is_index_block(&htree, number, bytes) {
            change(bytes);
            htree.seal(number, bytes);
        } else {
            change(tail::entries_mut(seed, bytes));
            tail::seal(seed, bytes);
        }
    })
}

/// Returns the part of a block that contains entries. In the root of an index, these are `.` and
/// `..`; the latter covers everything else.
fn entries_of<'b>(
    volume: &Volume,
    directory: &Inode,
    number: FileBlock,
    bytes: &'b [u8],
) -> &'b [u8] {
    let htree = block::htree_directory(volume, directory);
    if block::is_indexed(volume, directory) && htree::is_index_block(&htree, number, bytes) {
        return bytes;
    }
    tail::entries(directory.checksum_seed, bytes)
}

/// Returns the offsets of the entries in use, with their inode numbers, up to the first invalid
/// one.
fn places(superblock: &Superblock, region: &[u8]) -> Vec<(usize, u32)> {
    region::in_use(superblock, region)
        .map_while(std::result::Result::ok)
        .map(|placed| (placed.offset, placed.entry.inode))
        .collect()
}

fn renumber_region(superblock: &Superblock, region: &mut [u8], (old, new): (u32, u32)) {
    for (offset, inode) in places(superblock, region) {
        if inode == old {
            put(region, offset, &new.to_le_bytes());
        }
    }
}
