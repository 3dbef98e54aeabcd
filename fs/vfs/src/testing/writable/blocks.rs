//! The contents of a regular file in blocks, as on a disk.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::BLOCK_BYTES;
use crate::{ErrorKind, Fallocate, FileExtent, FileExtentKind, Result};

/// The size limit of a file: block numbers have 32 bits, as in ext4.
pub(super) const MAX_BYTES: u64 = (1 << 44) - BLOCK_BYTES;

const BLOCK_LEN: usize = 4096;

/// The blocks by number; missing ones are holes.
#[derive(Debug, Clone, Default)]
pub(super) struct Blocks {
    pub(super) size_bytes: u64,
    blocks: BTreeMap<u64, Block>,
}

#[derive(Debug, Clone)]
enum Block {
    /// An allocated block that reads as zeroes.
    Unwritten,
    Written(Arc<[u8; BLOCK_LEN]>),
}

impl Block {
    fn bytes_mut(&mut self) -> &mut [u8; BLOCK_LEN] {
        if let Self::Unwritten = self {
            *self = Self::Written(Arc::new([0; BLOCK_LEN]));
        }
        match self {
            Self::Written(bytes) => Arc::make_mut(bytes),
            Self::Unwritten => unreachable!("the block was just written"),
        }
    }
}

/// Returns the blocks that overlap a range of bytes, each with the part of it in the range.
fn pieces(bytes: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let blocks = bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES);
    blocks.map(move |block| {
        let begin = block * BLOCK_BYTES;
        let within = |byte: u64| usize::try_from(byte - begin).unwrap();
        let from = within(bytes.start.max(begin));
        (block, from..within(bytes.end.min(begin + BLOCK_BYTES)))
    })
}

