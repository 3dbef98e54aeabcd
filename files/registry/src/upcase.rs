//! Upper-case conversion as on Windows: one UTF-16 unit at a time, and reversible.

/// Converts a UTF-16 unit to upper case.
///
/// Windows has a table (`l_intl.nls`), which is the same as NTFS's `$UpCase`. It is nearly
/// Unicode's simple case mapping, limited to pairs: a letter is left unchanged if its upper-case
/// form has another lower-case letter (such as `ſ` and `ς`).
pub(crate) fn upcase(unit: u16) -> u16 {
    if let Ok(byte) = u8::try_from(unit)
        && byte.is_ascii()
    {
        return u16::from(byte.to_ascii_uppercase());
    }
    match unit {
        // Greek letters with an iota subscript. Their capitals are title-case letters in Unicode.
        0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7 => unit.saturating_add(8),
        0x1fb3 | 0x1fc3 | 0x1ff3 => unit.saturating_add(9),
        _ => simple(unit).unwrap_or(unit),
    }
}

fn simple(unit: u16) -> Option<u16> {
    let small = char::from_u32(u32::from(unit))?;
    let capital = only(small.to_uppercase())?;
    (only(capital.to_lowercase())? == small).then_some(())?;
    u16::try_from(u32::from(capital)).ok()
}

fn only(mut letters: impl Iterator<Item = char>) -> Option<char> {
    let first = letters.next()?;
    letters.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_become_those_of_windows() {
        for (small, capital) in [
            "aA", "zZ", "äÄ", "ÿŸ", "ßß", "µµ", "ıı", "ſſ", "ςς", "σΣ", "яЯ",
        ]
        .map(|pair| {
            let units: Vec<u16> = pair.encode_utf16().collect();
            (units[0], units[1])
        }) {
            assert_eq!(upcase(small), capital, "{small:#x}");
            assert_eq!(upcase(capital), capital);
        }
        // An unpaired surrogate.
        assert_eq!(upcase(0xd83d), 0xd83d);
    }
}
