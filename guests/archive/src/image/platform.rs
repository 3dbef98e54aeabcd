//! The platforms of images: operating system, architecture and variant, with the names of Go.

use std::fmt;

use serde::Deserialize;

use diskfs_disk::{Error, ErrorKind, Result};

/// The platform of an image. In a selection, an empty field matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// The operating system: `linux`.
    #[serde(default)]
    pub os: String,
    /// The architecture: `amd64`, `arm64`.
    #[serde(default)]
    pub architecture: String,
    /// The variant of the architecture: `v7` of `arm`.
    #[serde(default)]
    pub variant: String,
}

impl Platform {
    /// Returns Linux on the architecture of the host.
    pub fn host() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "x86" => "386",
            "aarch64" => "arm64",
            "loongarch64" => "loong64",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            other => other,
        };
        Self {
            os: "linux".into(),
            architecture: architecture.into(),
            variant: String::new(),
        }
    }

    /// Parses `OS/ARCHITECTURE[/VARIANT]` or only `ARCHITECTURE`, which is for Linux.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<_> = text.split('/').collect();
        let (os, architecture, variant) = match parts.as_slice() {
            [architecture] => ("linux", *architecture, ""),
            [os, architecture] => (*os, *architecture, ""),
            [os, architecture, variant] => (*os, *architecture, *variant),
            _ => ("", "", ""),
        };
        if os.is_empty() || architecture.is_empty() {
            let reason = format!("invalid platform `{}`", text.escape_debug());
            let error = Error::new(ErrorKind::Invalid, reason);
            return Err(error.with_hint("write it as linux/amd64 or linux/arm/v7"));
        }
        // The names of the kernel, and the default variant of arm64.
        let (architecture, variant) = match (architecture, variant) {
            ("x86_64", variant) => ("amd64", variant),
            ("aarch64" | "arm64", "v8") => ("arm64", ""),
            ("aarch64", variant) => ("arm64", variant),
            pair => pair,
        };
        Ok(Self {
            os: os.into(),
            architecture: architecture.into(),
            variant: variant.into(),
        })
    }

    /// Returns true if `other` is this platform, or if this one leaves it open.
    pub(super) fn matches(&self, other: &Self) -> bool {
        let matches = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        matches(&self.os, &other.os)
            && matches(&self.architecture, &other.architecture)
            && matches(&self.variant, &other.variant)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = if self.variant.is_empty() { "" } else { "/" };
        let text = format!("{}/{}{variant}{}", self.os, self.architecture, self.variant);
        write!(f, "{}", text.escape_debug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_parsed_and_matched() {
        let parse = |text: &str| Platform::parse(text).unwrap();
        for (text, shown) in [
            ("x86_64", "linux/amd64"),
            ("linux/arm64/v8", "linux/arm64"),
            ("linux/arm/v7", "linux/arm/v7"),
            ("windows/amd64", "windows/amd64"),
        ] {
            assert_eq!(parse(text).to_string(), shown);
        }
        assert!(parse("arm").matches(&parse("linux/arm/v6")));
        assert!(!parse("linux/arm/v7").matches(&parse("linux/arm/v6")));
        for bad in ["", "/", "linux/", "a/b/c/d"] {
            assert!(Platform::parse(bad).is_err(), "{bad}");
        }
    }
}
