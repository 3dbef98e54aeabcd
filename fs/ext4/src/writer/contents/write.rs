//! Writing data to files.

use crate::bytes::len_u64;
use crate::error::{Error, ErrorKind, Result};
use crate::file_blocks::{
    self, BlockMapping, Hole, Reserved, map_new, mapping_at, mark_written, too_large,
};
use crate::handle::Handle;
use crate::inode::Inode;
use crate::run::Run;
use crate::writer::Core;
use crate::writer::namespace::not_append_only;

use super::blocks::{self, WriteData};
use super::delay::write_back;
use super::inline;
use super::limit::{self, size_max};
use super::{CREDITS, writable};

impl Core {
    /// Writes `data` at byte `offset` of a file. Returns how many bytes were written.
    pub(crate) fn write(&self, number: u32, offset: u64, data: &[u8]) -> Result<usize> {
        let mut left = WriteData {
            offset,
            bytes: data,
        };
        loop {
            let done = match self.write_some(number, left) {
                Ok(done) => done,
                Err(e) if left.bytes.len() < data.len() && ends_at_limit(&e) => break,
                Err(e) => return Err(e),
            };
            left = left.from(left.offset.saturating_add(len_u64(done)));
            if left.bytes.is_empty() {
                break;
            }
            // The reason for the short write may disappear: blocks that wait for a commit are
            // available after it.
        }
        Ok(data.len().saturating_sub(left.bytes.len()))
    }

    /// Writes at least the beginning of the data.
    fn write_some(&self, number: u32, data: WriteData<'_>) -> Result<usize> {
        if self.delay(number, data)? {
            return Ok(data.bytes.len());
        }
        self.update(&[number], CREDITS, |handle| {
            let mut inode = writable(handle, number)?;
            write_back(handle, &mut inode)?;
            if data.offset != inode.size_bytes {
                not_append_only(&inode)?;
            }
            if data.bytes.is_empty() {
                return Ok(0);
            }
            let time = handle.now();
            (inode.modified, inode.changed) = (time, time);
            if inline::write(handle, &mut inode, data)? {
                return Ok(data.bytes.len());
            }
            let data = data.until(size_max(handle.volume(), &inode));
            if data.bytes.is_empty() {
                return Err(too_large());
            }
            let left = write(handle, &mut inode, data, &mut Reserved::new(0))?;
            Ok(data.bytes.len().saturating_sub(left.bytes))
        })
    }
}

/// Returns true if a write with this error ends as a short write, instead of failing.
fn ends_at_limit(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::NoSpace | ErrorKind::FileTooLarge)
}

/// The data that was not written because there is no space.
pub(super) struct Unwritten {
    pub(super) bytes: usize,
}

/// Writes data, and stores the inode. Fails with `NoSpace` only if nothing was written.
pub(super) fn write(
    handle: &Handle<'_>,
    inode: &mut Inode,
    data: WriteData<'_>,
    reserved: &mut Reserved,
) -> Result<Unwritten> {
    if data.offset > inode.size_bytes {
        blocks::zero_after_end(handle, inode, data.offset)?;
    }
    let mut left = data;
    let mut map_changed = false;
    while !left.bytes.is_empty() {
        if map_changed {
            store(handle, inode, true)?;
            handle.extend_or_restart(CREDITS)?;
        }
        let step = match write_step(handle, inode, left, reserved) {
            Ok(step) => step,
            Err(e) if e.kind() == ErrorKind::NoSpace && left.bytes.len() < data.bytes.len() => {
                break;
            }
            Err(e) => return Err(e),
        };
        map_changed |= step.map_changed;
        if step.end > inode.size_bytes {
            map_changed = true;
            limit::set_size(handle, inode, step.end)?;
        }
        left = left.from(step.end);
    }
    store(handle, inode, map_changed)?;
    Ok(Unwritten {
        bytes: left.bytes.len(),
    })
}

