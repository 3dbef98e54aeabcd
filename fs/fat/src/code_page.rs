//! Code pages for short names. The filesystem does not record which one it uses.

use std::fmt;

use oem_cp::code_table::DECODING_TABLE_CP_MAP;
use oem_cp::code_table_type::TableType;

/// The default code page of Linux and most formatters (`CONFIG_FAT_DEFAULT_CODEPAGE`).
const USUAL: u16 = 437;

/// A code page of DOS with one byte per character, which decodes short names.
#[derive(Clone, Copy)]
pub struct CodePage {
    number: u16,
    /// The characters of the bytes from 0x80 on.
    upper_half: Option<&'static TableType>,
}

impl CodePage {
    /// Returns the code page with this number, as in mount(8)'s option `codepage=`; `None` for an
    /// unknown one.
    pub fn new(number: u16) -> Option<Self> {
        let upper_half = DECODING_TABLE_CP_MAP.get(&number)?;
        Some(Self {
            number,
            upper_half: Some(upper_half),
        })
    }

    /// Returns the numbers of all known code pages.
    pub fn numbers() -> Vec<u16> {
        let mut numbers: Vec<u16> = DECODING_TABLE_CP_MAP.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// Returns the number of the code page.
    pub const fn number(self) -> u16 {
        self.number
    }

    /// Decodes a byte; returns `_` if the code page has no character for it.
    pub(crate) fn decode(self, byte: u8) -> char {
        let Some(nth) = byte.checked_sub(0x80).map(usize::from) else {
            return char::from(byte);
        };
        let found = match self.upper_half {
            Some(TableType::Complete(table)) => table.get(nth).copied(),
            Some(TableType::Incomplete(table)) => table.get(nth).copied().flatten(),
            None => None,
        };
        found.unwrap_or('_')
    }
}

impl Default for CodePage {
    /// Returns code page 437, the default of Linux.
    fn default() -> Self {
        Self {
            number: USUAL,
            upper_half: DECODING_TABLE_CP_MAP.get(&USUAL),
        }
    }
}

impl PartialEq for CodePage {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for CodePage {}

impl fmt::Debug for CodePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodePage({})", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_both_halves() {
        let page = CodePage::default();
        assert_eq!(page.number(), 437);
        assert_eq!(
            (page.decode(b'A'), page.decode(0x81), page.decode(0xe1)),
            ('A', '\u{fc}', '\u{df}')
        );
        assert_eq!(page.decode(0xff), '\u{a0}');
        let cyrillic = CodePage::new(866).unwrap();
        assert_eq!(cyrillic.decode(0x80), '\u{410}');
        let thai = CodePage::new(874).unwrap();
        assert_eq!((thai.decode(0xa1), thai.decode(0xff)), ('\u{e01}', '_'));
    }

    #[test]
    fn all_numbers_are_known() {
        let numbers = CodePage::numbers();
        assert!(numbers.len() >= 18, "{numbers:?}");
        for number in numbers {
            let page = CodePage::new(number).unwrap();
            assert_eq!(page.decode(b'~'), '~');
        }
        assert_eq!(CodePage::new(932), None);
    }
}
