//! Digests of blobs (OCI image specification, "Digests"), and readers that verify them.

use std::fmt;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use diskfs_disk::{Error, ErrorKind, Result};

/// The SHA-256 digest of a blob.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Parses `sha256:` and 64 hexadecimal digits in lower case.
    ///
    /// # Errors
    /// `Unsupported` for another algorithm; `Invalid` for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = || {
            let shown: String = text.chars().take(100).collect();
            let reason = format!("invalid digest `{}`", shown.escape_debug());
            Error::new(ErrorKind::Invalid, reason)
        };
        let (algorithm, digits) = text.split_once(':').ok_or_else(invalid)?;
        if algorithm == "sha512" || algorithm == "blake3" {
            let reason = format!("digests of the algorithm `{algorithm}` are not supported");
            return Err(Error::new(ErrorKind::Unsupported, reason));
        }
        if algorithm != "sha256" {
            return Err(invalid());
        }
        Self::from_hex(digits).ok_or_else(invalid)
    }

    /// Parses 64 hexadecimal digits in lower case.
    pub(crate) fn from_hex(digits: &str) -> Option<Self> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 64 || !digits.bytes().all(is_digit) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Returns the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the hexadecimal digits, without the algorithm.
    pub fn hex(&self) -> String {
        let digits = self.0.iter().map(|byte| format!("{byte:02x}"));
        digits.collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A reader that compares the digest of all its bytes at the end.
#[derive(Debug)]
pub(crate) struct Verified<R> {
    reader: R,
    /// The hash of the bytes so far; `None` without an expected digest, and after the comparison.
    hash: Option<(Sha256, Digest)>,
    /// The noun for the bytes in the error.
    what: &'static str,
}

impl<R> Verified<R> {
    pub(crate) fn new(reader: R, expected: Option<Digest>, what: &'static str) -> Self {
        Self {
            reader,
            hash: expected.map(|expected| (Sha256::new(), expected)),
            what,
        }
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buf)?;
        if read == 0 && !buf.is_empty() {
            if let Some((hash, expected)) = self.hash.take() {
                let found = Digest(hash.finalize().into());
                if found != expected {
                    return Err(mismatch(self.what, &expected, &found).into());
                }
            }
        } else if let Some((hash, _)) = &mut self.hash {
            hash.update(buf.get(..read).unwrap_or_default());
        }
        Ok(read)
    }
}

/// Returns the error for contents that don't have their digest.
pub(crate) fn mismatch(what: &str, expected: &Digest, found: &Digest) -> Error {
    let reason = format!("wrong digest of the {what}: expected {expected}, found {found}");
    Error::new(ErrorKind::Corrupt, reason).with_hint("get the image again from its source")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests_are_parsed_strictly() {
        let digest = Digest::parse(EMPTY).unwrap();
        assert_eq!(digest.to_string(), EMPTY);
        assert_eq!(digest, Digest::of(b""));
        let upper = EMPTY.to_uppercase();
        for bad in [
            "",
            "sha256:",
            "sha256:../../etc/passwd",
            &upper,
            &EMPTY[..70],
            &EMPTY.replace("e3", "+3"),
            &EMPTY.replace(':', "/"),
        ] {
            let kind = Digest::parse(bad).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::Invalid, "{bad}");
        }
        let sha512 = format!("sha512:{}", "0".repeat(128));
        let kind = Digest::parse(&sha512).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Unsupported);
    }

    #[test]
    fn changed_bytes_are_noticed_at_the_end() {
        let read = |bytes: &'static [u8]| {
            let mut all = Vec::new();
            let expected = Some(Digest::of(b"text"));
            Verified::new(bytes, expected, "layer").read_to_end(&mut all)
        };
        assert_eq!(read(b"text").unwrap(), 4);
        let error = Error::from(read(b"test").unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("wrong digest of the layer"));
    }
}
