//! Records: the columns of a row (section 2.1, "Record Format").

use diskfs_block::bytes::{index, len_u64};
use diskfs_block::{Error, Result};

use super::varint::varint;
use crate::blob::{Blob, BlobPart, check_within};

/// The maximum length of a record's header. It contains the types of the columns, of which the
/// needed tables have up to five.
const MAX_HEADER_BYTES: u64 = 64;

/// The columns of a row.
pub(super) struct Record<B> {
    payload: B,
    columns: Vec<Column>,
}

/// The location and type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Column {
    serial_type: u64,
    start: u64,
    len_bytes: u64,
}

impl<B: Blob> Record<B> {
    pub(super) fn open(mut payload: B) -> Result<Self> {
        let mut start = [0; 9];
        let len = payload.len_bytes().min(9);
        let start = start.get_mut(..index(len)).unwrap_or_default();
        payload.read_at(0, start)?;
        let (header_bytes, first) = varint(start).ok_or_else(no_header)?;
        if header_bytes > MAX_HEADER_BYTES || header_bytes < len_u64(first) {
            return Err(no_header());
        }
        let mut header = vec![0; index(header_bytes)];
        payload.read_at(0, &mut header)?;
        let types = header.get(first..).unwrap_or_default();
        let columns = columns(types, header_bytes, payload.len_bytes())?;
        Ok(Self { payload, columns })
    }

    fn column(&self, number: usize) -> Result<Column> {
        let column = self.columns.get(number).copied();
        column.ok_or_else(|| Error::corrupt(format!("invalid record: missing column {number}")))
    }

    /// Returns the bytes of a BLOB column.
    pub(super) fn into_blob(self, number: usize) -> Result<BlobPart<B>> {
        let column = self.column(number)?;
        if column.serial_type < 12 || column.serial_type % 2 != 0 {
            let kind = column.serial_type;
            let reason = format!("invalid record: unexpected type {kind} of column {number}");
            return Err(Error::corrupt(reason));
        }
        BlobPart::new(self.payload, column.start, column.len_bytes)
    }

    /// Returns a text of at most `max_bytes`; `None` for other values.
    pub(super) fn text(&mut self, number: usize, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        let column = self.column(number)?;
        let is_text = column.serial_type >= 13 && column.serial_type % 2 == 1;
        if !is_text || column.len_bytes > max_bytes {
            return Ok(None);
        }
        let mut text = vec![0; index(column.len_bytes)];
        self.payload.read_at(column.start, &mut text)?;
        Ok(Some(text))
    }

    /// Returns a number that is not negative; `None` for other values.
    pub(super) fn integer(&mut self, number: usize) -> Result<Option<u64>> {
        let column = self.column(number)?;
        match column.serial_type {
            8 => return Ok(Some(0)),
            9 => return Ok(Some(1)),
            1..=6 => {}
            _ => return Ok(None),
        }
        let mut bytes = [0; 8];
        let width = index(column.len_bytes);
        let value = bytes.get_mut(8_usize.saturating_sub(width)..);
        let value = value.unwrap_or_default();
        self.payload.read_at(column.start, value)?;
        let is_negative = value.first().is_some_and(|byte| byte & 0x80 != 0);
        Ok((!is_negative).then_some(u64::from_be_bytes(bytes)))
    }
}

fn columns(mut types: &[u8], start: u64, payload_bytes: u64) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    let mut start = start;
    while !types.is_empty() {
        let (serial_type, taken) = varint(types).ok_or_else(no_header)?;
        types = types.get(taken..).unwrap_or_default();
        let len_bytes = len_of(serial_type).ok_or_else(no_header)?;
        check_within(start, len_bytes, payload_bytes)?;
        columns.push(Column {
            serial_type,
            start,
            len_bytes,
        });
        start = start.saturating_add(len_bytes);
    }
    Ok(columns)
}

/// Returns the length of a value with this serial type; `None` for reserved types.
fn len_of(serial_type: u64) -> Option<u64> {
    Some(match serial_type {
        0 | 8 | 9 => 0,
        1..=4 => serial_type,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        _ => serial_type.saturating_sub(12).wrapping_shr(1),
    })
}

fn no_header() -> Error {
    Error::corrupt("invalid record header")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::InMemory;

    #[test]
    fn columns_of_each_type() {
        let bytes = b"\x07\x13\x00\x01\x02\x09\x12abc\x7f\xff\xffxyz".to_vec();
        let mut record = Record::open(InMemory(bytes)).unwrap();
        assert_eq!(record.text(0, 3).unwrap().as_deref(), Some(&b"abc"[..]));
        assert_eq!(record.text(0, 2).unwrap(), None);
        assert_eq!(record.integer(1).unwrap(), None);
        assert_eq!(record.integer(2).unwrap(), Some(127));
        assert_eq!(record.integer(3).unwrap(), None);
        assert_eq!(record.integer(4).unwrap(), Some(1));
        assert!(record.integer(6).is_err());
        let mut blob = record.into_blob(5).unwrap();
        let mut last = [0];
        blob.read_at(2, &mut last).unwrap();
        assert_eq!((&last, blob.len_bytes()), (b"z", 3));
        assert!(blob.read_at(3, &mut last).is_err());
    }

    #[test]
    fn headers_that_lie() {
        for bytes in [
            &b""[..],
            b"\x00",
            b"\x03\x01",
            b"\x02\x0e",
            b"\x02\x0a",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x02\x80",
        ] {
            assert!(Record::open(InMemory(bytes.to_vec())).is_err(), "{bytes:?}");
        }
    }
}
