//! The short form: entries in the inode, `struct xfs_dir2_sf_hdr` and `xfs_dir2_sf_entry`.
//!
//! Source: "XFS Algorithms & Data Structures", section "Short Form Directories".

use crate::bytes::{array, be32, be64, part};
use crate::superblock::Superblock;

/// The entries of a directory in its inode.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShortForm<'a> {
    bytes: &'a [u8],
    has_file_types: bool,
    /// The length of an inode number: 4, or 8 if a number needs that.
    number_bytes: usize,
    pub(super) parent: u64,
    count: usize,
}

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShortEntry<'a> {
    pub(super) name: &'a [u8],
    pub(super) file_type: u8,
    pub(super) inode: u64,
}

impl<'a> ShortForm<'a> {
    /// Parses the header; `None` if it is truncated.
    pub(super) fn parse(superblock: &Superblock, bytes: &'a [u8]) -> Option<Self> {
        let [count, with_8_bytes] = array(bytes, 0)?;
        let number_bytes = if with_8_bytes == 0 { 4 } else { 8 };
        Some(Self {
            bytes,
            has_file_types: superblock.features.has_file_types(),
            number_bytes,
            parent: number(bytes, 2, number_bytes)?,
            count: count.into(),
        })
    }

    /// Returns the entries in their order. An item is `None` if the entry is invalid; then it is
    /// the last one.
    pub(super) fn entries(self) -> impl Iterator<Item = Option<ShortEntry<'a>>> {
        let mut at = self.number_bytes.checked_add(2);
        (0..self.count).map_while(move |_| {
            let entry = at.take().map(|start| self.entry(start))?;
            at = entry.map(|(_, end)| end);
            Some(entry.map(|(entry, _)| entry))
        })
    }

    /// Returns the entry at an offset, and where the next one starts.
    fn entry(self, start: usize) -> Option<(ShortEntry<'a>, usize)> {
        /// The length of `namelen` and `offset`, before the name.
        const HEADER_BYTES: usize = 3;
        let [name_len] = array(self.bytes, start)?;
        let name_start = start.checked_add(HEADER_BYTES)?;
        let name = part(self.bytes, name_start, name_len.into())?;
        let mut after = name_start.checked_add(name.len())?;
        let mut file_type = 0;
        if self.has_file_types {
            [file_type] = array(self.bytes, after)?;
            after = after.checked_add(1)?;
        }
        let entry = ShortEntry {
            name,
            file_type,
            inode: number(self.bytes, after, self.number_bytes)?,
        };
        super::is_valid_name(name).then_some((entry, after.checked_add(self.number_bytes)?))
    }
}

fn number(bytes: &[u8], offset: usize, len: usize) -> Option<u64> {
    match len {
        4 => be32(bytes, offset).map(u64::from),
        _ => be64(bytes, offset),
    }
}
