//! Directories: iteration and lookup.

use std::cmp::Ordering;

use diskfs_block::bytes::index;
use diskfs_vfs::{DirEntry, FileType, InodeNumber};

use crate::directory_block::{DirectoryBlock, ENTRY_BYTES, blocks, cookie_after};
use crate::error::{Error, ErrorKind, Result};
use crate::inode::Inode;
use crate::volume::Volume;

/// The cookie after `.`, if it is not stored. That of another entry is the byte at which the next
/// one begins.
const AFTER_SELF: u64 = 1;

/// An iterator over the entries of a directory. It ends after the first error.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    volume: &'a Volume,
    inode: Inode,
    /// The number of the next block.
    number: u64,
    block: Option<DirectoryBlock>,
    /// The number of the next entry of the block.
    nth: usize,
    needs_dot: bool,
    has_failed: bool,
}

impl<'a> Entries<'a> {
    /// Returns the entries of the directory `inode` from a cookie on.
    pub(crate) fn new(volume: &'a Volume, inode: Inode, cookie: u64) -> Result<Self> {
        inode.check_directory()?;
        let position = if cookie == AFTER_SELF { 0 } else { cookie };
        let in_block = index(volume.offset_in_block(position));
        Ok(Self {
            volume,
            number: position.wrapping_shr(volume.superblock.block_bits),
            block: None,
            nth: in_block.div_ceil(ENTRY_BYTES),
            needs_dot: inode.has_no_dot && cookie == 0,
            has_failed: false,
            inode,
        })
    }

    fn entry(&mut self) -> Result<Option<DirEntry>> {
        if self.needs_dot {
            self.needs_dot = false;
            return Ok(Some(DirEntry {
                name: b".".to_vec(),
                inode: self.inode.number,
                file_type: Some(FileType::Directory),
                cookie: AFTER_SELF,
            }));
        }
        while self.number < blocks(self.volume, &self.inode) {
            let block = match self.block.take() {
                Some(block) => block,
                None => DirectoryBlock::read(self.volume, &self.inode, self.number)?,
            };
            if self.nth < block.count() {
                let entry = block.entry(self.nth)?;
                let cookie = cookie_after(self.volume, self.number, self.nth, block.count());
                let entry = DirEntry {
                    name: entry.name.to_vec(),
                    inode: self.volume.superblock.number_of(entry.nid),
                    file_type: entry.file_type,
                    cookie,
                };
                self.nth = self.nth.saturating_add(1);
                self.block = Some(block);
                return Ok(Some(entry));
            }
            self.number = self.number.saturating_add(1);
            self.nth = 0;
        }
        Ok(None)
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let entry = self.entry();
        self.has_failed = entry.is_err();
        let number = self.inode.number;
        entry.map_err(|error| error.in_inode(number)).transpose()
    }
}

/// Looks up a name in a directory, by binary search of the blocks and in the block.
///
/// # Errors
/// `NotADirectory`, `NotFound`.
pub(crate) fn lookup(volume: &Volume, inode: &Inode, name: &[u8]) -> Result<InodeNumber> {
    inode.check_directory()?;
    if inode.has_no_dot && name == b"." {
        return Ok(inode.number);
    }
    let (mut low, mut high) = (0, blocks(volume, inode));
    let mut candidate = None;
    while low < high {
        let middle = low.saturating_add(high.saturating_sub(low).wrapping_div(2));
        let block = DirectoryBlock::read(volume, inode, middle)?;
        if block.entry(0)?.name <= name {
            low = middle.saturating_add(1);
            candidate = Some(block);
        } else {
            high = middle;
        }
    }
    let found = match candidate {
        Some(block) => lookup_in(&block, name)?,
        None => None,
    };
    let number = found.map(|nid| volume.superblock.number_of(nid));
    number.ok_or_else(|| Error::from(ErrorKind::NotFound))
}

fn lookup_in(block: &DirectoryBlock, name: &[u8]) -> Result<Option<u64>> {
    let (mut low, mut high) = (0, block.count());
    while low < high {
        let middle = low.saturating_add(high.saturating_sub(low).wrapping_div(2));
        let entry = block.entry(middle)?;
        match entry.name.cmp(name) {
            Ordering::Equal => return Ok(Some(entry.nid)),
            Ordering::Less => low = middle.saturating_add(1),
            Ordering::Greater => high = middle,
        }
    }
    Ok(None)
}
