//! Writing the contents of blocks to the device.

use crate::bytes::{index, len_u64};
use crate::error::Result;
use crate::file_blocks::{BlockMapping, mapping_at};
use crate::handle::Handle;
use crate::inode::Inode;
use crate::run::Run;

/// Bytes to be written at an offset of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteData<'a> {
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

impl WriteData<'_> {
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(len_u64(self.bytes.len()))
    }

    /// Returns the part of the data before byte `end` of the file.
    pub(super) fn until(&self, end: u64) -> Self {
        let len = index(end.saturating_sub(self.offset));
        Self {
            offset: self.offset,
            bytes: self.bytes.get(..len).unwrap_or(self.bytes),
        }
    }

    /// Returns the part of the data from byte `start` of the file on.
    pub(super) fn from(&self, start: u64) -> Self {
        let skipped = index(start.saturating_sub(self.offset)).min(self.bytes.len());
        Self {
            offset: self.offset.saturating_add(len_u64(skipped)),
            bytes: self.bytes.get(skipped..).unwrap_or_default(),
        }
    }
}

/// Returns a run's first byte in the file and on the device, and the end of the run in the file.
fn bytes_of(handle: &Handle<'_>, run: &Run) -> (u64, u64, u64) {
    let size = handle.volume().superblock.block_size;
    let start = size.file_byte_of(run.file_block);
    (start, size.byte_of(run.fs_block), size.bytes_of(run.end()))
}

/// Writes data into the blocks of a run that contains it.
pub(super) fn overwrite(handle: &Handle<'_>, run: &Run, data: WriteData<'_>) -> Result<()> {
    let (start, device, _) = bytes_of(handle, run);
    let within = data.offset.saturating_sub(start);
    handle
        .device
        .write(device.saturating_add(within), data.bytes)
}

/// The maximum size of a write that is assembled in memory, so that it is one write. For larger
/// ones the edges are written separately.
const GATHERED_BYTES_MAX: u64 = 64 << 10;

/// Writes data into new blocks; the rest of the blocks becomes zero.
pub(super) fn fill(handle: &Handle<'_>, run: &Run, data: WriteData<'_>) -> Result<()> {
    let (start, device, end) = bytes_of(handle, run);
    let before = data.offset.saturating_sub(start);
    let behind = end.saturating_sub(data.end());
    if before == 0 && behind == 0 {
        return overwrite(handle, run, data);
    }
    let len = end.saturating_sub(start);
    if len <= GATHERED_BYTES_MAX {
        let mut bytes = vec![0; index(len)];
        crate::bytes::put(&mut bytes, index(before), data.bytes);
        return handle.device.write(device, &bytes);
    }
    zero_device(handle, device, before)?;
    overwrite(handle, run, data)?;
    let behind_data = device.saturating_add(len).saturating_sub(behind);
    zero_device(handle, behind_data, behind)
}

/// Writes zeroes to a range of the device.
pub(super) fn zero_device(handle: &Handle<'_>, offset: u64, len_bytes: u64) -> Result<()> {
    if len_bytes == 0 {
        return Ok(());
    }
    handle.device.zero(offset, len_bytes)
}

/// Writes zeroes to a range of a file within one block, if that block contains data.
pub(super) fn zero_part(handle: &Handle<'_>, inode: &Inode, start: u64, end: u64) -> Result<()> {
    let size = handle.volume().superblock.block_size;
    let Some(block) = size.file_block_at(start).filter(|_| start < end) else {
        return Ok(());
    };
    let until = u64::from(block.0).saturating_add(1);
    match mapping_at(handle.volume(), inode, block, until)? {
        BlockMapping::Run(run) if run.written => {
            let within = start.saturating_sub(size.file_byte_of(block));
            let device = size.byte_of(run.fs_block).saturating_add(within);
            zero_device(handle, device, end.saturating_sub(start))
        }
        _ => Ok(()),
    }
}

/// Zeroes the part of the file's last block after its end, up to byte `until`, because the file
/// grows.
pub(super) fn zero_after_end(handle: &Handle<'_>, inode: &Inode, until: u64) -> Result<()> {
    let size = handle.volume().superblock.block_size;
    let end = inode.size_bytes;
    let block_end = size.bytes_of(size.blocks_for(end));
    zero_part(handle, inode, end, block_end.min(until))
}
