//! The seek table at the end of a zstd file (Zstandard Seekable Format 0.1.0): the lengths of all
//! frames, in a skippable frame.
//!
//! The table is not trusted. Its lengths must add up to the file. Each entry is decompressed by
//! itself, and must be complete frames with exactly the contents that it says. Empty entries belong
//! to the entry before them, so that no byte of the file is left out. Whoever reads the whole disk
//! has thus decompressed the whole file.

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};
use twox_hash::XxHash64;

use crate::units::{UNITS_MAX, Units};

const MAGIC: u32 = 0x8f92_eab1;
/// The magic number of the skippable frame. Other data may have the same.
const FRAME_MAGIC: u32 = 0x184d_2a5e;
/// The magic number and the length of the skippable frame.
const HEADER_BYTES: u64 = 8;
/// The number of entries, the descriptor, and the magic number of the table.
const FOOTER_BYTES: u64 = 9;
/// The flag of a table whose entries have checksums.
const CHECKSUM_FLAG: u8 = 0x80;
/// The bits of the descriptor that only a later version of the format sets.
const RESERVED_BITS: u8 = 0x7c;

/// The seek table of a file, if it has one.
#[derive(Debug)]
pub(crate) enum SeekTable {
    /// The units of a file with a table; `None` if it has to be decompressed as a whole.
    Units(Option<Units>),
    /// The file has no table, or one of another version, or one that is about its end only: that of
    /// the last of several files, one behind the other.
    Missing,
}

/// Reads the seek table of a file.
pub(crate) fn units(file: &dyn BlockRead) -> Result<SeekTable> {
    let Some(footer) = Footer::read(file)? else {
        return Ok(SeekTable::Missing);
    };
    if footer.entries > bytes::len_u64(UNITS_MAX) {
        return Ok(SeekTable::Units(None));
    }
    let len = footer.entries.saturating_mul(footer.entry_bytes());
    let entries_at = footer.table_at.saturating_add(HEADER_BYTES);
    let table = read_within(file, entries_at, bytes::index(len))?.unwrap_or_default();
    let entries = || table.chunks_exact(bytes::index(footer.entry_bytes()));
    let stored = entries().filter_map(|entry| bytes::le32(entry, 0));
    let stored = stored.fold(0_u64, |sum, bytes| sum.saturating_add(bytes.into()));
    if stored < footer.table_at {
        return Ok(SeekTable::Missing);
    }
    if stored > footer.table_at {
        let reason = "the seek table of zstd has more data than the file";
        return Err(Error::corrupt(reason).at(footer.table_at));
    }
    let mut joined = Joined::default();
    for (number, entry) in entries().enumerate() {
        let entry = Entry::parse(entry).ok_or_else(|| {
            let reason = format!("invalid entry {number} of the seek table of zstd");
            Error::corrupt(reason).at(footer.table_at)
        })?;
        if !joined.push(entry) {
            return Ok(SeekTable::Units(None));
        }
    }
    Ok(SeekTable::Units(joined.finish()))
}

