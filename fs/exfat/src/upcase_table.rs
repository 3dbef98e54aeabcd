//! The up-case table (exFAT specification, 7.2): the upper-case form of each character.

use crate::bytes::{index, le16};
use crate::checksum::{checksum16, checksum32};
use crate::error::{Corrupt, Result};

/// The recommended table of 7.2.5.1 in its compressed form.
pub(crate) const RECOMMENDED: &[u8] = include_bytes!("upcase_table.bin");
/// The checksum of the recommended table, from 7.2.5.1.
#[cfg(test)]
const RECOMMENDED_CHECKSUM: u32 = 0xe619_d30d;

/// The number of UTF-16 units.
const UNITS: usize = 1 << 16;
/// The size of the largest table in bytes: one without compression (7.2.5).
pub(crate) const MAX_BYTES: u64 = 2 << 16;
/// The marker in a compressed table. The next number is the count of units that have no other case.
const RUN: u16 = 0xffff;

/// The upper-case form of each UTF-16 unit.
#[derive(Debug)]
pub(crate) struct UpcaseTable {
    upper: Vec<u16>,
}

impl UpcaseTable {
    /// Parses the table of a filesystem, and checks its checksum.
    pub(crate) fn parse(bytes: &[u8], stored: u32) -> Result<Self> {
        let found = checksum32(bytes);
        if found == stored {
            return Ok(Self::decompress(bytes));
        }
        Err(Corrupt::UpcaseChecksum { found, stored }.into())
    }

    /// Returns the recommended table.
    pub(crate) fn recommended() -> Self {
        Self::decompress(RECOMMENDED)
    }

    /// Decompresses a table. Units that it does not mention have no other case.
    fn decompress(bytes: &[u8]) -> Self {
        let identity = |from: usize| (0..=u16::MAX).skip(from);
        let mut upper = Vec::with_capacity(UNITS);
        let mut at: usize = 0;
        while let Some(unit) = le16(bytes, at)
            && upper.len() < UNITS
        {
            let run = le16(bytes, at.saturating_add(2)).filter(|_| unit == RUN);
            if let Some(count) = run {
                let from = upper.len();
                upper.extend(identity(from).take(usize::from(count)));
                at = at.saturating_add(4);
            } else {
                upper.push(unit);
                at = at.saturating_add(2);
            }
        }
        let from = upper.len();
        upper.extend(identity(from));
        Self { upper }
    }

    /// Folds case, so that names that differ in case alone become equal.
    pub(crate) fn fold(&self, units: &[u16]) -> Vec<u16> {
        let fold = |unit: &u16| self.upper.get(index(*unit)).copied().unwrap_or(*unit);
        units.iter().map(fold).collect()
    }

    /// Returns the hash of a name (7.6.4).
    pub(crate) fn name_hash(&self, units: &[u16]) -> u16 {
        let bytes: Vec<u8> = self
            .fold(units)
            .into_iter()
            .flat_map(u16::to_le_bytes)
            .collect();
        checksum16(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn the_recommended_table_is_the_specifications() {
        assert_eq!(checksum32(RECOMMENDED), RECOMMENDED_CHECKSUM);
        let table = UpcaseTable::parse(RECOMMENDED, RECOMMENDED_CHECKSUM).unwrap();
        assert_eq!(table.upper.len(), UNITS);
        let fold = |text| table.fold(&units(text));
        assert_eq!(fold("a\u{e4}\u{3b1}z[~"), units("A\u{c4}\u{391}Z[~"));
        assert_eq!(fold("\u{df}\u{ffff}"), units("\u{df}\u{ffff}"));
        assert!(UpcaseTable::parse(RECOMMENDED, 1).is_err());
    }

    #[test]
    fn a_table_of_any_bytes_does_no_harm() {
        for bytes in [
            &b""[..],
            b"\x01",
            b"\xff\xff",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            &vec![7; 200_000],
        ] {
            assert_eq!(UpcaseTable::decompress(bytes).upper.len(), UNITS);
        }
    }
}