impl Blocks {
    /// Returns the number of allocated blocks.
    pub(super) fn allocated(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> usize {
        let left = self.size_bytes.saturating_sub(offset);
        let len = left.min(buf.len() as u64);
        let wanted = &mut buf[..usize::try_from(len).unwrap()];
        wanted.fill(0);
        let mut done = 0;
        for (block, part) in pieces(offset..offset + len) {
            let to = &mut wanted[done..done + part.len()];
            done += part.len();
            if let Some(Block::Written(bytes)) = self.blocks.get(&block) {
                to.copy_from_slice(&bytes[part]);
            }
        }
        wanted.len()
    }

    /// Writes until `room` (in blocks) is used up. Returns the number of bytes written.
    pub(super) fn write_at(&mut self, offset: u64, data: &[u8], mut room: u64) -> Result<usize> {
        if offset >= MAX_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let end = MAX_BYTES.min(offset + data.len() as u64);
        let mut done = 0;
        for (block, part) in pieces(offset..end) {
            if !self.blocks.contains_key(&block) {
                if room == 0 {
                    break;
                }
                room -= 1;
            }
            let len = part.len();
            let block = self.blocks.entry(block).or_insert(Block::Unwritten);
            block.bytes_mut()[part].copy_from_slice(&data[done..done + len]);
            done += len;
        }
        if done == 0 && !data.is_empty() {
            return Err(ErrorKind::NoSpace.into());
        }
        self.size_bytes = self.size_bytes.max(offset + done as u64);
        Ok(done)
    }

    pub(super) fn set_len(&mut self, size_bytes: u64) -> Result<()> {
        if size_bytes > MAX_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        if size_bytes < self.size_bytes {
            self.blocks.split_off(&size_bytes.div_ceil(BLOCK_BYTES));
            let tail = size_bytes..size_bytes.next_multiple_of(BLOCK_BYTES);
            self.zero_written(tail);
        }
        self.size_bytes = size_bytes;
        Ok(())
    }

    /// Performs fallocate(2), with the number of blocks that may still be allocated.
    pub(super) fn fallocate(
        &mut self,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
        room: u64,
    ) -> Result<()> {
        if len_bytes == 0 {
            return Err(ErrorKind::Invalid.into());
        }
        let end = offset.checked_add(len_bytes).filter(|&e| e <= MAX_BYTES);
        let range = offset..end.ok_or(ErrorKind::FileTooLarge)?;
        match what {
            Fallocate::Allocate | Fallocate::AllocateKeepSize => self.allocate(&range, room)?,
            Fallocate::PunchHole => self.punch(range.clone()),
            Fallocate::ZeroRange | Fallocate::ZeroRangeKeepSize => self.zero(&range, room)?,
            Fallocate::CollapseRange => return self.collapse(&range),
            Fallocate::InsertRange => return self.insert(&range),
        }
        if let Fallocate::Allocate | Fallocate::ZeroRange = what {
            self.size_bytes = self.size_bytes.max(range.end);
        }
        Ok(())
    }

    fn allocate(&mut self, range: &Range<u64>, room: u64) -> Result<()> {
        let missing = |(block, _): &(u64, _)| !self.blocks.contains_key(block);
        // A range of terabytes has too many blocks to count.
        let wanted = room.saturating_add(1).try_into().unwrap_or(usize::MAX);
        let missing: Vec<u64> = pieces(range.clone())
            .filter(missing)
            .map(|(block, _)| block)
            .take(wanted)
            .collect();
        if missing.len() as u64 > room {
            return Err(ErrorKind::NoSpace.into());
        }
        let unwritten = missing.into_iter().map(|block| (block, Block::Unwritten));
        self.blocks.extend(unwritten);
        Ok(())
    }

    fn zero(&mut self, range: &Range<u64>, room: u64) -> Result<()> {
        self.allocate(range, room)?;
        for (block, part) in pieces(range.clone()) {
            if part.len() == BLOCK_LEN {
                self.blocks.insert(block, Block::Unwritten);
            }
        }
        self.zero_written(range.clone());
        Ok(())
    }

    fn punch(&mut self, mut range: Range<u64>) {
        if range.end >= self.size_bytes {
            // The bytes after the end of the file can be changed freely.
            range.end = range.end.next_multiple_of(BLOCK_BYTES);
        }
        let first = range.start.div_ceil(BLOCK_BYTES);
        let behind = (range.end / BLOCK_BYTES).max(first);
        let mut from = self.blocks.split_off(&first);
        self.blocks.append(&mut from.split_off(&behind));
        self.zero_written(range);
    }

    /// Zeroes the written blocks of the range.
    fn zero_written(&mut self, range: Range<u64>) {
        let touched = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        for (&number, block) in self.blocks.range_mut(touched) {
            if let Block::Written(_) = block {
                let begin = number * BLOCK_BYTES;
                let from = range.start.max(begin) - begin;
                let to = range.end.min(begin + BLOCK_BYTES) - begin;
                let part = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
                block.bytes_mut()[part].fill(0);
            }
        }
    }

    fn collapse(&mut self, range: &Range<u64>) -> Result<()> {
        if !is_aligned(range) || range.end >= self.size_bytes {
            return Err(ErrorKind::Invalid.into());
        }
        let (first, behind) = (range.start / BLOCK_BYTES, range.end / BLOCK_BYTES);
        let moved = self.blocks.split_off(&behind);
        self.blocks.split_off(&first);
        let moved = moved.into_iter();
        self.blocks
            .extend(moved.map(|(number, block)| (number - (behind - first), block)));
        self.size_bytes -= range.end - range.start;
        Ok(())
    }

    fn insert(&mut self, range: &Range<u64>) -> Result<()> {
        if !is_aligned(range) || range.start >= self.size_bytes {
            return Err(ErrorKind::Invalid.into());
        }
        let len_bytes = range.end - range.start;
        if self.size_bytes + len_bytes > MAX_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let moved = self.blocks.split_off(&(range.start / BLOCK_BYTES));
        let moved = moved.into_iter();
        self.blocks
            .extend(moved.map(|(number, block)| (number + len_bytes / BLOCK_BYTES, block)));
        self.size_bytes += len_bytes;
        Ok(())
    }

    /// Returns the extents from `offset` on: written blocks, and holes between them.
    pub(super) fn extents(&self, offset: u64) -> Vec<FileExtent> {
        let mut runs: Vec<FileExtent> = Vec::new();
        let mut add = |from: u64, to: u64, kind| {
            let (from, to) = (from.max(offset), to.min(self.size_bytes));
            if from >= to {
                return;
            }
            match runs.last_mut() {
                Some(last) if last.kind == kind => last.len_bytes = to - last.offset,
                _ => runs.push(FileExtent {
                    offset: from,
                    len_bytes: to - from,
                    kind,
                }),
            }
        };
        let mut end = 0;
        for (&number, block) in &self.blocks {
            if let Block::Written(_) = block {
                let begin = number * BLOCK_BYTES;
                add(end, begin, FileExtentKind::Hole);
                end = begin + BLOCK_BYTES;
                add(begin, end, FileExtentKind::Inline);
            }
        }
        add(end, self.size_bytes, FileExtentKind::Hole);
        runs
    }
}

fn is_aligned(range: &Range<u64>) -> bool {
    range.start.is_multiple_of(BLOCK_BYTES) && range.end.is_multiple_of(BLOCK_BYTES)
}