/// Returns the checksum of a unit, as a table has it.
pub(crate) fn checksum(unpacked: &[u8]) -> u32 {
    let [a, b, c, d, ..] = XxHash64::oneshot(0, unpacked).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// The end of a table.
struct Footer {
    table_at: u64,
    entries: u64,
    has_checksums: bool,
}

impl Footer {
    /// Reads the end of the file; `None` if no table of this version ends there.
    fn read(file: &dyn BlockRead) -> Result<Option<Self>> {
        let size_bytes = file.size_bytes();
        let Some(footer_at) = size_bytes.checked_sub(FOOTER_BYTES) else {
            return Ok(None);
        };
        let mut footer = [0; 9];
        file.read_at(footer_at, &mut footer)?;
        let [n0, n1, n2, n3, descriptor, magic @ ..] = footer;
        if u32::from_le_bytes(magic) != MAGIC || descriptor & RESERVED_BITS != 0 {
            return Ok(None);
        }
        let mut found = Self {
            table_at: 0,
            entries: u32::from_le_bytes([n0, n1, n2, n3]).into(),
            has_checksums: descriptor & CHECKSUM_FLAG != 0,
        };
        let entries_bytes = found.entries.saturating_mul(found.entry_bytes());
        let content_bytes = entries_bytes.saturating_add(FOOTER_BYTES);
        let table_bytes = content_bytes.saturating_add(HEADER_BYTES);
        let Some(table_at) = size_bytes.checked_sub(table_bytes) else {
            return Ok(None);
        };
        let mut header = [0; 8];
        file.read_at(table_at, &mut header)?;
        let is_table = bytes::le32(&header, 0) == Some(FRAME_MAGIC)
            && bytes::le32(&header, 4).map(u64::from) == Some(content_bytes);
        found.table_at = table_at;
        Ok(is_table.then_some(found))
    }

    const fn entry_bytes(&self) -> u64 {
        if self.has_checksums { 12 } else { 8 }
    }
}

/// An entry: one frame or several.
#[derive(Debug, Clone, Copy)]
struct Entry {
    stored_bytes: u64,
    unpacked_bytes: u64,
    /// The least significant bits of the XXH64 of the contents.
    checksum: Option<u32>,
}

impl Entry {
    /// Parses an entry. Returns `None` for contents without frames.
    fn parse(entry: &[u8]) -> Option<Self> {
        let parsed = Self {
            stored_bytes: bytes::le32(entry, 0)?.into(),
            unpacked_bytes: bytes::le32(entry, 4)?.into(),
            checksum: bytes::le32(entry, 8),
        };
        (parsed.stored_bytes > 0 || parsed.unpacked_bytes == 0).then_some(parsed)
    }
}

/// The units so far, and the last entry, which takes in the empty ones behind it.
#[derive(Debug, Default)]
struct Joined {
    units: Units,
    /// The offset of the last entry in the file.
    offset: u64,
    last: Option<Entry>,
}

impl Joined {
    /// Adds an entry; returns false if a unit is too large, or one too many.
    #[must_use]
    fn push(&mut self, entry: Entry) -> bool {
        match &mut self.last {
            // Empty entries before the first one with contents belong to that one.
            Some(last) if entry.unpacked_bytes == 0 || last.unpacked_bytes == 0 => {
                last.stored_bytes = last.stored_bytes.saturating_add(entry.stored_bytes);
                if last.unpacked_bytes == 0 {
                    last.unpacked_bytes = entry.unpacked_bytes;
                    last.checksum = entry.checksum;
                }
                true
            }
            _ => {
                let is_pushed = self.push_last();
                self.last = Some(entry);
                is_pushed
            }
        }
    }

    fn push_last(&mut self) -> bool {
        let Some(last) = self.last.take() else {
            return true;
        };
        let (stored_bytes, unpacked_bytes) = (last.stored_bytes, last.unpacked_bytes);
        let is_pushed = match last.checksum {
            Some(checksum) => {
                self.units
                    .push_with_checksum((self.offset, stored_bytes), unpacked_bytes, checksum)
            }
            None => self
                .units
                .push(self.offset, stored_bytes, unpacked_bytes, 0),
        };
        self.offset = self.offset.saturating_add(stored_bytes);
        is_pushed
    }

    fn finish(mut self) -> Option<Units> {
        self.push_last().then_some(self.units)
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::{ErrorKind, Memory};

    use super::*;

    /// Returns a file of zeroes with a table of these entries.
    fn file(data_bytes: usize, entries: &[(u32, u32)]) -> Vec<u8> {
        let mut file = vec![0; data_bytes];
        let content = u32::try_from(entries.len() * 8 + 9).unwrap();
        file.extend(FRAME_MAGIC.to_le_bytes());
        file.extend(content.to_le_bytes());
        for (stored, unpacked) in entries {
            file.extend(stored.to_le_bytes());
            file.extend(unpacked.to_le_bytes());
        }
        file.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
        file.push(0);
        file.extend(MAGIC.to_le_bytes());
        file
    }

    fn read(file: Vec<u8>) -> Result<SeekTable> {
        units(&Memory::new(file))
    }

    fn places(file: Vec<u8>) -> Vec<(u64, u64, u32)> {
        let SeekTable::Units(Some(units)) = read(file).unwrap() else {
            panic!("not used");
        };
        let mut found = Vec::new();
        let mut at = 0;
        while let Some((unit, end)) = units.at(at) {
            found.push((unit.start, unit.offset, unit.stored_bytes));
            at = end;
        }
        assert_eq!(at, units.size_bytes());
        found
    }

    #[test]
    fn empty_entries_belong_to_the_unit_before() {
        let found = places(file(60, &[(20, 100), (10, 50), (30, 7)]));
        assert_eq!(found, [(0, 0, 20), (100, 20, 10), (150, 30, 30)]);
        let found = places(file(60, &[(9, 0), (11, 100), (10, 0), (20, 7), (10, 0)]));
        assert_eq!(found, [(0, 0, 30), (100, 30, 30)]);
        assert!(places(file(9, &[(9, 0)])).is_empty());
        assert!(places(file(0, &[])).is_empty());
    }

    #[test]
    fn tables_that_are_not_about_this_file_are_not_used() {
        let good = || file(30, &[(10, 100), (20, 100)]);
        assert!(matches!(read(good()).unwrap(), SeekTable::Units(Some(_))));
        let mut reserved = good();
        let descriptor = reserved.len() - 5;
        reserved[descriptor] = 4;
        let mut unused = good();
        unused[descriptor] = 3;
        assert!(matches!(read(unused).unwrap(), SeekTable::Units(Some(_))));
        let mut magic = good();
        magic[30] ^= 1;
        let mut length = good();
        length[34] ^= 1;
        let mut count = good();
        count[descriptor - 4] ^= 0xff;
        let behind_another = file(31, &[(10, 100), (20, 100)]);
        for bad in [reserved, magic, length, count, behind_another, vec![0; 5]] {
            assert!(matches!(read(bad).unwrap(), SeekTable::Missing));
        }
        for lie in [&[(10, 100), (21, 100)][..], &[(30, 7), (0, 7)]] {
            let error = read(file(30, lie)).unwrap_err();
            assert_eq!(
                (error.kind(), error.offset()),
                (ErrorKind::Corrupt, Some(30))
            );
        }
    }

    #[test]
    fn large_units_are_left_to_a_whole_decompression() {
        for entries in [&[(10, 1 << 30)][..], &[(10, 7), (0, 0), (0, 0)]] {
            let found = read(file(10, entries)).unwrap();
            let expected = if entries.len() == 1 { None } else { Some(1) };
            let SeekTable::Units(units) = found else {
                panic!("{found:?}");
            };
            assert_eq!(units.map(|units| units.len()), expected);
        }
        let many = vec![(1, 1); UNITS_MAX + 1];
        let found = read(file(many.len(), &many)).unwrap();
        assert!(matches!(found, SeekTable::Units(None)));
    }
}
