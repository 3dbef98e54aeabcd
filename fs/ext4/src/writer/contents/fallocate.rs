//! Allocating, freeing, zeroing, collapsing and inserting ranges: fallocate(2).

use std::ops::Range;

use diskfs_vfs::Fallocate;

use crate::block::FileBlock;
use crate::error::{Error, ErrorKind, InInode, Result};
use crate::file_blocks::{self, BlockMapping, Reserved};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::run::Run;
use crate::volume::Volume;
use crate::writer::Core;
use crate::writer::namespace::not_append_only;

use super::blocks::zero_part;
use super::delay::write_back;
use super::inline;
use super::limit::{check_size, set_size};
use super::set_len::grow;
use super::{CREDITS, writable};

impl Core {
    /// Allocates, frees, zeroes or moves a range of a file, in bytes.
    pub(crate) fn fallocate(
        &self,
        number: u32,
        offset: u64,
        len_bytes: u64,
        what: Fallocate,
    ) -> Result<()> {
        self.update(&[number], CREDITS, |handle| {
            let mut inode = writable(handle, number)?;
            write_back(handle, &mut inode)?;
            inline::move_to_block(handle, &mut inode)?;
            let change = RangeChange::new(handle, inode, offset, len_bytes).in_inode(number)?;
            change.check(what).in_inode(number)?;
            match what {
                Fallocate::Allocate => change.allocate(Size::Grows),
                Fallocate::AllocateKeepSize => change.allocate(Size::Stays),
                Fallocate::PunchHole => change.punch(),
                Fallocate::ZeroRange => change.zero(Size::Grows),
                Fallocate::ZeroRangeKeepSize => change.zero(Size::Stays),
                Fallocate::CollapseRange => change.collapse(),
                Fallocate::InsertRange => change.insert(),
            }
        })
    }
}

/// The effect on the file's size of a range that ends after the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Stays,
    Grows,
}

/// A range of a file that is being changed.
struct RangeChange<'h, 'c> {
    handle: &'h Handle<'c>,
    inode: Inode,
    /// The start in bytes.
    start: u64,
    end: u64,
}

impl<'h, 'c> RangeChange<'h, 'c> {
    fn new(handle: &'h Handle<'c>, inode: Inode, start: u64, len_bytes: u64) -> Result<Self> {
        if len_bytes == 0 {
            return Err(Error::new(ErrorKind::Invalid, "the range is empty"));
        }
        let end = start.checked_add(len_bytes);
        let end = end.ok_or_else(file_blocks::too_large)?;
        check_size(handle.volume(), &inode, end)?;
        Ok(Self {
            handle,
            inode,
            start,
            end,
        })
    }

