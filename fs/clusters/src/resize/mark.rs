//! The mark in the first sector of a filesystem whose size is changing.
//!
//! | bytes | field |
//! |---|---|
//! | 128 to 143 | magic |
//! | 144 to 147 | CRC-32C of the following fields |
//! | 148 to 151 | number of pieces of the record |
//! | 152 to 159 | offset of the last piece |
//! | 160 to 167 | old size of the filesystem in bytes |
//! | 168 to 175 | identifier of the record |
//!
//! The bytes are in the area of the boot code of all types. The driver also clears the number of
//! tables, so that other implementations refuse the filesystem.

use diskfs_block::bytes::{array, le32, part, put};
use diskfs_vfs::{Error, ErrorKind, Result};

/// The offset of the mark in the first sector.
pub const MARK_OFFSET: usize = 128;
const MAGIC: [u8; 16] = *b"diskfs resizing\0";
const CHECKSUM: usize = 144;
const PIECES: usize = 148;
const LAST_PIECE: usize = 152;
const OLD_BYTES: usize = 160;
const ID: usize = 168;
const COVERED_LEN: usize = 28;

/// The mark: it says that the record is complete, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The number of pieces of the record.
    pub(super) pieces: u32,
    /// The offset of the last piece, which leads to the others.
    pub(super) last_piece: u64,
    /// The old size of the filesystem in bytes.
    pub(super) old_bytes: u64,
    /// The identifier that each piece has, too.
    pub(super) id: u64,
}

impl Mark {
    /// Puts the mark into the bytes of the first sector.
    pub fn put(&self, sector: &mut [u8]) {
        put(sector, MARK_OFFSET, &MAGIC);
        put(sector, PIECES, &self.pieces.to_le_bytes());
        put(sector, LAST_PIECE, &self.last_piece.to_le_bytes());
        put(sector, OLD_BYTES, &self.old_bytes.to_le_bytes());
        put(sector, ID, &self.id.to_le_bytes());
        let checksum = checksum(sector).unwrap_or(0);
        put(sector, CHECKSUM, &checksum.to_le_bytes());
    }

    /// Returns the mark in the first sector, if there is one.
    pub(super) fn find(sector: &[u8]) -> Option<Self> {
        if !is_marked(sector) || le32(sector, CHECKSUM) != checksum(sector) {
            return None;
        }
        let number = |offset| array(sector, offset).map(u64::from_le_bytes);
        Some(Self {
            pieces: le32(sector, PIECES)?,
            last_piece: number(LAST_PIECE)?,
            old_bytes: number(OLD_BYTES)?,
            id: number(ID)?,
        })
    }
}

fn is_marked(sector: &[u8]) -> bool {
    array(sector, MARK_OFFSET) == Some(MAGIC)
}

fn checksum(sector: &[u8]) -> Option<u32> {
    part(sector, PIECES, COVERED_LEN).map(crc32c::crc32c)
}

/// Fails if the first sector has a mark: the filesystem cannot be used until the work is completed.
///
/// # Errors
/// `Corrupt` for such a sector.
pub fn check_unmarked(sector: &[u8]) -> Result<()> {
    if Mark::find(sector).is_none() {
        return Ok(());
    }
    let reason = "the filesystem cannot be used: a change of its size was interrupted";
    let hint = "repeat the same resize to complete it";
    Err(Error::new(ErrorKind::Corrupt, reason).with_hint(hint))
}
