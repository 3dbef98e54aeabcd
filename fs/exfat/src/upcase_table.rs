//! The up-case table (exFAT specification, 7.2): which characters differ in case alone.

use crate::bytes::{index, le16};
use crate::checksum::{checksum16, checksum32};
use crate::error::{Corrupt, Result};

/// The table of 7.2.5.1, compressed as it stands there.
pub(crate) const RECOMMENDED: &[u8] = include_bytes!("upcase_table.bin");
/// The checksum that 7.2.5.1 gives of it.
#[cfg(test)]
const RECOMMENDED_CHECKSUM: u32 = 0xe619_d30d;

/// How many code units there are.
const UNITS: usize = 1 << 16;
/// The longest that a table may be: one that is not compressed at all (7.2.5).
pub(crate) const MAX_BYTES: u64 = 2 << 16;
/// In a compressed table: as many code units as the next number says have no other case.
const RUN: u16 = 0xffff;

/// What each unit of UTF-16 becomes.
#[derive(Debug)]
pub(crate) struct UpcaseTable {
    upper: Vec<u16>,
}

impl UpcaseTable {
    /// The table that a filesystem has, if its checksum is right.
    pub(crate) fn parse(bytes: &[u8], stored: u32) -> Result<Self> {
        let found = checksum32(bytes);
        if found == stored {
            return Ok(Self::decompress(bytes));
        }
        Err(Corrupt::UpcaseChecksum { found, stored }.into())
    }

    /// The table that everybody uses.
    pub(crate) fn recommended() -> Self {
        Self::decompress(RECOMMENDED)
    }

    /// What is not told has no other case.
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

    /// What names that differ in case alone have in common.
    pub(crate) fn fold(&self, units: &[u16]) -> Vec<u16> {
        let fold = |unit: &u16| self.upper.get(index(*unit)).copied().unwrap_or(*unit);
        units.iter().map(fold).collect()
    }

    /// The hash of a name (7.6.4).
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
