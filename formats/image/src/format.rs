//! The supported image formats.

use std::fmt;
use std::str::FromStr;

use diskfs_block::{Error, Result};

/// The format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The raw format: the guest's bytes themselves.
    Raw,
    /// QEMU's copy-on-write format, versions 2 and 3.
    Qcow2,
}

impl Format {
    /// Returns the name as QEMU spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "raw" => Ok(Self::Raw),
            "qcow2" => Ok(Self::Qcow2),
            other => Err(Error::unsupported(format!(
                "unsupported image format `{}`",
                other.escape_default()
            ))
            .with_hint("supported: raw, qcow2; convert others with `qemu-img convert -O qcow2`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for format in [Format::Raw, Format::Qcow2] {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
        let e = "vmdk".parse::<Format>().unwrap_err();
        assert_eq!(e.kind(), diskfs_block::ErrorKind::Unsupported);
        assert!(e.to_string().contains("`vmdk`"));
    }
}
