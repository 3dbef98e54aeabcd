//! Long names: up to 20 entries before the short one, with 13 UTF-16 units in each (fatgen103, "FAT
//! Long Directory Entries").

use diskfs_clusters::{ENTRY_LEN, MAX_NAME_UNITS, RawEntry};

use crate::bytes::{le16, put};
use crate::directory_entry::LONG_NAME;

/// The number of UTF-16 units in an entry.
const UNITS: usize = 13;
/// The offsets of the units in an entry.
const UNIT_OFFSETS: [usize; UNITS] = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];
/// The flag in the sequence number of the entry with the name's end, which comes first.
const LAST: u8 = 0x40;
/// The maximum number of entries of a name.
const MAX_ENTRIES: u8 = 20;

/// Returns the entries of a name in the order of the directory, for use before the short entry.
pub(crate) fn entries(units: &[u16], checksum: u8) -> Vec<RawEntry> {
    let chunks: Vec<&[u16]> = units.chunks(UNITS).collect();
    let numbered = (1..=MAX_ENTRIES).zip(&chunks);
    let mut entries: Vec<_> = numbered
        .map(|(number, chunk)| long_entry(number, chunk, checksum))
        .collect();
    if let Some([number, ..]) = entries.last_mut() {
        *number |= LAST;
    }
    entries.reverse();
    entries
}

fn long_entry(number: u8, units: &[u16], checksum: u8) -> RawEntry {
    let mut entry = [0; ENTRY_LEN];
    entry[0] = number;
    entry[11] = LONG_NAME;
    entry[13] = checksum;
    // A zero terminates a name that does not fill its last entry; the rest of the entry is 0xffff.
    let padded = units.iter().copied().chain([0]).chain([0xffff; UNITS]);
    for (offset, unit) in UNIT_OFFSETS.into_iter().zip(padded) {
        put(&mut entry, offset, &unit.to_le_bytes());
    }
    entry
}

/// Folds case, so that names that differ in case alone become equal. Only characters with a single
/// upper-case counterpart are folded, as in the tables of Windows.
pub(crate) fn fold(units: &[u16]) -> Vec<u16> {
    units.iter().map(|&unit| fold_unit(unit)).collect()
}

fn fold_unit(unit: u16) -> u16 {
    let Some(c) = char::from_u32(unit.into()) else {
        return unit;
    };
    if c.is_ascii() {
        return u16::from(u8::try_from(c).map_or(0, |c| c.to_ascii_uppercase()));
    }
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) => u16::try_from(u32::from(upper)).unwrap_or(unit),
        _ => unit,
    }
}

/// Folds the case of a name as a listing shows it.
pub(crate) fn fold_shown(name: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(name);
    fold(
        &text
            .trim_end_matches('.')
            .encode_utf16()
            .collect::<Vec<_>>(),
    )
}

/// The state of assembling a long name from consecutive entries.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// The parts so far, starting with the end of the name.
    parts: Vec<[u16; UNITS]>,
    checksum: u8,
    /// The sequence number that the next part must have; 0 if the short entry must follow.
    next: u8,
}

impl Assembly {
    /// Adds an entry. An entry that does not continue the name starts a new one, or is ignored.
    pub(crate) fn take(&mut self, entry: &RawEntry) {
        let [number, ..] = *entry;
        let checksum = entry[13];
        let begins = number & LAST != 0;
        let number = number & !LAST;
        if begins {
            *self = Self::default();
            self.checksum = checksum;
        } else if self.parts.is_empty() || number != self.next || checksum != self.checksum {
            *self = Self::default();
            return;
        }
        if !(1..=MAX_ENTRIES).contains(&number) {
            *self = Self::default();
            return;
        }
        let mut units = [0; UNITS];
        for (unit, offset) in units.iter_mut().zip(UNIT_OFFSETS) {
            *unit = le16(entry, offset).unwrap_or(0);
        }
        self.parts.push(units);
        self.next = number.saturating_sub(1);
    }

    /// Returns the number of entries so far.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns the name if it is complete, belongs to the short entry with this checksum, and is
    /// valid for a file. Resets the state.
    pub(crate) fn finish(&mut self, checksum: u8) -> Option<Vec<u8>> {
        let whole = std::mem::take(self);
        if whole.parts.is_empty() || whole.next != 0 || whole.checksum != checksum {
            return None;
        }
        let units = whole.parts.iter().rev().flatten().copied();
        let units: Vec<u16> = units
            .take_while(|&unit| unit != 0)
            .take(MAX_NAME_UNITS)
            .collect();
        let text = String::from_utf16_lossy(&units);
        let sane = !matches!(text.as_str(), "" | "." | "..") && !text.contains('/');
        sane.then(|| text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(entries: &[[u8; 32]], checksum: u8) -> Option<Vec<u8>> {
        let mut assembly = Assembly::default();
        for entry in entries {
            assembly.take(entry);
        }
        assembly.finish(checksum)
    }

    #[test]
    fn every_length_comes_back() {
        for len in 1..=255 {
            let text = "\u{e4}b".chars().cycle().take(len).collect::<String>();
            let entries = entries(&text.encode_utf16().collect::<Vec<_>>(), 7);
            assert_eq!(entries.len(), len.div_ceil(13));
            assert_eq!(assemble(&entries, 7).unwrap(), text.as_bytes());
            assert_eq!(assemble(&entries, 8), None);
            assert_eq!(assemble(&entries[1..], 7), None);
        }
    }

    #[test]
    fn case_is_folded_one_to_one() {
        let key = |name: &str| fold_shown(name.as_bytes());
        assert_eq!(key("\u{e4}a\u{3b1}"), key("\u{c4}A\u{391}"));
        assert_ne!(key("\u{df}"), key("SS"));
    }

    #[test]
    fn a_hostile_name_is_none() {
        let entries = |text: &str| entries(&text.encode_utf16().collect::<Vec<_>>(), 1);
        for text in ["..", ".", "a/b", "../../etc"] {
            assert_eq!(assemble(&entries(text), 1), None, "{text}");
        }
    }
}
