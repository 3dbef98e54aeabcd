//! Delayed allocation: small pieces that are appended to a file are kept in memory until there are
//! enough, or until they must become durable.

use std::time::Duration;

use diskfs_vfs::Metadata;

use crate::bytes::len_u64;
use crate::delayed::{Delayed, FILE_BYTES_MAX, TOTAL_BYTES_MAX};
use crate::error::{ErrorKind, Result};
use crate::features::Incompatible;
use crate::file_blocks::Reserved;
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::writer::Core;

use super::blocks::WriteData;
use super::inline;
use super::limit::size_max;
use super::write::{self, Unwritten};
use super::{CREDITS, check_writable};

/// The maximum size of a piece that is kept in memory: a larger one goes to the device at once, as
/// a run of its own.
const PIECE_BYTES_MAX: u64 = 128 << 10;

/// The clusters reserved for the map, in addition to those for the contents.
const MAP_CLUSTERS: u64 = 1;

impl Core {
    /// Keeps data in memory, if that is allowed. The caller holds no lock. Returns false if the
    /// data must be written in the usual way.
    pub(super) fn delay(&self, number: u32, data: WriteData<'_>) -> Result<bool> {
        if data.bytes.is_empty() || len_u64(data.bytes.len()) > PIECE_BYTES_MAX {
            return Ok(false);
        }
        self.transactions.check_open()?;
        let locked = self.locks.exclusive(&[number]);
        let inode = self.volume().inode(number);
        let Some(inode) = inode.inspect_err(|e| self.found(e))? else {
            return Ok(false);
        };
        if !self.may_delay(&inode, data) {
            return Ok(false);
        }
        let mut delayed = self
            .delayed
            .take(number)
            .unwrap_or_else(|| Delayed::new(inode.size_bytes));
        let kept = self.add_delayed(&mut delayed, data);
        if kept {
            delayed.written = Some(inode.storable(self.volume().ambient.now()));
        }
        if !delayed.bytes.is_empty() {
            self.delayed.put(number, delayed);
        }
        drop(locked);
        if kept && self.delayed.bytes() > TOTAL_BYTES_MAX {
            self.write_half_back()?;
        }
        Ok(kept)
    }

    /// Returns true if the file's data may be kept in memory. For all other files the usual way of
    /// writing reports what is wrong.
    fn may_delay(&self, inode: &Inode, data: WriteData<'_>) -> bool {
        let not_these = InodeFlags::SYNC
            .union(InodeFlags::IMMUTABLE)
            .union(InodeFlags::APPEND)
            .union(InodeFlags::EA_INODE)
            .union(InodeFlags::INLINE_DATA);
        let superblock = &self.volume().superblock;
        let may_be_inline = superblock.features.has(Incompatible::INLINE_DATA)
            && data.end() <= u64::from(superblock.inode_size);
        let there = inode.links != 0 || self.holds.contains(inode.number);
        there
            && inode.number >= superblock.first_inode
            && !inode.flags.intersects(not_these)
            && !may_be_inline
            && !self.delayed.was_emptied(inode.number)
            && check_writable(inode).is_ok()
            && data.offset >= inode.size_bytes
            && data.end() <= size_max(self.volume(), inode)
    }

    /// Adds data to the kept range of a file, if it continues that range and there is room.
    fn add_delayed(&self, delayed: &mut Delayed, data: WriteData<'_>) -> bool {
        let end = delayed.end().max(data.end());
        let continues = data.offset >= delayed.start && data.offset <= delayed.end();
        if !continues || end.saturating_sub(delayed.start) > FILE_BYTES_MAX {
            return false;
        }
        let superblock = &self.volume().superblock;
        let cluster = superblock
            .block_size
            .bytes_of(1u64.wrapping_shl(superblock.cluster_ratio_bits));
        let first = delayed.start & !cluster.wrapping_sub(1);
        let needed = end.saturating_sub(first).div_ceil(cluster);
        let needed = needed.saturating_add(MAP_CLUSTERS);
        let more = needed.saturating_sub(delayed.reserved_clusters);
        if !self.allocator.reserve(more) {
            return false;
        }
        delayed.reserved_clusters = delayed.reserved_clusters.max(needed);
        delayed.write(data.offset, data.bytes);
        true
    }

