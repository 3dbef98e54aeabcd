//! The data of values, decoded by type. Specification, "Data types"; `winnt.h`, `REG_*`.

use std::fmt;

use crate::name::units;

/// The type of a value's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataType(pub u32);

impl DataType {
    /// No type, `REG_NONE`.
    pub const NONE: Self = Self(0);
    /// A text, `REG_SZ`.
    pub const STRING: Self = Self(1);
    /// Text with variables, `REG_EXPAND_SZ`.
    pub const EXPAND_STRING: Self = Self(2);
    /// Arbitrary bytes, `REG_BINARY`.
    pub const BINARY: Self = Self(3);
    /// A 32-bit number, `REG_DWORD`.
    pub const DWORD: Self = Self(4);
    /// A big-endian 32-bit number, `REG_DWORD_BIG_ENDIAN`.
    pub const DWORD_BIG_ENDIAN: Self = Self(5);
    /// The path of another key, `REG_LINK`.
    pub const LINK: Self = Self(6);
    /// A list of texts, `REG_MULTI_SZ`.
    pub const MULTI_STRING: Self = Self(7);
    /// A 64-bit number, `REG_QWORD`.
    pub const QWORD: Self = Self(11);
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "REG_NONE",
            1 => "REG_SZ",
            2 => "REG_EXPAND_SZ",
            3 => "REG_BINARY",
            4 => "REG_DWORD",
            5 => "REG_DWORD_BIG_ENDIAN",
            6 => "REG_LINK",
            7 => "REG_MULTI_SZ",
            8 => "REG_RESOURCE_LIST",
            9 => "REG_FULL_RESOURCE_DESCRIPTOR",
            10 => "REG_RESOURCE_REQUIREMENTS_LIST",
            11 => "REG_QWORD",
            other => return write!(f, "{other:#x}"),
        })
    }
}

/// The decoded data of a value. In texts, invalid Unicode becomes U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Text up to its first NUL, `REG_SZ`.
    String(String),
    /// Text with variables such as `%SystemRoot%\x`, `REG_EXPAND_SZ`.
    ExpandString(String),
    /// The path of another key, `REG_LINK`.
    Link(String),
    /// A list of texts, `REG_MULTI_SZ`.
    MultiString(Vec<String>),
    /// A 32-bit number, `REG_DWORD`.
    Dword(u32),
    /// A big-endian 32-bit number, `REG_DWORD_BIG_ENDIAN`.
    DwordBigEndian(u32),
    /// A 64-bit number, `REG_QWORD`.
    Qword(u64),
    /// Arbitrary bytes, `REG_BINARY`.
    Binary(Vec<u8>),
    /// Data of another type, or a number whose length does not fit its type.
    Other(DataType, Vec<u8>),
}

impl Value {
    pub(crate) fn new(data_type: DataType, bytes: Vec<u8>) -> Self {
        let number = match (data_type, bytes.as_slice()) {
            (DataType::DWORD, &[a, b, c, d]) => Some(Self::Dword(u32::from_le_bytes([a, b, c, d]))),
            (DataType::DWORD_BIG_ENDIAN, &[a, b, c, d]) => {
                Some(Self::DwordBigEndian(u32::from_be_bytes([a, b, c, d])))
            }
            (DataType::QWORD, eight) => eight
                .try_into()
                .ok()
                .map(|eight| Self::Qword(u64::from_le_bytes(eight))),
            _ => None,
        };
        number.unwrap_or_else(|| match data_type {
            DataType::STRING => Self::String(text(&bytes)),
            DataType::EXPAND_STRING => Self::ExpandString(text(&bytes)),
            DataType::LINK => Self::Link(text(&bytes)),
            DataType::MULTI_STRING => Self::MultiString(texts(&bytes)),
            DataType::BINARY => Self::Binary(bytes),
            other => Self::Other(other, bytes),
        })
    }

    /// Returns the text, for all types of text.
    pub fn into_text(self) -> Option<String> {
        match self {
            Self::String(text) | Self::ExpandString(text) | Self::Link(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the texts of a `MultiString`, or the single text of another type.
    pub fn into_texts(self) -> Option<Vec<String>> {
        match self {
            Self::MultiString(texts) => Some(texts),
            other => other.into_text().map(|text| vec![text]),
        }
    }

    /// Returns the number, for all types of number.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Dword(number) | Self::DwordBigEndian(number) => Some(u64::from(*number)),
            Self::Qword(number) => Some(*number),
            _ => None,
        }
    }
}

/// Decodes text up to the first NUL. Programs omit the NUL, or leave remnants after it.
fn text(bytes: &[u8]) -> String {
    let units = units(bytes);
    let text = units.split(|unit| *unit == 0).next().unwrap_or_default();
    String::from_utf16_lossy(text)
}

/// Decodes a list of texts. Each text ends with NUL and the list with an empty text, but some
/// programs omit the last NUL or the empty text.
fn texts(bytes: &[u8]) -> Vec<String> {
    let units = units(bytes);
    let texts = units.split(|unit| *unit == 0);
    let texts = texts.take_while(|text| !text.is_empty());
    texts.map(String::from_utf16_lossy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn values_are_what_their_types_say() {
        let of = |data_type: u32, bytes: &[u8]| Value::new(DataType(data_type), bytes.to_vec());
        assert_eq!(of(1, &wide("aß\0x")), Value::String("aß".into()));
        assert_eq!(of(1, &[b'a', 0, b'b']), Value::String("a".into()));
        assert_eq!(of(2, &wide("%a%")), Value::ExpandString("%a%".into()));
        assert_eq!(of(6, &wide("\\R")), Value::Link("\\R".into()));
        let both = Value::MultiString(vec!["a".into(), "bc".into()]);
        assert_eq!(of(7, &wide("a\0bc\0\0")), both);
        assert_eq!(of(7, &wide("a\0bc")), both);
        assert_eq!(of(7, &[]), Value::MultiString(Vec::new()));
        assert_eq!(of(4, &[1, 2, 0, 0]), Value::Dword(0x201));
        assert_eq!(of(4, &[1]), Value::Other(DataType::DWORD, vec![1]));
        assert_eq!(of(5, &[0, 0, 2, 1]), Value::DwordBigEndian(0x201));
        assert_eq!(of(11, &[1, 0, 0, 0, 0, 0, 0, 1]), Value::Qword(1 << 56 | 1));
        assert_eq!(of(3, &[1]), Value::Binary(vec![1]));
        assert_eq!(of(0, &[1]), Value::Other(DataType::NONE, vec![1]));
        assert_eq!(DataType(8).to_string(), "REG_RESOURCE_LIST");
        assert_eq!(DataType(0x1_0000).to_string(), "0x10000");
        assert_eq!(of(5, &[0, 0, 2, 1]).number(), Some(0x201));
        assert_eq!(of(1, &wide("x")).into_texts(), Some(vec!["x".into()]));
    }
}
