//! The hive bins data, and the cells in it. Specification, "Cell".

use diskfs_block::bytes::{array, index};
use diskfs_block::{BlockRead, Cache, CacheOptions, Error, Result};

use crate::base_block::BASE_BLOCK_BYTES;
use crate::log::WithLogs;

/// The offset that leads nowhere.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Cells begin at multiples of so many bytes.
const CELL_ALIGNMENT: u32 = 8;

const SIZE_BYTES: u32 = 4;

/// Keys that are looked for lie far apart in the file; each takes some four pages.
const CACHE: CacheOptions = CacheOptions {
    budget_bytes: 1 << 20,
    block_bytes: 4096,
    bypass_bytes: 64 << 10,
};

/// All bins of a hive. Offsets are relative to the first.
#[derive(Debug)]
pub(crate) struct Bins {
    pages: Cache<WithLogs>,
    len_bytes: u32,
}

/// Where the contents of a cell are, and how long they are with the padding at their end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Of the cell itself.
    pub(crate) offset: u32,
    pub(crate) len: usize,
}

impl Bins {
    pub(crate) fn new(device: WithLogs, len_bytes: u32) -> Result<Self> {
        Ok(Self {
            pages: Cache::new(std::sync::Arc::new(device), CACHE)?,
            len_bytes,
        })
    }

    /// The cell at `offset`.
    ///
    /// # Errors
    /// `Corrupt` when it leaves the bins, or nothing is allocated there.
    pub(crate) fn cell(&self, offset: u32) -> Result<Cell> {
        let past = || corrupt(offset, "a cell lies past the hive bins data");
        let room = self.len_bytes.checked_sub(offset).ok_or_else(past)?;
        if room < SIZE_BYTES || !offset.is_multiple_of(CELL_ALIGNMENT) {
            return Err(past());
        }
        let mut size = [0; 4];
        self.pages.read_at(place(offset), &mut size)?;
        let size = i32::from_le_bytes(size);
        if size >= 0 {
            return Err(corrupt(offset, "a cell is in use that is not allocated"));
        }
        let size = size.unsigned_abs();
        if size > room {
            return Err(past());
        }
        let len = size.checked_sub(SIZE_BYTES);
        let len = len.ok_or_else(|| corrupt(offset, "a cell is too small"))?;
        Ok(Cell {
            offset,
            len: index(len),
        })
    }

    /// `len` bytes of a cell from its byte `at` on. The caller bounds `len`.
    ///
    /// # Errors
    /// `Corrupt` when the cell has fewer.
    pub(crate) fn read(&self, cell: Cell, at: usize, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_onto(cell, at, len, &mut bytes)?;
        Ok(bytes)
    }

    /// The same, at the end of what is there.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) fn read_onto(
        &self,
        cell: Cell,
        at: usize,
        len: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let end = at.checked_add(len).filter(|end| *end <= cell.len);
        if end.is_none() {
            return Err(corrupt(
                cell.offset,
                "a cell is too small for what it holds",
            ));
        }
        let start = bytes.len();
        bytes.resize(start.saturating_add(len), 0);
        let from = place(cell.offset)
            .saturating_add(u64::from(SIZE_BYTES))
            .saturating_add(diskfs_block::bytes::len_u64(at));
        let buf = bytes.get_mut(start..).unwrap_or_default();
        self.pages.read_at(from, buf)
    }

    /// The first `N` bytes of the cell at `offset`, which begin with a signature.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn record<const N: usize>(
        &self,
        offset: u32,
        signature: [u8; 2],
    ) -> Result<(Cell, [u8; N])> {
        let cell = self.cell(offset)?;
        let bytes = self.read(cell, 0, N)?;
        let record = array(&bytes, 0).filter(|_| bytes.starts_with(&signature));
        let record = record.ok_or_else(|| {
            let name = String::from_utf8_lossy(&signature);
            corrupt(offset, format!("there is no record `{name}`"))
        })?;
        Ok((cell, record))
    }

    /// A list of offsets, `count` of them, in a cell of its own. The caller bounds `count`.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn offsets(&self, offset: u32, count: usize) -> Result<Vec<u32>> {
        let cell = self.cell(offset)?;
        let bytes = self.read(cell, 0, count.saturating_mul(4))?;
        let offsets = bytes.as_chunks::<4>().0.iter();
        Ok(offsets.map(|offset| u32::from_le_bytes(*offset)).collect())
    }
}

/// The byte of the file.
fn place(offset: u32) -> u64 {
    BASE_BLOCK_BYTES.saturating_add(u64::from(offset))
}

/// An error about the cell at `offset`.
pub(crate) fn corrupt(offset: u32, reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::corrupt(reason).at(place(offset))
}