/// Stores the inode: with its map, or only with its times.
fn store(handle: &Handle<'_>, inode: &Inode, map_changed: bool) -> Result<()> {
    if map_changed {
        handle.store(inode)
    } else {
        handle.store_attributes(inode)
    }
}

/// The result of one step.
struct WriteStep {
    /// The end of the written data in the file.
    end: u64,
    map_changed: bool,
}

/// Writes the beginning of `data`: the part that goes into one run.
fn write_step(
    handle: &Handle<'_>,
    inode: &mut Inode,
    data: WriteData<'_>,
    reserved: &mut Reserved,
) -> Result<WriteStep> {
    let size = handle.volume().superblock.block_size;
    let at = size.file_block_at(data.offset).ok_or_else(too_large)?;
    let until = size.blocks_for(data.end());
    match mapping_at(handle.volume(), inode, at, until)? {
        BlockMapping::Run(run) if run.written => {
            let part = data.until(size.bytes_of(run.end()));
            blocks::overwrite(handle, &run, part)?;
            Ok(WriteStep {
                end: part.end(),
                map_changed: false,
            })
        }
        BlockMapping::Run(run) => {
            let run = run.ending_at(until).unwrap_or(run);
            let part = data.until(size.bytes_of(run.end()));
            write_unwritten(handle, inode, &run, part)?;
            Ok(WriteStep {
                end: part.end(),
                map_changed: true,
            })
        }
        BlockMapping::Hole(hole) => {
            let run = write_hole(handle, inode, &hole, data, reserved)?;
            Ok(WriteStep {
                end: data.until(size.bytes_of(run.end())).end(),
                map_changed: true,
            })
        }
    }
}

/// Writes data into unwritten blocks, which were preallocated.
fn write_unwritten(
    handle: &Handle<'_>,
    inode: &mut Inode,
    run: &Run,
    data: WriteData<'_>,
) -> Result<()> {
    blocks::fill(handle, run, data)?;
    let range = u64::from(run.file_block.0)..run.end();
    match mark_written(handle, inode, range) {
        Err(e) if e.kind() == ErrorKind::NoSpace => write_all_zeroes(handle, inode, run),
        other => other,
    }
}

/// Writes a whole unwritten extent, with zeroes around the data: there is no space for a map that
/// could distinguish its written part. Blocks after the file's end must not become written.
fn write_all_zeroes(handle: &Handle<'_>, inode: &mut Inode, written: &Run) -> Result<()> {
    let size = handle.volume().superblock.block_size;
    let whole = file_blocks::extent_at(handle.volume(), inode, written.file_block)?;
    let end = size.blocks_for(inode.size_bytes).max(written.end());
    let Some(part) = whole.and_then(|whole| whole.ending_at(end)) else {
        return Ok(());
    };
    let device = size.byte_of(part.fs_block);
    let device_end = size.byte_of(part.fs_block.after(u64::from(part.len_blocks)));
    let data = size.byte_of(written.fs_block);
    let data_end = size.byte_of(written.fs_block.after(u64::from(written.len_blocks)));
    blocks::zero_device(handle, device, data.saturating_sub(device))?;
    blocks::zero_device(handle, data_end, device_end.saturating_sub(data_end))?;
    mark_written(handle, inode, u64::from(part.file_block.0)..part.end())
}

/// Allocates blocks for the beginning of a hole, and writes data into them.
fn write_hole(
    handle: &Handle<'_>,
    inode: &mut Inode,
    hole: &Hole,
    data: WriteData<'_>,
    reserved: &mut Reserved,
) -> Result<Run> {
    let size = handle.volume().superblock.block_size;
    let new = file_blocks::allocate(handle, inode, hole, reserved)?;
    let run = new.run();
    let part = data.until(size.bytes_of(run.end()));
    let mapped = blocks::fill(handle, &run, part).and_then(|()| map_new(handle, inode, run));
    match mapped {
        Ok(()) => Ok(run),
        Err(e) if e.kind() == ErrorKind::NoSpace => {
            new.undo(handle, inode)?;
            Err(e)
        }
        Err(e) => Err(e),
    }
}
