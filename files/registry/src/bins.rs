//! The hive bins data with its cells. Specification, "Cell".

use diskfs_block::bytes::{array, index};
use diskfs_block::{BlockRead, Cache, CacheOptions, Error, Result};

use crate::base_block::BASE_BLOCK_BYTES;
use crate::log::WithLogs;

/// The offset that means "none".
pub(crate) const NO_OFFSET: u32 = u32::MAX;

/// The alignment of cells in bytes.
const CELL_ALIGNMENT: u32 = 8;

const SIZE_BYTES: u32 = 4;

/// The page cache of a hive. The keys of a path are far apart in the file, and each lookup takes
/// about four pages.
const CACHE: CacheOptions = CacheOptions {
    budget_bytes: 1 << 20,
    block_bytes: 4096,
    bypass_bytes: 64 << 10,
};

/// The hive bins data. Offsets are relative to the first bin.
#[derive(Debug)]
pub(crate) struct Bins {
    pages: Cache<WithLogs>,
    len_bytes: u32,
}

/// A cell: its offset, and the length of its contents including padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The offset of the cell itself, not of its contents.
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

    /// Returns the cell at `offset`.
    ///
    /// # Errors
    /// `Corrupt` if the cell is not within the bins, or is not allocated.
    pub(crate) fn cell(&self, offset: u32) -> Result<Cell> {
        let past = || corrupt(offset, "invalid cell: it is outside of the hive bins data");
        let room = self.len_bytes.checked_sub(offset).ok_or_else(past)?;
        if room < SIZE_BYTES || !offset.is_multiple_of(CELL_ALIGNMENT) {
            return Err(past());
        }
        let mut size = [0; 4];
        self.pages.read_at(place(offset), &mut size)?;
        let size = i32::from_le_bytes(size);
        if size >= 0 {
            return Err(corrupt(
                offset,
                "invalid cell: it is in use, but not allocated",
            ));
        }
        let size = size.unsigned_abs();
        if size > room {
            return Err(past());
        }
        let len = size.checked_sub(SIZE_BYTES);
        let len = len.ok_or_else(|| corrupt(offset, "invalid cell: it is too small"))?;
        Ok(Cell {
            offset,
            len: index(len),
        })
    }

    /// Reads `len` bytes of a cell from its byte `at` on. The caller bounds `len`.
    ///
    /// # Errors
    /// `Corrupt` if the cell is shorter.
    pub(crate) fn read(&self, cell: Cell, at: usize, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_onto(cell, at, len, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads as [`read`](Self::read) does, and appends to `bytes`.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
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
                "invalid cell: it is too small for its contents",
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

    /// Reads the first `N` bytes of the cell at `offset`, which must start with a signature.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
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
            corrupt(
                offset,
                format!("invalid record: missing signature `{name}`"),
            )
        })?;
        Ok((cell, record))
    }

    /// Reads a list of `count` offsets that has a cell of its own. The caller bounds `count`.
    ///
    /// # Errors
    /// `Corrupt` if a structure is invalid.
    pub(crate) fn offsets(&self, offset: u32, count: usize) -> Result<Vec<u32>> {
        let cell = self.cell(offset)?;
        let bytes = self.read(cell, 0, count.saturating_mul(4))?;
        let offsets = bytes.as_chunks::<4>().0.iter();
        Ok(offsets.map(|offset| u32::from_le_bytes(*offset)).collect())
    }
}

/// Converts an offset in the bins to one in the file.
fn place(offset: u32) -> u64 {
    BASE_BLOCK_BYTES.saturating_add(u64::from(offset))
}

/// Returns an error about the cell at `offset`.
pub(crate) fn corrupt(offset: u32, reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::corrupt(reason).at(place(offset))
}
