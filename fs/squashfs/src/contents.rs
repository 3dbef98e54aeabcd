//! The contents of files.

use diskfs_block::bytes::{index, len_u64};
use diskfs_vfs::parallel;

use crate::block_list::FileBlocks;
use crate::data_block::DataBlock;
use crate::error::{Result, corrupt};
use crate::fragment;
use crate::inode::Inode;
use crate::inode_body::{File, FragmentPlace};
use crate::volume::Volume;

/// The maximum range of a file for which its blocks are announced to the device.
const ANNOUNCED_MAX_BYTES: u64 = 4 << 20;

/// A part of a block to be read.
struct Part<'b> {
    block: DataBlock,
    /// The length of the whole block, decompressed.
    len: usize,
    skip: usize,
    out: &'b mut [u8],
}

impl Part<'_> {
    /// Returns the number of bytes to be decompressed.
    fn slow_bytes(&self) -> usize {
        let size = self.block.size;
        if size.is_hole() || !size.is_compressed() {
            0
        } else {
            self.out.len()
        }
    }

    fn read(self, volume: &Volume) -> Result<()> {
        if self.block.size.is_hole() {
            self.out.fill(0);
            return Ok(());
        }
        if self.skip == 0 && self.out.len() == self.len {
            return volume.data.read_whole(self.block, self.out);
        }
        volume
            .data
            .read_part(self.block, self.len, self.skip, self.out)
    }
}

/// Reads from byte `offset` into `buf`, at most to the end of the file.
pub(crate) fn read_at(
    volume: &Volume,
    inode: &Inode,
    offset: u64,
    buf: &mut [u8],
) -> Result<usize> {
    let file = inode.file()?;
    let left = index(file.size_bytes.saturating_sub(offset));
    let len = left.min(buf.len());
    let buf = buf.get_mut(..len).unwrap_or_default();
    if buf.is_empty() {
        return Ok(0);
    }
    let block_bytes = u64::from(volume.superblock.block_bytes);
    let mut blocks = FileBlocks::new(
        volume,
        inode.reference,
        file,
        offset.checked_div(block_bytes).unwrap_or(0),
    )?;
    let (mut at, mut rest, mut parts) = (offset, buf, Vec::new());
    while !rest.is_empty() {
        let skip = at.checked_rem(block_bytes).unwrap_or(0);
        let of_file = file.size_bytes.saturating_sub(at.saturating_sub(skip));
        let len = index(block_bytes.min(of_file));
        let skip = index(skip);
        let take = len.saturating_sub(skip).min(rest.len());
        let (out, after) = rest.split_at_mut(take);
        match blocks.next() {
            Some(block) => parts.push(Part {
                block: block?,
                len,
                skip,
                out,
            }),
            None => read_fragment(volume, file, skip, out)?,
        }
        at = at.saturating_add(len_u64(take));
        rest = after;
    }
    read_parts(volume, parts)?;
    Ok(len)
}

/// Reads bytes of the end of a file from `skip` on.
fn read_fragment(volume: &Volume, file: &File, skip: usize, out: &mut [u8]) -> Result<()> {
    let Some(FragmentPlace { number, offset }) = file.fragment else {
        return Err(corrupt("invalid file: missing block", file.start));
    };
    let block = fragment::block(volume, number)?;
    let bytes = volume.data.fragment(block)?;
    let start = index(offset).saturating_add(skip);
    let Some(part) = diskfs_block::bytes::part(bytes.bytes(), start, out.len()) else {
        let reason = format!("invalid file: its end is outside of fragment {number}");
        return Err(corrupt(reason, block.start));
    };
    out.copy_from_slice(part);
    Ok(())
}

/// Reads parts of blocks, on several threads if there are several to be decompressed.
fn read_parts(volume: &Volume, parts: Vec<Part<'_>>) -> Result<()> {
    let threads = parallel::threads_for(&parts, Part::slow_bytes);
    if threads > 1 {
        announce(volume, &parts);
    }
    parallel::read_parts(parts, threads, |part| part.read(volume))
}

/// Announces the bytes from the first to the last block.
fn announce(volume: &Volume, parts: &[Part<'_>]) {
    let end_of = |block: DataBlock| block.start.saturating_add(block.size.bytes().into());
    if let (Some(first), Some(last)) = (parts.first(), parts.last()) {
        let start = first.block.start;
        let len_bytes = end_of(last.block).saturating_sub(start);
        volume.data.will_need(start, len_bytes);
    }
}

/// Announces a part of a file to the device.
pub(crate) fn will_need(volume: &Volume, inode: &Inode, offset: u64, len_bytes: u64) -> Result<()> {
    let block_bytes = u64::from(volume.superblock.block_bytes);
    let first = offset.checked_div(block_bytes).unwrap_or(0);
    let wanted = len_bytes.min(ANNOUNCED_MAX_BYTES).div_ceil(block_bytes);
    let mut range: Option<(u64, u64)> = None;
    for block in FileBlocks::new(volume, inode.reference, inode.file()?, first)?.take(index(wanted))
    {
        let block = block?;
        let end = block.start.saturating_add(block.size.bytes().into());
        range = Some((range.map_or(block.start, |(start, _)| start), end));
    }
    if let Some((start, end)) = range {
        volume.data.will_need(start, end.saturating_sub(start));
    }
    Ok(())
}
