//! The record of a change: the new contents of all metadata that changes.
//!
//! The record is a list of pieces in free space. Each piece leads to the one before it, and the
//! [mark](super::Mark) to the last one.
//!
//! | bytes of a piece | field |
//! |---|---|
//! | 0 to 15 | magic |
//! | 16 to 19 | CRC-32C of everything after this field |
//! | 20 to 23 | length of the piece in bytes |
//! | 24 to 31 | identifier of the record |
//! | 32 to 39 | offset of the piece before this one |
//! | 40 to 43 | number of the piece; the first one has 0 |
//! | 44 to 47 | number of entries |
//! | from 48 on | entries |
//!
//! | bytes of an entry | field |
//! |---|---|
//! | 0 to 7 | offset on the device |
//! | 8 to 15 | distance between the copies in bytes |
//! | 16 to 19 | length in bytes |
//! | 20 | number of copies |
//! | 21 | phase |
//! | 22 | 1 for zeroes, 0 for bytes that follow the entry |
//! | 23 | 0 |

use std::ops::ControlFlow;

use diskfs_block::BlockWrite;
use diskfs_block::bytes::{array, index, le32, len_u64, put};
use diskfs_vfs::{Result, check_cancelled};

use super::mark::Mark;
use super::space::Space;
use crate::device_failed;
use crate::geometry::Geometry;
use crate::low32;

pub(super) const MAGIC: [u8; 16] = *b"diskfs-redo-piec";
pub(super) const CHECKSUM: usize = 16;
pub(super) const LENGTH: usize = 20;
pub(super) const ID: usize = 24;
pub(super) const BEFORE: usize = 32;
pub(super) const NUMBER: usize = 40;
pub(super) const COUNT: usize = 44;
pub(super) const HEADER_LEN: usize = 48;
pub(super) const ENTRY_LEN: usize = 24;
/// The maximum length of a piece in bytes.
pub(super) const PIECE_MAX_BYTES: u32 = 1 << 20;
/// The minimum space for an entry with its bytes, below which a piece ends.
const ROOM_MIN: usize = ENTRY_LEN + 32;

/// The moment at which an entry of the record is written. There is a flush between the phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before everything else: zeroes over backups of the boot sector, so that nothing restores
    /// them.
    First,
    /// All tables and directories.
    Main,
    /// Backups of the boot sector.
    Backup,
    /// The boot sector, which replaces the mark.
    Last,
}

impl Phase {
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::First => 0,
            Self::Main => 1,
            Self::Backup => 2,
            Self::Last => 3,
        }
    }
}

/// The places of identical copies of the same bytes.
#[derive(Debug, Clone, Copy)]
pub struct Copies {
    /// The number of copies.
    pub count: u8,
    /// The distance between them in bytes.
    pub stride: u64,
}

impl Copies {
    /// One place alone.
    pub const ONE: Self = Self {
        count: 1,
        stride: 0,
    };
}

/// An entry of the record without its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) copies: Copies,
    pub(super) len: u32,
    pub(super) phase: u8,
    pub(super) is_zeroes: bool,
}

impl Entry {
    fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        put(&mut bytes, 0, &self.offset.to_le_bytes());
        put(&mut bytes, 8, &self.copies.stride.to_le_bytes());
        put(&mut bytes, 16, &self.len.to_le_bytes());
        let flags = [self.copies.count, self.phase, self.is_zeroes.into()];
        put(&mut bytes, 20, &flags);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let [count, phase, zeroes, _] = array(bytes, 20)?;
        Some(Self {
            offset: array(bytes, 0).map(u64::from_le_bytes)?,
            copies: Copies {
                count,
                stride: array(bytes, 8).map(u64::from_le_bytes)?,
            },
            len: le32(bytes, 16)?,
            phase,
            is_zeroes: zeroes != 0,
        })
    }

    /// Returns the offsets of the copies.
    pub(super) fn offsets(&self) -> impl Iterator<Item = u64> + use<> {
        let Self { offset, copies, .. } = *self;
        let before = move |nth: u8| copies.stride.saturating_mul(nth.into());
        (0..copies.count).map(move |nth| offset.saturating_add(before(nth)))
    }
}

/// A record that is being written.
pub struct Record<'a> {
    device: &'a dyn BlockWrite,
    geometry: &'a Geometry,
    space: Space,
    progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    mark: Mark,
    /// The space that is not used yet: offset and length.
    room: (u64, u64),
    piece: Vec<u8>,
    /// The maximum length of the current piece.
    piece_max: usize,
    entries: u32,
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

impl<'a> Record<'a> {
    /// Returns an empty record in this space. `geometry` is that of the new filesystem, and
    /// `old_bytes` the size of the old one.
    pub fn new(
        device: &'a dyn BlockWrite,
        geometry: &'a Geometry,
        space: Space,
        old_bytes: u64,
        progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Self {
        let mark = Mark {
            pieces: 0,
            last_piece: 0,
            old_bytes,
            id: old_bytes.rotate_left(32) ^ u64::from(geometry.clusters),
        };
        Self {
            device,
            geometry,
            space,
            progress,
            mark,
            room: (0, 0),
            piece: Vec::new(),
            piece_max: 0,
            entries: 0,
        }
    }

    /// Records bytes.
    ///
    /// # Errors
    /// `NoSpace` if the record does not fit into the free space; `Cancelled`; errors of the device.
    pub fn write(&mut self, phase: Phase, offset: u64, bytes: &[u8], copies: Copies) -> Result<()> {
        let mut offset = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = self.make_room()?;
            let (part, others) = rest.split_at(room.saturating_sub(ENTRY_LEN).min(rest.len()));
            let len = low32(part.len());
            self.push(phase, offset, len, copies, Some(part));
            offset = offset.saturating_add(len.into());
            rest = others;
        }
        Ok(())
    }

