//! Extended attributes as libarchive stores them: percent-encoded names and values in base64
//! (libarchive's manual page tar(5), "Pax Interchange Format").

use diskfs_disk::Result;

use crate::damage::wrong;

/// Decodes a name: `%` and two hexadecimal digits stand for a byte.
pub(crate) fn name(encoded: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = encoded;
    while let Some((first, after)) = rest.split_first() {
        let byte = after.get(..2).filter(|_| *first == b'%').and_then(hex);
        decoded.push(byte.unwrap_or(*first));
        rest = match byte {
            Some(_) => after.get(2..).unwrap_or_default(),
            None => after,
        };
    }
    decoded
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok()?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// Decodes base64, with or without padding.
///
/// # Errors
/// `Corrupt` for another character.
pub(crate) fn value(encoded: &[u8]) -> Result<Vec<u8>> {
    let mut decoded = Vec::new();
    let (mut bits, mut bit_count) = (0_u32, 0_u32);
    for character in encoded.iter().take_while(|character| **character != b'=') {
        let six = sextet(*character).ok_or_else(|| wrong("extended attribute"))?;
        bits = bits << 6 | u32::from(six);
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            let [_, _, _, byte] = (bits >> bit_count).to_be_bytes();
            decoded.push(byte);
            bits &= (1 << bit_count) - 1;
        }
    }
    Ok(decoded)
}

fn sextet(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded() {
        assert_eq!(name(b"user.a%3Db%zz%2"), b"user.a=b%zz%2");
        for (encoded, decoded) in [
            ("", &b""[..]),
            ("eA==", b"x"),
            ("eHk", b"xy"),
            ("eHl6/w", b"xyz\xff"),
        ] {
            assert_eq!(value(encoded.as_bytes()).unwrap(), decoded);
        }
        assert!(value(b"a b").is_err());
    }
}
