//! Reading of tables that may be broken: a part past the end of the file reads as zeroes, as in
//! QEMU.

use diskfs_block::{BlockRead, Error, Result};

use crate::numbers::to_usize;
use crate::qcow2::cache::TableSlice;
use crate::qcow2::units::HostOffset;

/// The number of bytes of tables to read at most in one walk, if the file is that long. Tables that
/// do not overlap fit into their file, and no program writes overlapping ones.
const TABLES_MAX_BYTES: u64 = 4 << 30;
/// The number of bytes of a table to read at once.
pub(super) const PIECE_BYTES: u64 = 64 << 10;

/// The number of bytes of tables that a walk may still read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    left_bytes: u64,
    file_bytes: u64,
}

impl Budget {
    pub(super) fn new(file: &dyn BlockRead) -> Self {
        let file_bytes = file.size_bytes();
        Self {
            left_bytes: TABLES_MAX_BYTES.min(file_bytes),
            file_bytes,
        }
    }

    /// Takes the bytes of a table at `at`.
    pub(super) fn take(&mut self, at: HostOffset, len_bytes: u64) -> Result<()> {
        let end = self.file_bytes.saturating_sub(at.0);
        match self.left_bytes.checked_sub(len_bytes.min(end)) {
            Some(left) => {
                self.left_bytes = left;
                Ok(())
            }
            None if self.file_bytes > TABLES_MAX_BYTES => {
                let reason =
                    format!("the tables are too large: more than {TABLES_MAX_BYTES} bytes");
                Err(Error::unsupported(reason).with_hint("use `qemu-img check`"))
            }
            None => {
                let reason = "tables overlap: together they are longer than the file";
                Err(Error::corrupt(reason).at(at.0))
            }
        }
    }
}

/// Reads a piece of a table.
pub(super) fn read_piece(
    file: &dyn BlockRead,
    at: HostOffset,
    len_bytes: u64,
) -> Result<TableSlice> {
    let there = file.size_bytes().saturating_sub(at.0).min(len_bytes);
    if there == len_bytes {
        return TableSlice::read(file, at, len_bytes);
    }
    let mut bytes = vec![0; to_usize(len_bytes)];
    let front = bytes.get_mut(..to_usize(there)).unwrap_or_default();
    if !front.is_empty() {
        file.read_at(at.0, front)?;
    }
    let slice = TableSlice::zeroed(at, len_bytes);
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        slice.set_word(index, u64::from_be_bytes(*word));
    }
    Ok(slice)
}

/// Calls `visit` with each 64-bit word of a table, which may be long. The part past the end of the
/// file is not visited, because all its words are zero.
pub(super) fn for_each_word(
    file: &dyn BlockRead,
    at: HostOffset,
    size_bytes: u64,
    mut visit: impl FnMut(&TableSlice, usize) -> Result<()>,
) -> Result<()> {
    for_each_piece(file, at, size_bytes, |words| {
        (0..words.len()).try_for_each(|index| visit(words, index))
    })
}

/// Calls `visit` with each piece of a table, up to the end of the file.
pub(super) fn for_each_piece(
    file: &dyn BlockRead,
    at: HostOffset,
    size_bytes: u64,
    mut visit: impl FnMut(&TableSlice) -> Result<()>,
) -> Result<()> {
    let end = size_bytes.min(file.size_bytes().saturating_sub(at.0));
    let mut done = 0;
    while done < end {
        let len_bytes = PIECE_BYTES.min(size_bytes.saturating_sub(done));
        visit(&read_piece(file, at.plus(done), len_bytes)?)?;
        done = done.saturating_add(len_bytes);
    }
    Ok(())
}
