//! Checksums of whole files that are expected on the command line.

mod list;

use std::fmt;
use std::str::FromStr;

use diskfs::objects::is_uri;
use diskfs::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256, Sha512};

use super::remote::{self, shown};

/// The longest list of checksums that is read.
const MAX_LIST_BYTES: u64 = 4 << 20;

/// An expected checksum, as the command line gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExpectedChecksum {
    Known(Checksum),
    /// The checksum is in a list, such as SHA256SUMS, with this URI.
    Listed(String),
}

/// The algorithm of a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Sha256,
    Sha512,
}

/// A checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checksum {
    algorithm: Algorithm,
    digest: Vec<u8>,
}

/// The state of the computation of a checksum.
#[derive(Debug, Clone)]
pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl FromStr for ExpectedChecksum {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if is_uri(text) {
            return Ok(Self::Listed(text.to_owned()));
        }
        let known = match text.split_once(':') {
            Some(("sha256", hex)) => Checksum::parse(hex, Some(Algorithm::Sha256)),
            Some(("sha512", hex)) => Checksum::parse(hex, Some(Algorithm::Sha512)),
            _ => None,
        };
        let expected = "expected sha256: with 64 digits, sha512: with 128, or the URL of a list";
        known.map(Self::Known).ok_or_else(|| expected.to_owned())
    }
}

impl ExpectedChecksum {
    /// Returns the URI of the list that is fetched.
    pub(crate) fn list(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Listed(list) => Some(list),
        }
    }

    /// Returns the checksum of the file at `uri`. A list is fetched for that.
    pub(crate) fn resolve(&self, uri: &str) -> Result<Checksum> {
        let list = match self {
            Self::Known(checksum) => return Ok(checksum.clone()),
            Self::Listed(list) => list,
        };
        let in_list = |error: Error| error.in_file(shown(list));
        let text = fetch(list)?;
        let name = list::name_of(uri);
        list::find(&text, &name).ok_or_else(|| {
            let reason = format!("the list has no checksum of `{}`", name.escape_debug());
            in_list(Error::new(ErrorKind::NotFound, reason))
        })
    }
}

/// Returns the text of a list of checksums.
fn fetch(uri: &str) -> Result<String> {
    let list = remote::images().open(uri)?.device;
    let size_bytes = list.size_bytes();
    if size_bytes > MAX_LIST_BYTES {
        let reason = "the list of checksums is longer than 4 MiB";
        return Err(Error::new(ErrorKind::Invalid, reason).in_file(shown(uri)));
    }
    let mut bytes = vec![0; usize::try_from(size_bytes).unwrap_or(0)];
    list.read_at(0, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Algorithm {
    fn digest_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }
}

impl Checksum {
    /// Parses a digest in hexadecimal digits, whose number tells the algorithm if none is given.
    fn parse(hex: &str, algorithm: Option<Algorithm>) -> Option<Self> {
        let digits: Option<Vec<u32>> = hex.chars().map(|digit| digit.to_digit(16)).collect();
        let pairs = digits?;
        let digest: Vec<u8> = pairs
            .chunks_exact(2)
            .filter_map(|pair| u8::try_from(pair[0] * 16 + pair[1]).ok())
            .collect();
        let of_length = |it: &Algorithm| pairs.len() == 2 * it.digest_bytes();
        let algorithm = match algorithm {
            Some(algorithm) => Some(algorithm).filter(of_length),
            None => [Algorithm::Sha256, Algorithm::Sha512]
                .into_iter()
                .find(of_length),
        };
        Some(Self {
            algorithm: algorithm?,
            digest,
        })
    }

    /// Returns the state for computing a checksum of this kind.
    pub(crate) fn hasher(&self) -> Hasher {
        match self.algorithm {
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
            Algorithm::Sha512 => Hasher::Sha512(Sha512::new()),
        }
    }

    /// Compares the checksum with that of the bytes that a hasher got.
    ///
    /// # Errors
    /// `Corrupt` if it is another one.
    pub(crate) fn check(&self, hasher: Hasher) -> Result<()> {
        let found = hasher.finish();
        if found == *self {
            return Ok(());
        }
        let reason = format!("the checksum of the file is {found}, expected {self}");
        Err(Error::new(ErrorKind::Corrupt, reason))
    }
}

impl Hasher {
    /// Adds bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(state) => state.update(bytes),
            Self::Sha512(state) => state.update(bytes),
        }
    }

    /// Returns the checksum of the bytes.
    pub(crate) fn finish(self) -> Checksum {
        match self {
            Self::Sha256(state) => Checksum {
                algorithm: Algorithm::Sha256,
                digest: state.finalize().to_vec(),
            },
            Self::Sha512(state) => Checksum {
                algorithm: Algorithm::Sha512,
                digest: state.finalize().to_vec(),
            },
        }
    }
}

/// Shows it as the command line takes it.
impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm.name())?;
        self.digest
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_have_an_algorithm_and_all_digits() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let Ok(ExpectedChecksum::Known(known)) = empty.to_uppercase().replace("SHA", "sha").parse()
        else {
            panic!("{empty}");
        };
        assert_eq!(known.to_string(), empty);
        known.check(known.hasher()).unwrap();
        let mut other = known.hasher();
        other.update(b"x");
        assert_eq!(known.check(other).unwrap_err().kind(), ErrorKind::Corrupt);
        for text in [
            &empty[..empty.len() - 1],
            "sha512:00",
            "md5:d41d8cd98f00b204e9800998ecf8427e",
            "e3b0c442",
            "SHA256SUMS",
            "sha256:",
        ] {
            assert!(text.parse::<ExpectedChecksum>().is_err(), "{text}");
        }
    }
}