    /// Records zeroes.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn zero(&mut self, phase: Phase, offset: u64, len: u32, copies: Copies) -> Result<()> {
        self.make_room()?;
        self.push(phase, offset, len, copies, None);
        Ok(())
    }

    /// Records the sectors of `new` for which `differs` returns true. It gets the range of the
    /// sector within `new`. Consecutive sectors become one entry.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_sectors(
        &mut self,
        offset: u64,
        new: &[u8],
        copies: Copies,
        differs: impl Fn(std::ops::Range<usize>) -> bool,
    ) -> Result<()> {
        /// The kind of a run of sectors.
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Sector {
            Same,
            Zeroes,
            Bytes,
        }
        let sector_len = index(self.geometry.sector_bytes).max(1);
        let kind = |at: usize| {
            let sector = new.get(at..).unwrap_or_default();
            let sector = sector.get(..sector_len).unwrap_or(sector);
            match () {
                () if !differs(at..at.saturating_add(sector.len())) => Sector::Same,
                () if sector.iter().all(|byte| *byte == 0) => Sector::Zeroes,
                () => Sector::Bytes,
            }
        };
        let mut start = 0;
        while start < new.len() {
            let run = kind(start);
            let mut end = start.saturating_add(sector_len);
            while end < new.len() && kind(end) == run {
                end = end.saturating_add(sector_len);
            }
            let bytes = new.get(start..end.min(new.len())).unwrap_or_default();
            let at = offset.saturating_add(len_u64(start));
            match run {
                Sector::Same => {}
                Sector::Zeroes => self.zero(Phase::Main, at, low32(bytes.len()), copies)?,
                Sector::Bytes => self.write(Phase::Main, at, bytes, copies)?,
            }
            start = end;
        }
        Ok(())
    }

    fn push(&mut self, phase: Phase, offset: u64, len: u32, copies: Copies, bytes: Option<&[u8]>) {
        let entry = Entry {
            offset,
            copies,
            len,
            phase: phase.number(),
            is_zeroes: bytes.is_none(),
        };
        self.piece.extend(entry.encode());
        self.piece.extend_from_slice(bytes.unwrap_or_default());
        self.entries = self.entries.saturating_add(1);
    }

    /// Returns the number of bytes that the current piece has room for. Starts a new piece if they
    /// are few.
    fn make_room(&mut self) -> Result<usize> {
        let room = self.piece_max.saturating_sub(self.piece.len());
        if room >= ROOM_MIN {
            return Ok(room);
        }
        self.end_piece()?;
        if self.room.1 == 0 {
            let count = PIECE_MAX_BYTES
                .checked_div(self.geometry.cluster_bytes)
                .unwrap_or(1);
            let (first, count) = self.space.take_for_record(count.max(1))?;
            self.room = (
                self.geometry.offset_of(first),
                self.geometry.bytes_of(count),
            );
        }
        self.piece_max = index(self.room.1.min(PIECE_MAX_BYTES.into()));
        self.piece.resize(HEADER_LEN, 0);
        Ok(self.piece_max.saturating_sub(HEADER_LEN))
    }

    /// Writes the current piece.
    fn end_piece(&mut self) -> Result<()> {
        if self.entries == 0 {
            return Ok(());
        }
        let mut piece = std::mem::take(&mut self.piece);
        let sector_len = index(self.geometry.sector_bytes);
        piece.resize(piece.len().next_multiple_of(sector_len.max(1)), 0);
        put(&mut piece, 0, &MAGIC);
        let length = low32(piece.len());
        put(&mut piece, LENGTH, &length.to_le_bytes());
        put(&mut piece, ID, &self.mark.id.to_le_bytes());
        put(&mut piece, BEFORE, &self.mark.last_piece.to_le_bytes());
        put(&mut piece, NUMBER, &self.mark.pieces.to_le_bytes());
        put(&mut piece, COUNT, &self.entries.to_le_bytes());
        let checksum = checksum(&piece);
        put(&mut piece, CHECKSUM, &checksum.to_le_bytes());
        let (offset, room) = self.room;
        self.device
            .write_at(offset, &piece)
            .map_err(device_failed)?;
        let len = len_u64(piece.len());
        check_cancelled((self.progress)(len))?;
        self.room = (offset.saturating_add(len), room.saturating_sub(len));
        self.mark.last_piece = offset;
        self.mark.pieces = self.mark.pieces.saturating_add(1);
        (self.entries, self.piece_max) = (0, 0);
        Ok(())
    }

    /// Writes what is left, and makes the record durable. It takes effect when the mark is written
    /// to the first sector.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn finish(mut self) -> Result<Mark> {
        self.end_piece()?;
        self.device.flush().map_err(device_failed)?;
        Ok(self.mark)
    }
}

/// Returns the checksum of a piece.
pub(super) fn checksum(piece: &[u8]) -> u32 {
    crc32c::crc32c(piece.get(LENGTH..).unwrap_or_default())
}
