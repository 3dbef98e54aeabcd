//! The map of a disk image: the place of each run of the guest's disk.

use std::fmt::Debug;
use std::sync::Arc;

use crate::{Error, Result};

/// A format's mapping from the guest's disk to the files of the image, for reading.
///
/// A format crate parses an image's structures and implements this trait. It opens no file: the
/// names of other files (extents, parents) are returned by the format crate's own types, and the
/// caller opens those that its policy allows.
pub trait ImageMap: Debug + Send + Sync {
    /// Returns the size of the guest's disk in bytes.
    fn size_bytes(&self) -> u64;

    /// Returns how the guest's bytes from `offset` on are stored: a run of 1 to `max_len` bytes.
    /// `offset` and `max_len` (at least 1) lie within the disk.
    ///
    /// # Errors
    /// `Corrupt` with the byte for an invalid table entry; the errors of reading tables.
    fn run_at(&self, offset: u64, max_len: u64) -> Result<MappedRun>;

    /// Reads and decompresses a unit of [`RunStorage::Compressed`], whole. A format without
    /// compression has no such units.
    ///
    /// # Errors
    /// `Corrupt` with the byte if the data cannot be decompressed; the errors of reading.
    fn decompress(&self, unit: CompressedUnit) -> Result<Arc<[u8]>> {
        Err(Error::corrupt("the format has no compressed data").at(unit.offset))
    }
}

/// A run of the guest's disk that is stored in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedRun {
    /// The length in bytes; never zero.
    pub len_bytes: u64,
    /// The place of the run.
    pub storage: RunStorage,
}

/// The place of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStorage {
    /// Uncompressed data.
    Stored {
        /// The number of the file: 0 is the image, the others are the files that it names, in the
        /// order in which the format crate lists them.
        file: usize,
        /// The offset in that file, in bytes.
        offset: u64,
    },
    /// Zeroes that this image declares: a parent does not show through.
    Zero,
    /// Not in this image: read from the parent, or as zeroes if there is no parent.
    Absent,
    /// A part of compressed data.
    Compressed {
        /// The unit that contains the run.
        unit: CompressedUnit,
        /// The offset of the run in the decompressed unit, in bytes.
        skip_bytes: u64,
    },
}

/// A unit of compressed data: the smallest piece that can be decompressed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompressedUnit {
    /// The number of the file, as in [`RunStorage::Stored`].
    pub file: usize,
    /// The offset of the unit in that file, in bytes.
    pub offset: u64,
    /// The length of the compressed data in bytes, or its largest possible length where the format
    /// stores the length with the data.
    pub stored_bytes: u64,
    /// The length of the decompressed data in bytes.
    pub unpacked_bytes: u64,
}

/// A byte of a disk that is divided into blocks of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOffset {
    /// The number of the block.
    pub number: u64,
    /// The offset in the block in bytes.
    pub within: u64,
    block_bytes: u64,
}

impl BlockOffset {
    /// Returns the place of the byte at `offset`. A block has at least one byte.
    pub const fn of(offset: u64, block_bytes: u64) -> Self {
        let (number, within) = match (
            offset.checked_div(block_bytes),
            offset.checked_rem(block_bytes),
        ) {
            (Some(number), Some(within)) => (number, within),
            _ => (0, 0),
        };
        Self {
            number,
            within,
            block_bytes,
        }
    }

    /// Returns the run of at most `max_len` bytes from the byte on to the end of `blocks` blocks,
    /// which are stored contiguously. `storage` is the place of the first of them.
    pub const fn run(self, storage: RunStorage, blocks: u64, max_len: u64) -> MappedRun {
        let len = blocks.saturating_mul(self.block_bytes);
        let len = len.saturating_sub(self.within);
        MappedRun {
            len_bytes: if len < max_len { len } else { max_len },
            storage: storage.skip(self.within),
        }
    }
}

impl RunStorage {
    /// Returns the place of the rest of a run after its first `len_bytes`.
    #[must_use]
    pub const fn skip(self, len_bytes: u64) -> Self {
        match self {
            Self::Stored { file, offset } => Self::Stored {
                file,
                offset: offset.saturating_add(len_bytes),
            },
            Self::Compressed { unit, skip_bytes } => Self::Compressed {
                unit,
                skip_bytes: skip_bytes.saturating_add(len_bytes),
            },
            Self::Zero | Self::Absent => self,
        }
    }
}
