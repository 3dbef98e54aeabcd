//! The fields of an inode item that a replay changes (`struct btrfs_inode_item`).

use diskfs_block::bytes::put;
use diskfs_vfs::FileType;

use crate::bytes::{array, le32, le64};

/// The length of an inode item.
const INODE_BYTES: usize = 160;

const GENERATION_AT: usize = 0;
const SIZE_AT: usize = 16;
const NBYTES_AT: usize = 24;
const NLINK_AT: usize = 40;
const MODE_AT: usize = 52;

/// An inode item whose type is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inode {
    bytes: [u8; INODE_BYTES],
    pub(super) file_type: FileType,
}

impl Inode {
    /// Parses an item; `None` if it is too short or has an unknown type.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; INODE_BYTES] = array(bytes, 0)?;
        Some(Self {
            file_type: FileType::from_mode(le32(&bytes, MODE_AT)?)?,
            bytes,
        })
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes.to_vec()
    }

    pub(super) fn is_dir(&self) -> bool {
        self.file_type == FileType::Directory
    }

    pub(super) fn is_regular(&self) -> bool {
        self.file_type == FileType::Regular
    }

    pub(super) fn generation(&self) -> u64 {
        self.number(GENERATION_AT)
    }

    pub(super) fn set_generation(&mut self, generation: u64) {
        put(&mut self.bytes, GENERATION_AT, &generation.to_le_bytes());
    }

    pub(super) fn size(&self) -> u64 {
        self.number(SIZE_AT)
    }

    pub(super) fn set_size(&mut self, size: u64) {
        put(&mut self.bytes, SIZE_AT, &size.to_le_bytes());
    }

    /// Returns the number of allocated bytes.
    pub(super) fn nbytes(&self) -> u64 {
        self.number(NBYTES_AT)
    }

    pub(super) fn set_nbytes(&mut self, nbytes: u64) {
        put(&mut self.bytes, NBYTES_AT, &nbytes.to_le_bytes());
    }

    pub(super) fn links(&self) -> u32 {
        le32(&self.bytes, NLINK_AT).unwrap_or(0)
    }

    pub(super) fn set_links(&mut self, links: u32) {
        put(&mut self.bytes, NLINK_AT, &links.to_le_bytes());
    }

    /// Returns the type as a number in directory entries.
    pub(super) const fn type_number(&self) -> u8 {
        match self.file_type {
            FileType::Regular => 1,
            FileType::Directory => 2,
            FileType::CharacterDevice => 3,
            FileType::BlockDevice => 4,
            FileType::Fifo => 5,
            FileType::Socket => 6,
            FileType::Symlink => 7,
        }
    }

    fn number(&self, at: usize) -> u64 {
        le64(&self.bytes, at).unwrap_or(0)
    }
}
