//! Sizes.

use std::fmt;

use serde::{Deserialize, Serialize};

use diskfs_disk::parse_bytes;

/// A size: a number of bytes or text with a unit of 1024, as `2G`; `fit`, `fit+10%` or `fit+64M` for
/// the smallest size for the contents, and some more; `rest` for the remaining space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "SizeText", into = "String")]
pub enum Size {
    /// A number of bytes.
    Bytes(u64),
    /// The smallest size for the contents, and some more.
    Fit(Extra),
    /// The remaining space.
    Rest,
}

/// The space that a fitting size has beyond the needs of the contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// A share of the fitting size.
    Percent(u64),
    /// A number of bytes.
    Bytes(u64),
}

/// A size: a number of bytes or text with a unit of 1024, as `2G`; `fit`, `fit+10%` or `fit+64M` for
/// the smallest size for the contents, and some more; `rest` for the remaining space.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum SizeText {
    Number(u64),
    Text(String),
}

impl Size {
    /// The smallest size for the contents.
    pub const FIT: Self = Self::Fit(Extra::Bytes(0));

    /// Parses a size: `2G`, `fit`, `fit+10%`, `fit+64M` or `rest`.
    ///
    /// # Errors
    /// A text for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "rest" {
            return Ok(Self::Rest);
        }
        let Some(extra) = text.strip_prefix("fit") else {
            return parse_bytes(text).map(Self::Bytes);
        };
        let invalid = || format!("invalid size `{text}`: expected fit, fit+N% or fit+SIZE");
        let extra = match extra.strip_prefix('+') {
            None if extra.is_empty() => Extra::Bytes(0),
            None => return Err(invalid()),
            Some(more) => match more.strip_suffix('%') {
                Some(percent) => Extra::Percent(percent.parse().map_err(|_| invalid())?),
                None => Extra::Bytes(parse_bytes(more)?),
            },
        };
        Ok(Self::Fit(extra))
    }
}

impl Extra {
    /// Returns the fitting size with the additional space.
    pub fn added_to(self, fitting_bytes: u64) -> u64 {
        let more = match self {
            Self::Percent(percent) => fitting_bytes.div_ceil(100).saturating_mul(percent),
            Self::Bytes(bytes) => bytes,
        };
        fitting_bytes.saturating_add(more)
    }
}

impl Default for Size {
    fn default() -> Self {
        Self::FIT
    }
}

impl TryFrom<SizeText> for Size {
    type Error = String;

    fn try_from(text: SizeText) -> Result<Self, String> {
        match text {
            SizeText::Number(bytes) => Ok(Self::Bytes(bytes)),
            SizeText::Text(text) => Self::parse(&text),
        }
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Fit(Extra::Bytes(0)) => f.write_str("fit"),
            Self::Fit(Extra::Bytes(bytes)) => write!(f, "fit+{bytes}"),
            Self::Fit(Extra::Percent(percent)) => write!(f, "fit+{percent}%"),
            Self::Rest => f.write_str("rest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, size) in [
            ("2G", Size::Bytes(2 << 30)),
            ("fit", Size::FIT),
            ("fit+10%", Size::Fit(Extra::Percent(10))),
            ("fit+1k", Size::Fit(Extra::Bytes(1024))),
            ("rest", Size::Rest),
        ] {
            assert_eq!(Size::parse(text), Ok(size));
            assert_eq!(Size::parse(&size.to_string()), Ok(size));
        }
        for text in ["fit10%", "fit+", "fit+x%", "most", ""] {
            assert!(Size::parse(text).is_err(), "{text}");
        }
        assert_eq!(Extra::Percent(10).added_to(1000), 1100);
    }
}
