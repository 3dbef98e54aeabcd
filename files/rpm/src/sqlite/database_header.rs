//! The database header: the first 100 bytes (section 1.3, "The Database Header").

use diskfs_block::bytes::array;
use diskfs_block::{BlockRead, Error, Result, read_within};

/// The length of the header. The contents of page 1 follow it.
pub(super) const HEADER_BYTES: usize = 100;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// "The usable size is not allowed to be less than 480."
const MIN_USABLE_BYTES: usize = 480;

/// Returns true if a file that starts with these bytes is an SQLite database.
pub(crate) fn is_sqlite(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// The page sizes from the database header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DatabaseHeader {
    /// The page size: a power of two from 512 to 65536.
    pub(super) page_bytes: usize,
    /// The number of bytes of a page that SQLite uses, at least 480.
    pub(super) usable_bytes: usize,
}

impl DatabaseHeader {
    pub(super) fn read(main: &dyn BlockRead) -> Result<Self> {
        let bytes = read_within(main, 0, HEADER_BYTES)?;
        let bytes = bytes
            .ok_or_else(|| Error::corrupt("invalid database: the file ends within its header"))?;
        Self::from_bytes(&bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let byte = |at| bytes.get(at).copied().unwrap_or_default();
        let page_bytes = match array(bytes, 16).map(u16::from_be_bytes) {
            Some(1) => 65536,
            Some(size) if size >= 512 && size.is_power_of_two() => usize::from(size),
            size => {
                let reason = format!(
                    "invalid database: page size is {}, expected a power of two from 512 to 65536",
                    size.unwrap_or_default()
                );
                return Err(Error::corrupt(reason).at(16));
            }
        };
        let usable_bytes = page_bytes.saturating_sub(usize::from(byte(20)));
        if usable_bytes < MIN_USABLE_BYTES {
            let reason = format!(
                "invalid database: usable page size is {usable_bytes}, expected at least 480"
            );
            return Err(Error::corrupt(reason).at(20));
        }
        if !is_sqlite(bytes) || byte(19) > 2 {
            let reason = format!("unsupported SQLite version {}, expected 1 or 2", byte(19));
            return Err(Error::unsupported(reason).at(19));
        }
        // The text encoding is 0 in a database without tables.
        match array(bytes, 56).map(u32::from_be_bytes) {
            Some(0 | 1) => Ok(Self {
                page_bytes,
                usable_bytes,
            }),
            _ => Err(Error::unsupported("unsupported text encoding: expected UTF-8").at(56)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(changes: &[(usize, u8)]) -> Result<DatabaseHeader> {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16] = 0x10;
        bytes[18..20].fill(2);
        for (at, value) in changes {
            bytes[*at] = *value;
        }
        DatabaseHeader::from_bytes(&bytes)
    }

    #[test]
    fn sizes_of_pages() {
        assert_eq!(header(&[]).unwrap().page_bytes, 4096);
        let largest = header(&[(16, 0), (17, 1), (20, 8)]).unwrap();
        assert_eq!((largest.page_bytes, largest.usable_bytes), (65536, 65528));
        for odd in [&[(16, 1)][..], &[(16, 0)], &[(17, 1)], &[(16, 2), (20, 33)]] {
            assert!(header(odd).is_err() == (odd != [(16, 1)]) || odd == [(16, 1)]);
        }
        assert!(header(&[(16, 3)]).is_err());
        assert!(header(&[(19, 3)]).is_err());
        assert!(header(&[(59, 2)]).is_err());
    }
}