    /// Writes the kept range of a file.
    ///
    /// # Errors
    /// `NoSpace` if there is no room for the map of a fragmented file; `ReadOnly`, `Corrupt`, `Io`.
    /// Data that could not be written is still kept.
    pub(crate) fn write_back(&self, number: u32) -> Result<()> {
        if !self.delayed.contains(number) {
            return Ok(());
        }
        self.update_beside_delayed(&[number], CREDITS, &mut |handle| {
            if !self.delayed.contains(number) {
                return Ok(());
            }
            let mut inode = handle.inode(number)?;
            write_back(handle, &mut inode)
        })
    }

    /// Writes the kept ranges of all files.
    pub(crate) fn write_all_back(&self) -> Result<()> {
        self.write_back_older_than(Duration::ZERO)
    }

    /// Writes the kept ranges that are older than `age`.
    pub(crate) fn write_back_older_than(&self, age: Duration) -> Result<()> {
        if self.delayed.bytes() == 0 {
            return Ok(());
        }
        let numbers = self.delayed.older_than(age).into_iter();
        let results = numbers.map(|number| self.write_back(number));
        // One failure does not prevent the others from being written.
        results.fold(Ok(()), Result::and)
    }

    fn write_half_back(&self) -> Result<()> {
        for number in self.delayed.older_than(Duration::ZERO) {
            if self.delayed.bytes() <= TOTAL_BYTES_MAX / 2 {
                break;
            }
            self.write_back(number)?;
        }
        Ok(())
    }

    /// Drops the kept range of a file that is deleted, or truncated before the range.
    pub(crate) fn forget_delayed(&self, number: u32) {
        self.delayed.forget(&self.allocator, number);
    }

    /// Drops the kept ranges of all files, when nothing can be written any more.
    pub(crate) fn forget_all_delayed(&self) {
        for number in self.delayed.older_than(Duration::ZERO) {
            self.forget_delayed(number);
        }
    }

    /// Stores the time of the last write of the kept range in the inode, before another change of
    /// it.
    pub(crate) fn store_write_time(&self, inode: &mut Inode) {
        if let Some(time) = self.delayed.take_time(inode.number) {
            inode.modified = time;
            inode.changed = inode.changed.max(time);
        }
    }

    /// Corrects the metadata for `stat` by the kept range of the file.
    pub(crate) fn amend_metadata(&self, number: u32, metadata: &mut Metadata) {
        let superblock = &self.volume().superblock;
        let cluster = superblock
            .block_size
            .bytes_of(1u64.wrapping_shl(superblock.cluster_ratio_bits));
        self.delayed.amend(number, cluster, metadata);
    }
}

/// Writes the kept range of a file as part of an operation on it, and stores the inode.
pub(super) fn write_back(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    let Some(mut delayed) = handle.delayed.take(inode.number) else {
        return Ok(());
    };
    // The map takes its blocks from the free ones.
    let for_contents = delayed.reserved_clusters.saturating_sub(MAP_CLUSTERS);
    handle
        .allocator
        .unreserve(delayed.reserved_clusters.saturating_sub(for_contents));
    let mut reserved = Reserved::new(for_contents);
    if let Some(time) = delayed.written {
        inode.modified = time;
        inode.changed = inode.changed.max(time);
    }
    let data = WriteData {
        offset: delayed.start,
        bytes: &delayed.bytes,
    };
    let written = match inline::write(handle, inode, data) {
        Ok(true) => Ok(Unwritten { bytes: 0 }),
        Ok(false) => write::write(handle, inode, data, &mut reserved),
        Err(e) => Err(e),
    };
    let result = match written {
        Ok(Unwritten { bytes: 0 }) => {
            handle.allocator.unreserve(reserved.clusters());
            return Ok(());
        }
        Ok(Unwritten { bytes }) => {
            let done = delayed.bytes.len().saturating_sub(bytes);
            delayed.bytes.drain(..done);
            delayed.start = delayed.start.saturating_add(len_u64(done));
            Err(ErrorKind::NoSpace.into())
        }
        Err(e) => Err(e),
    };
    delayed.reserved_clusters = reserved.clusters();
    handle.delayed.put(inode.number, delayed);
    result
}
