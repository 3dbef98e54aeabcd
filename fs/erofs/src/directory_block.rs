//! Blocks of directories: `struct erofs_dirent`, sorted by name, and the names after them.

use diskfs_block::bytes::{array, index, le16, len_u64};
use diskfs_vfs::FileType;

use crate::contents;
use crate::error::{Result, corrupt};
use crate::inode::Inode;
use crate::volume::Volume;

/// The size of an entry, without its name.
pub(crate) const ENTRY_BYTES: usize = 12;

/// The maximum length of a name.
pub(crate) const NAME_MAX_BYTES: usize = 255;

/// A block of a directory.
#[derive(Debug)]
pub(crate) struct DirectoryBlock {
    bytes: Vec<u8>,
    count: usize,
    /// The place of the inode, for errors.
    place: u64,
}

/// An entry of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockEntry<'a> {
    pub(crate) name: &'a [u8],
    /// The address of the inode.
    pub(crate) nid: u64,
    /// `None` if the entry does not say it.
    pub(crate) file_type: Option<FileType>,
}

impl DirectoryBlock {
    /// Reads the block with a number.
    pub(crate) fn read(volume: &Volume, inode: &Inode, number: u64) -> Result<Self> {
        let block_bytes = volume.superblock.block_bytes();
        let start = number.saturating_mul(block_bytes);
        let len = block_bytes.min(inode.size_bytes.saturating_sub(start));
        let mut bytes = vec![0; index(len)];
        contents::read(volume, inode, start, &mut bytes)?;
        let place = inode.body().at;
        let names = usize::from(le16(&bytes, 8).unwrap_or_default());
        if names < ENTRY_BYTES || names >= bytes.len() || !names.is_multiple_of(ENTRY_BYTES) {
            let reason = format!("invalid directory block {number}: names at byte {names}");
            return Err(corrupt(reason, place));
        }
        Ok(Self {
            count: names.wrapping_div(ENTRY_BYTES),
            bytes,
            place,
        })
    }

    /// Returns the number of entries.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns an entry.
    ///
    /// # Errors
    /// `Corrupt` if its name is invalid.
    pub(crate) fn entry(&self, nth: usize) -> Result<BlockEntry<'_>> {
        let entry = self.parse(nth).filter(|entry| is_name(entry.name));
        entry.ok_or_else(|| {
            let reason = format!("invalid directory entry {nth} of a block");
            corrupt(reason, self.place)
        })
    }

    fn parse(&self, nth: usize) -> Option<BlockEntry<'_>> {
        let at = nth.checked_mul(ENTRY_BYTES)?;
        let next = at.checked_add(ENTRY_BYTES)?;
        let start = usize::from(le16(&self.bytes, at.checked_add(8)?)?);
        let name = if nth.checked_add(1)? < self.count {
            let end = usize::from(le16(&self.bytes, next.checked_add(8)?)?);
            self.bytes.get(start..end)?
        } else {
            let rest = self.bytes.get(start..)?;
            let end = rest.iter().position(|byte| *byte == 0);
            rest.get(..end.unwrap_or(rest.len()))?
        };
        let nid = array(&self.bytes, at).map(u64::from_le_bytes)?;
        let file_type = *self.bytes.get(at.checked_add(10)?)?;
        Some(BlockEntry {
            name,
            nid,
            file_type: type_of(file_type)?,
        })
    }
}

/// Returns the number of blocks of a directory.
pub(crate) fn blocks(volume: &Volume, inode: &Inode) -> u64 {
    inode.size_bytes.div_ceil(volume.superblock.block_bytes())
}

/// Returns the cookie after an entry: the byte at which the next one begins.
pub(crate) fn cookie_after(volume: &Volume, number: u64, nth: usize, count: usize) -> u64 {
    let block_bytes = volume.superblock.block_bytes();
    let next = nth.saturating_add(1);
    if next >= count {
        return number.saturating_add(1).saturating_mul(block_bytes);
    }
    let start = number.saturating_mul(block_bytes);
    start.saturating_add(len_u64(next.saturating_mul(ENTRY_BYTES)))
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX_BYTES
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Returns the type of an entry, if it is known; `None` for an invalid one.
#[expect(clippy::option_option, reason = "an entry may leave its type open")]
fn type_of(number: u8) -> Option<Option<FileType>> {
    Some(Some(match number {
        0 => return Some(None),
        1 => FileType::Regular,
        2 => FileType::Directory,
        3 => FileType::CharacterDevice,
        4 => FileType::BlockDevice,
        5 => FileType::Fifo,
        6 => FileType::Socket,
        7 => FileType::Symlink,
        _ => return None,
    }))
}
