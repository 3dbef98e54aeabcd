//! Contents of blocks on the device.

use crate::bytes::{index, len_u64};
use crate::error::Result;
use crate::file_blocks::{Place, place_at};
use crate::handle::Handle;
use crate::inode::Inode;
use crate::run::Run;

/// Bytes to be written at a place in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data<'a> {
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

impl Data<'_> {
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(len_u64(self.bytes.len()))
    }

    /// What of it lies before byte `end` of the file.
    pub(super) fn until(&self, end: u64) -> Self {
        let len = index(end.saturating_sub(self.offset));
        Self {
            offset: self.offset,
            bytes: self.bytes.get(..len).unwrap_or(self.bytes),
        }
    }

    /// What of it lies at byte `start` of the file or behind.
    pub(super) fn from(&self, start: u64) -> Self {
        let skipped = index(start.saturating_sub(self.offset)).min(self.bytes.len());
        Self {
            offset: self.offset.saturating_add(len_u64(skipped)),
            bytes: self.bytes.get(skipped..).unwrap_or_default(),
        }
    }
}

/// A run's first byte in the file and on the device, and the byte in the file behind its last.
fn bytes_of(handle: &Handle<'_>, run: &Run) -> (u64, u64, u64) {
    let size = handle.volume().superblock.block_size;
    let start = size.file_byte_of(run.file_block);
    (start, size.byte_of(run.fs_block), size.bytes_of(run.end()))
}

/// Writes data into the blocks of a run, within which it lies.
pub(super) fn overwrite(handle: &Handle<'_>, run: &Run, data: Data<'_>) -> Result<()> {
    let (start, device, _) = bytes_of(handle, run);
    let within = data.offset.saturating_sub(start);
    handle
        .device
        .write(device.saturating_add(within), data.bytes)
}

/// The longest write that is put together in memory, so that it is one: else the edges are written
/// by themselves.
const GATHERED_BYTES_MAX: u64 = 64 << 10;

/// Writes data into new blocks: what of them is no data becomes zero.
pub(super) fn fill(handle: &Handle<'_>, run: &Run, data: Data<'_>) -> Result<()> {
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

/// Makes bytes of the device zero.
pub(super) fn zero_device(handle: &Handle<'_>, offset: u64, len_bytes: u64) -> Result<()> {
    if len_bytes == 0 {
        return Ok(());
    }
    handle.device.zero(offset, len_bytes)
}

/// Makes bytes of a file zero that lie within one block, where that holds data.
pub(super) fn zero_part(handle: &Handle<'_>, inode: &Inode, start: u64, end: u64) -> Result<()> {
    let size = handle.volume().superblock.block_size;
    let Some(block) = size.file_block_at(start).filter(|_| start < end) else {
        return Ok(());
    };
    let until = u64::from(block.0).saturating_add(1);
    match place_at(handle.volume(), inode, block, until)? {
        Place::Run(run) if run.written => {
            let within = start.saturating_sub(size.file_byte_of(block));
            let device = size.byte_of(run.fs_block).saturating_add(within);
            zero_device(handle, device, end.saturating_sub(start))
        }
        _ => Ok(()),
    }
}

/// Makes what the file's last block has behind its end zero, as far as byte `until`: the file
/// becomes longer.
pub(super) fn zero_behind_end(handle: &Handle<'_>, inode: &Inode, until: u64) -> Result<()> {
    let size = handle.volume().superblock.block_size;
    let end = inode.size_bytes;
    let block_end = size.bytes_of(size.blocks_for(end));
    zero_part(handle, inode, end, block_end.min(until))
}
