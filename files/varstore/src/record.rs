//! The records of a store, which follow each other.

use std::ops::Range;

use diskfs_block::bytes::{index, len_u64};
use diskfs_block::{Error, Result};

use crate::variable_header::{Format, HEADER_ALIGNMENT, VariableHeader, state};

/// The location of a volume's records, and their format.
#[derive(Debug, Clone)]
pub(crate) struct Area {
    pub(crate) format: Format,
    pub(crate) range: Range<usize>,
}

/// A record. The type is small, because a store may consist of headers only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) start: usize,
    pub(crate) state: u8,
    name_size: u32,
    data_size: u32,
}

/// All records, and the offset for the next one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    pub(crate) all: Vec<Record>,
    pub(crate) end: usize,
}

impl Records {
    /// Reads all records, up to the first position without a header.
    ///
    /// # Errors
    /// `Corrupt` if a record does not end within the area.
    pub(crate) fn read(bytes: &[u8], area: &Area) -> Result<Self> {
        let bytes = bytes.get(..area.range.end).unwrap_or_default();
        let mut records = Self {
            all: Vec::new(),
            end: area.range.start,
        };
        while let Some(header) = bytes
            .get(records.end..)
            .and_then(|rest| area.format.read(rest))
        {
            let (name_size, data_size) = header.sizes();
            let record = Record {
                start: records.end,
                state: header.state,
                name_size,
                data_size,
            };
            records.end = record.next(area).ok_or_else(|| too_long(records.end))?;
            records.all.push(record);
        }
        Ok(records)
    }
}

fn too_long(start: usize) -> Error {
    Error::corrupt("invalid variable: it is longer than its store").at(len_u64(start))
}

impl Record {
    /// Returns true if the record is valid, or becomes valid if a newer one is deleted.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, state::ADDED | state::IN_DELETED_TRANSITION)
    }

    fn name_range(&self, format: Format) -> Option<Range<usize>> {
        let start = self.start.checked_add(format.header_bytes())?;
        Some(start..start.checked_add(index(self.name_size))?)
    }

    fn data_range(&self, format: Format) -> Option<Range<usize>> {
        let start = self.name_range(format)?.end;
        Some(start..start.checked_add(index(self.data_size))?)
    }

    /// Returns the offset of the next record; `None` if this one does not end within the area.
    fn next(&self, area: &Area) -> Option<usize> {
        let end = self.data_range(area.format)?.end;
        let aligned = end.checked_next_multiple_of(HEADER_ALIGNMENT)?;
        (end <= area.range.end).then(|| aligned.min(area.range.end))
    }

    pub(crate) fn header(&self, bytes: &[u8], format: Format) -> Option<VariableHeader> {
        format.read(bytes.get(self.start..)?)
    }

    /// Returns the bytes of the name.
    pub(crate) fn name<'b>(&self, bytes: &'b [u8], format: Format) -> &'b [u8] {
        let range = self.name_range(format);
        range.and_then(|range| bytes.get(range)).unwrap_or_default()
    }

    pub(crate) fn data<'b>(&self, bytes: &'b [u8], format: Format) -> &'b [u8] {
        let range = self.data_range(format);
        range.and_then(|range| bytes.get(range)).unwrap_or_default()
    }

    /// Returns the bytes of the record, without the padding after it.
    pub(crate) fn whole<'b>(&self, bytes: &'b [u8], format: Format) -> &'b [u8] {
        let range = self.data_range(format).map(|data| self.start..data.end);
        range.and_then(|range| bytes.get(range)).unwrap_or_default()
    }
}