    fn volume(&self) -> &'c Volume {
        self.handle.volume()
    }

    fn check(&self, what: Fallocate) -> Result<()> {
        if !matches!(what, Fallocate::Allocate | Fallocate::AllocateKeepSize) {
            not_append_only(&self.inode)?;
        }
        if !self.inode.has(InodeFlags::EXTENTS) && what != Fallocate::PunchHole {
            let reason = "a file with a block map supports only punching holes";
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        match what {
            Fallocate::CollapseRange if self.end >= self.inode.size_bytes => {
                let reason = "the range reaches the end of the file; truncate the file instead";
                Err(Error::new(ErrorKind::Invalid, reason))
            }
            Fallocate::InsertRange if self.start >= self.inode.size_bytes => {
                let reason = "the range begins past the end of the file; extend the file instead";
                Err(Error::new(ErrorKind::Invalid, reason))
            }
            Fallocate::CollapseRange | Fallocate::InsertRange => self.check_aligned(),
            _ => Ok(()),
        }
    }

    /// Fails if the range is not aligned to whole clusters, in which blocks are moved.
    fn check_aligned(&self) -> Result<()> {
        let superblock = &self.volume().superblock;
        let unit = superblock
            .block_size
            .bytes_of(1u64.wrapping_shl(superblock.cluster_ratio_bits));
        if (self.start | self.end) & unit.wrapping_sub(1) == 0 {
            return Ok(());
        }
        let reason = format!("the range must begin and end at a multiple of {unit} bytes");
        Err(Error::new(ErrorKind::Invalid, reason))
    }

    /// Returns the blocks that the range touches.
    fn touched(&self) -> Range<u64> {
        let size = self.volume().superblock.block_size;
        self.start.wrapping_shr(size.bits())..size.blocks_for(self.end)
    }

    /// Returns the blocks that are completely within the range.
    fn whole_blocks(&self) -> Range<u64> {
        let size = self.volume().superblock.block_size;
        size.blocks_for(self.start)..self.end.wrapping_shr(size.bits())
    }

    /// Zeroes the parts of blocks at the edges of the range.
    fn zero_edges(&self) -> Result<()> {
        let size = self.volume().superblock.block_size;
        let whole = self.whole_blocks();
        if whole.start > whole.end {
            return zero_part(self.handle, &self.inode, self.start, self.end);
        }
        let (first, last) = (size.bytes_of(whole.start), size.bytes_of(whole.end));
        zero_part(self.handle, &self.inode, self.start, first)?;
        zero_part(self.handle, &self.inode, last, self.end)
    }

    /// Stores the inode, with the present as its times of modification and change.
    fn finish(&mut self) -> Result<()> {
        let time = self.handle.now();
        (self.inode.modified, self.inode.changed) = (time, time);
        self.handle.store(&self.inode)
    }

    fn next_step(&self) -> Result<()> {
        self.handle.store(&self.inode)?;
        self.handle.extend_or_restart(CREDITS)
    }

    fn grow_to_end(&mut self, size: Size) -> Result<()> {
        if size == Size::Grows && self.end > self.inode.size_bytes {
            return grow(self.handle, &mut self.inode, self.end);
        }
        Ok(())
    }

    fn allocate(mut self, size: Size) -> Result<()> {
        let result = self.fill_holes();
        if result.is_ok() {
            self.grow_to_end(size)?;
        }
        // Blocks that could be allocated are kept.
        self.finish()?;
        result
    }

    /// Allocates the holes of the range as unwritten blocks.
    fn fill_holes(&mut self) -> Result<()> {
        let range = self.touched();
        let mut at = range.start;
        while let Some(block) = u32::try_from(at).ok().filter(|_| at < range.end) {
            let place =
                file_blocks::mapping_at(self.volume(), &self.inode, FileBlock(block), range.end)?;
            at = match place {
                BlockMapping::Run(run) => run.end(),
                BlockMapping::Hole(hole) => {
                    let end = self.fill_hole(&hole)?;
                    if end < range.end {
                        self.next_step()?;
                    }
                    end
                }
            };
        }
        Ok(())
    }

    fn fill_hole(&mut self, hole: &file_blocks::Hole) -> Result<u64> {
        let new = file_blocks::allocate(self.handle, &mut self.inode, hole, &mut Reserved::new(0))?;
        let run = Run {
            written: false,
            ..new.run()
        };
        match file_blocks::map_new(self.handle, &mut self.inode, run) {
            Ok(()) => Ok(run.end()),
            Err(e) if e.kind() == ErrorKind::NoSpace => {
                new.undo(self.handle, &mut self.inode)?;
                Err(e)
            }
            Err(e) => Err(e),
        }
    }

    fn punch(mut self) -> Result<()> {
        let size = self.volume().superblock.block_size;
        if self.start >= self.inode.size_bytes {
            return self.finish();
        }
        // The rest of the last block after the file's end is freed with it.
        let end_of_blocks = size.bytes_of(size.blocks_for(self.inode.size_bytes));
        if self.end > self.inode.size_bytes {
            self.end = end_of_blocks;
        }
        self.zero_edges()?;
        let whole = self.whole_blocks();
        let removed = if whole.start < whole.end {
            file_blocks::remove(self.handle, &mut self.inode, whole)
        } else {
            Ok(())
        };
        self.finish()?;
        removed
    }

    fn zero(mut self, size: Size) -> Result<()> {
        self.zero_edges()?;
        let whole = self.whole_blocks();
        let mut result = Ok(());
        if whole.start < whole.end {
            result = file_blocks::mark_unwritten(self.handle, &mut self.inode, whole);
            self.next_step()?;
        }
        if result.is_ok() {
            result = self.fill_holes();
        }
        if result.is_ok() {
            self.grow_to_end(size)?;
        }
        self.finish()?;
        result
    }

    fn collapse(mut self) -> Result<()> {
        let range = self.touched();
        let by = len_of(&range);
        file_blocks::remove(self.handle, &mut self.inode, range.clone())?;
        self.next_step()?;
        if let Ok(from) = u32::try_from(range.end) {
            file_blocks::shift_down(self.handle, &mut self.inode, FileBlock(from), by)?;
        }
        self.inode.size_bytes = self
            .inode
            .size_bytes
            .saturating_sub(self.end.saturating_sub(self.start));
        self.finish()
    }

    fn insert(mut self) -> Result<()> {
        let range = self.touched();
        let len_bytes = self.end.saturating_sub(self.start);
        let size_bytes = self.inode.size_bytes.saturating_add(len_bytes);
        check_size(self.volume(), &self.inode, size_bytes)?;
        let Ok(from) = u32::try_from(range.start) else {
            return Err(file_blocks::too_large());
        };
        let by = len_of(&range);
        file_blocks::check_shift_up(self.volume(), &self.inode, by)?;
        file_blocks::split_at(self.handle, &mut self.inode, FileBlock(from))?;
        // Blocks after the old end are mapped only when the size covers them.
        set_size(self.handle, &mut self.inode, size_bytes)?;
        file_blocks::shift_up(self.handle, &mut self.inode, FileBlock(from), by)?;
        self.finish()
    }
}

fn len_of(range: &Range<u64>) -> u32 {
    u32::try_from(range.end.saturating_sub(range.start)).unwrap_or(u32::MAX)
}
