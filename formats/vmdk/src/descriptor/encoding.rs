//! The text encodings of descriptors.

use std::borrow::Cow;

use diskfs_block::{Error, Result};

/// The encoding of a descriptor, as far as it is stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Not stated: UTF-8 where the bytes are valid, otherwise Windows-1252.
    Unstated,
    Utf8,
    Windows1252,
    Other(String),
}

/// The characters of the bytes 0x80 to 0x9f in Windows-1252. The five unassigned ones are those of
/// Latin 1, as in browsers (<https://encoding.spec.whatwg.org/#windows-1252>).
const WINDOWS_1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

impl Encoding {
    pub(super) fn parse(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "utf-8" | "utf8" => Self::Utf8,
            "windows-1252" => Self::Windows1252,
            _ => Self::Other(name.to_owned()),
        }
    }

    /// Decodes a line. ASCII is the same in all encodings.
    ///
    /// # Errors
    /// `Unsupported` for other characters in an unknown encoding, `Corrupt` for invalid UTF-8.
    pub(super) fn decode<'a>(&self, line: &'a [u8], at: u64) -> Result<Cow<'a, str>> {
        let utf8 = std::str::from_utf8(line);
        match (self, utf8) {
            (_, Ok(text)) if text.is_ascii() => Ok(Cow::Borrowed(text)),
            (Self::Unstated | Self::Utf8, Ok(text)) => Ok(Cow::Borrowed(text)),
            (Self::Unstated | Self::Windows1252, _) => Ok(windows_1252(line).into()),
            (Self::Utf8, Err(_)) => {
                Err(Error::corrupt("invalid descriptor: a line is not valid UTF-8").at(at))
            }
            (Self::Other(name), _) => {
                let reason = format!("unsupported encoding `{name}` of a VMDK descriptor");
                Err(Error::unsupported(reason).at(at))
            }
        }
    }
}

fn windows_1252(line: &[u8]) -> String {
    let decode = |byte: &u8| match byte.checked_sub(0x80) {
        Some(index) => *WINDOWS_1252
            .get(usize::from(index))
            .unwrap_or(&char::from(*byte)),
        None => char::from(*byte),
    };
    line.iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_is_decoded() {
        let decode = |encoding: &str, line: &[u8]| {
            let encoding = Encoding::parse(encoding);
            encoding.decode(line, 0).map(Cow::into_owned)
        };
        assert_eq!(
            decode("windows-1252", b"\x80 \xe4\xff").unwrap(),
            "\u{20ac} \u{e4}\u{ff}"
        );
        assert_eq!(decode("UTF-8", "\u{e4}".as_bytes()).unwrap(), "\u{e4}");
        assert_eq!(decode("GBK", b"disk.vmdk").unwrap(), "disk.vmdk");
        assert!(decode("GBK", b"\xc4\xe3").is_err());
        assert!(decode("UTF-8", b"\xe4").is_err());
        assert_eq!(Encoding::Unstated.decode(b"\xe4", 0).unwrap(), "\u{e4}");
    }
}
