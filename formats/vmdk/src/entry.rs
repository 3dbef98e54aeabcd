//! The entries of grain directories and grain tables.

use diskfs_block::bytes::{le32, le64};

use crate::sectors::SECTOR_BYTES;

/// The format of the entries of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryFormat {
    /// Numbers of sectors, of 4 bytes.
    Sectors {
        /// True if an entry of 1 means zeroes.
        has_zeroed: bool,
    },
    /// Numbers of tables and of grains, of 8 bytes with a type in the upper bits.
    SeSparse {
        /// The byte at which the first grain table begins.
        tables_start: u64,
        /// The byte at which the first grain begins.
        grains_start: u64,
    },
}

/// The place of a grain or a grain table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not in this image.
    Absent,
    /// Zeroes that this image declares.
    Zero,
    /// At a byte of the file.
    At(u64),
}

/// The size of a grain table of seSparse: 64 sectors.
const SE_TABLE_BYTES: u64 = 32 << 10;

/// The size of a grain of seSparse: 8 sectors.
const SE_GRAIN_BYTES: u64 = 4 << 10;

impl EntryFormat {
    /// Returns the size of an entry.
    pub(crate) fn entry_bytes(self) -> u64 {
        match self {
            Self::Sectors { .. } => 4,
            Self::SeSparse { .. } => 8,
        }
    }

    /// Reads the entry at a byte of a table.
    fn raw(self, table: &[u8], at: usize) -> Option<u64> {
        match self {
            Self::Sectors { .. } => le32(table, at).map(u64::from),
            Self::SeSparse { .. } => le64(table, at),
        }
    }

    /// Reads the entry at byte `at` of a grain directory; `None` if it is invalid.
    pub(crate) fn table_place(self, directory: &[u8], at: usize) -> Option<Place> {
        let raw = self.raw(directory, at)?;
        match self {
            Self::Sectors { has_zeroed } => sector_place(raw, has_zeroed),
            Self::SeSparse { tables_start, .. } => se_table_place(raw, tables_start),
        }
    }

    /// Reads the entry at byte `at` of a grain table; `None` if it is invalid.
    pub(crate) fn grain_place(self, table: &[u8], at: usize) -> Option<Place> {
        let raw = self.raw(table, at)?;
        match self {
            Self::Sectors { has_zeroed } => sector_place(raw, has_zeroed),
            Self::SeSparse { grains_start, .. } => se_grain_place(raw, grains_start),
        }
    }
}

fn sector_place(raw: u64, has_zeroed: bool) -> Option<Place> {
    match raw {
        0 => Some(Place::Absent),
        1 if has_zeroed => Some(Place::Zero),
        sector => sector.checked_mul(SECTOR_BYTES).map(Place::At),
    }
}

/// The upper half of an entry is the type: `0x1000_0000` for a table. 64 TiB, the largest disk,
/// have fewer than 2^32 tables of 16 MiB.
fn se_table_place(raw: u64, tables_start: u64) -> Option<Place> {
    if raw == 0 {
        return Some(Place::Absent);
    }
    if raw & 0xffff_ffff_0000_0000 != 0x1000_0000_0000_0000 {
        return None;
    }
    let number = raw & 0xffff_ffff;
    let at = number
        .checked_mul(SE_TABLE_BYTES)?
        .checked_add(tables_start)?;
    Some(Place::At(at))
}

/// The upper four bits of an entry are the type: 1 for a grain that the guest unmapped, 2 for
/// zeroes, 3 for data. Then follow the lower 12 bits of the grain's number, and the upper 48.
fn se_grain_place(raw: u64, grains_start: u64) -> Option<Place> {
    match raw >> 60 {
        0 if raw == 0 => Some(Place::Absent),
        1 | 2 => Some(Place::Zero),
        3 => {
            let number = ((raw >> 48) & 0xfff) | ((raw & 0xffff_ffff_ffff) << 12);
            let at = number
                .checked_mul(SE_GRAIN_BYTES)?
                .checked_add(grains_start)?;
            Some(Place::At(at))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_ses_sparse_have_a_type() {
        let format = EntryFormat::SeSparse {
            tables_start: 512,
            grains_start: 1024,
        };
        let table = |raw: u64| format.table_place(&raw.to_le_bytes(), 0);
        let grain = |raw: u64| format.grain_place(&raw.to_le_bytes(), 0);
        assert_eq!(table(0), Some(Place::Absent));
        assert_eq!(table(0x1000_0000_0000_0002), Some(Place::At(512 + 65536)));
        assert_eq!(table(0x1000_0001_0000_0000), None);
        assert_eq!(table(2), None);
        assert_eq!(grain(0), Some(Place::Absent));
        assert_eq!(grain(5), None);
        assert_eq!(grain(0x1000_0000_0000_0000), Some(Place::Zero));
        assert_eq!(grain(0x2000_0000_0000_0000), Some(Place::Zero));
        assert_eq!(
            grain(0x3002_0000_0000_0000),
            Some(Place::At(1024 + 2 * 4096))
        );
        assert_eq!(
            grain(0x3000_0000_0000_0001),
            Some(Place::At(1024 + 4096 * 4096))
        );
        assert_eq!(grain(0x3fff_ffff_ffff_ffff), None);
        assert_eq!(grain(0x4000_0000_0000_0000), None);
    }

    #[test]
    fn entries_of_sectors_can_be_zeroes() {
        let grain = |raw: u32, has_zeroed| {
            EntryFormat::Sectors { has_zeroed }.grain_place(&raw.to_le_bytes(), 0)
        };
        assert_eq!(grain(0, true), Some(Place::Absent));
        assert_eq!(grain(1, true), Some(Place::Zero));
        assert_eq!(grain(1, false), Some(Place::At(512)));
        assert_eq!(grain(u32::MAX, true), Some(Place::At(0x1ff_ffff_fe00)));
    }
}
