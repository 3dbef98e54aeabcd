//! Listing of directories, in the order of their blocks.
//!
//! A cookie is the byte of the directory after an entry, as the positions in its index are; in the
//! short form, it is the number of entries before the next one.

use std::sync::Arc;

use diskfs_vfs::{DirEntries, DirEntry, InodeNumber};

use crate::bmap::extents_from;
use crate::bytes::{index, len_u64};
use crate::error::Result;
use crate::extent::Extent;
use crate::inode::{Fork, ForkKind, Inode};
use crate::volume::Volume;

use super::block::{self, blocks_per_directory_block};
use super::data;
use super::short_form::{ShortEntry, ShortForm};
use super::{DIRECTORY, INDEX_START, file_type};

/// Returns the entries of a directory from `cookie` on.
///
/// # Errors
/// `Corrupt` for an invalid short form.
pub(crate) fn entries(volume: &Volume, inode: Arc<Inode>, cookie: u64) -> Result<DirEntries<'_>> {
    if let Fork::Local(bytes) = &inode.data {
        let listed = short_form(volume, &inode, bytes)?;
        let rest = listed.into_iter().skip(index(cookie));
        return Ok(Box::new(rest));
    }
    Ok(Box::new(Entries {
        volume,
        left_blocks: inode.blocks,
        inode,
        from: cookie,
        block: None,
        failed: false,
        ahead: Vec::new(),
    }))
}

fn short_form(volume: &Volume, inode: &Inode, bytes: &[u8]) -> Result<Vec<Result<DirEntry>>> {
    let directory = ShortForm::parse(&volume.superblock, bytes)
        .ok_or_else(|| inode.corrupt("invalid directory in an inode: truncated header"))?;
    let dots = [(&b"."[..], inode.number), (b"..", directory.parent)];
    let dots = dots.map(|(name, inode)| {
        Some(ShortEntry {
            name,
            file_type: DIRECTORY,
            inode,
        })
    });
    // Bounded by the 255 entries that its header can count.
    let numbered = (1..).zip(dots.into_iter().chain(directory.entries()));
    Ok(numbered
        .map(|(cookie, entry)| short_entry(inode, entry, cookie))
        .collect())
}

fn short_entry(inode: &Inode, entry: Option<ShortEntry<'_>>, cookie: u64) -> Result<DirEntry> {
    let entry =
        entry.ok_or_else(|| inode.corrupt("invalid directory in an inode: invalid entry"))?;
    Ok(DirEntry {
        name: entry.name.to_vec(),
        inode: InodeNumber(entry.inode),
        file_type: file_type(entry.file_type),
        cookie,
    })
}

/// The entries of a directory with blocks.
#[derive(Debug)]
struct Entries<'a> {
    volume: &'a Volume,
    inode: Arc<Inode>,
    /// The byte of the directory at or after which the next entry starts.
    from: u64,
    /// The current block.
    block: Option<Current>,
    /// True after an error.
    failed: bool,
    /// Extents that were looked up already, in reverse order.
    ahead: Vec<Extent>,
    /// The number of blocks that may still be read: no more than the directory has.
    left_blocks: u64,
}

/// A block whose entries are being returned.
#[derive(Debug)]
struct Current {
    bytes: Arc<[u8]>,
    /// The byte of the directory at which it starts.
    start: u64,
    /// The offset of the next slot.
    position: usize,
}

/// The number of extents that are looked up at once.
const AHEAD: usize = 64;

impl Entries<'_> {
    /// Returns the extent that contains or follows a file block.
    fn extent(&mut self, file_block: u64) -> Result<Option<Extent>> {
        while self
            .ahead
            .last()
            .is_some_and(|extent| extent.end() <= file_block)
        {
            self.ahead.pop();
        }
        if self.ahead.is_empty() {
            let extents = extents_from(self.volume, &self.inode, ForkKind::Data, file_block);
            for extent in extents.take(AHEAD) {
                self.ahead.push(extent?);
            }
            self.ahead.reverse();
        }
        Ok(self.ahead.last().copied())
    }

    /// Reads the block that contains or follows the position. Returns `None` at the end.
    fn load(&mut self) -> Result<Option<Current>> {
        let superblock = &self.volume.superblock;
        let bits = superblock.block_bits;
        let per_block = blocks_per_directory_block(superblock);
        let aligned = |file_block: u64| file_block & !per_block.wrapping_sub(1);
        let wanted = aligned(self.from.wrapping_shr(bits));
        let Some(extent) = self.extent(wanted)? else {
            return Ok(None);
        };
        let file_block = aligned(wanted.max(extent.file_block));
        let start = file_block.checked_shl(bits).unwrap_or(u64::MAX);
        if start >= INDEX_START {
            return Ok(None);
        }
        self.left_blocks = self.left_blocks.checked_sub(per_block).ok_or_else(|| {
            self.inode
                .corrupt("the directory has more blocks than its inode says")
        })?;
        let bytes = block::read_ahead(self.volume, &self.inode, file_block, &extent)?;
        Ok(Some(Current {
            bytes,
            start,
            position: 0,
        }))
    }

    fn step(&mut self) -> Result<Option<DirEntry>> {
        loop {
            let mut current = match self.block.take() {
                Some(current) => current,
                None => match self.load()? {
                    Some(current) => current,
                    None => return Ok(None),
                },
            };
            let superblock = &self.volume.superblock;
            let from = index(self.from.saturating_sub(current.start));
            let found = data::next_entry(superblock, &current.bytes, &mut current.position, from);
            let Some(entry) = found else {
                let size = u64::from(superblock.directory_block_bytes);
                self.from = current.start.saturating_add(size);
                continue;
            };
            self.from = current.start.saturating_add(len_u64(entry.end));
            let entry = DirEntry {
                name: entry.name.to_vec(),
                inode: InodeNumber(entry.inode),
                file_type: file_type(entry.file_type),
                cookie: self.from,
            };
            self.block = Some(current);
            return Ok(Some(entry));
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let entry = self.step().transpose()?;
        self.failed = entry.is_err();
        Some(entry.map_err(|e| e.in_inode(InodeNumber(self.inode.number))))
    }
}
