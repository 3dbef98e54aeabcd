//! Entries of directories and extended attributes (`struct btrfs_dir_item`).

use diskfs_vfs::FileType;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::{index, part};
use crate::cursor::Item;
use crate::error::Result;
use crate::key::{KEY_BYTES, Key, item};

/// The longest name of a file (`BTRFS_NAME_LEN`).
pub(crate) const NAME_MAX: usize = 255;

#[derive(Debug, Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDirItem {
    location: [u8; KEY_BYTES],
    transid: U64,
    data_len: U16,
    name_len: U16,
    r#type: u8,
}

const _: () = assert!(size_of::<RawDirItem>() == 30);

/// The target of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Inode(u64),
    Subvolume(u64),
}

/// A record of a directory or an attribute. An item has several if their names have the same hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirRecord<'a> {
    pub(crate) location: Key,
    pub(crate) name: &'a [u8],
    /// The value of an attribute.
    pub(crate) value: &'a [u8],
    type_number: u8,
}

impl DirRecord<'_> {
    /// Returns what an entry of a directory leads to.
    pub(crate) fn target(&self, item: &Item) -> Result<Target> {
        match self.location.item_type {
            item::INODE_ITEM => Ok(Target::Inode(self.location.object_id)),
            item::ROOT_ITEM => Ok(Target::Subvolume(self.location.object_id)),
            other => Err(item.invalid(&format!("an entry leads to an item of type {other}"))),
        }
    }

    /// Returns the type of the file; `None` if it is unknown.
    pub(crate) const fn file_type(&self) -> Option<FileType> {
        match self.type_number {
            1 => Some(FileType::Regular),
            2 => Some(FileType::Directory),
            3 => Some(FileType::CharacterDevice),
            4 => Some(FileType::BlockDevice),
            5 => Some(FileType::Fifo),
            6 => Some(FileType::Socket),
            7 => Some(FileType::Symlink),
            _ => None,
        }
    }

    /// Returns true if the name can be that of a file.
    pub(crate) fn has_valid_name(&self) -> bool {
        let is_special = self.name.is_empty() || self.name == b"." || self.name == b"..";
        let has_special = self.name.iter().any(|byte| matches!(byte, 0 | b'/'));
        !is_special && !has_special && self.name.len() <= NAME_MAX
    }
}

/// An iterator over the records of an item. It ends after the first error.
#[derive(Debug)]
pub(crate) struct DirRecords<'a> {
    item: &'a Item,
    rest: &'a [u8],
}

impl<'a> DirRecords<'a> {
    pub(crate) fn of(item: &'a Item) -> Self {
        Self {
            item,
            rest: item.bytes(),
        }
    }

    fn record(&mut self) -> Option<DirRecord<'a>> {
        let (raw, names) = RawDirItem::ref_from_prefix(self.rest).ok()?;
        let (name_len, value_len) = (index(raw.name_len.get()), index(raw.data_len.get()));
        let record = DirRecord {
            location: Key::parse(&raw.location, 0)?,
            name: part(names, 0, name_len)?,
            value: part(names, name_len, value_len)?,
            type_number: raw.r#type,
        };
        self.rest = names.get(name_len.checked_add(value_len)?..)?;
        Some(record)
    }
}

impl<'a> Iterator for DirRecords<'a> {
    type Item = Result<DirRecord<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.record().ok_or_else(|| {
            self.rest = &[];
            self.item.invalid("a name or a value does not fit into it")
        });
        Some(record)
    }
}
