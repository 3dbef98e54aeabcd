//! Digests, the names of blobs (OCI image specification, "Digests").

use std::fmt;

use diskfs_block::{Error, Result};
use sha2::{Digest as _, Sha256, Sha512};

/// The most characters of an invalid digest that an error shows.
const SHOWN_CHARS: usize = 100;

/// The algorithm of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Returns the number of hexadecimal digits.
    const fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// The digest of a blob: its algorithm and hexadecimal digits. It contains no other characters, so
/// that it can be a part of a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

impl Digest {
    /// Parses `sha256:` or `sha512:` and hexadecimal digits in lower case.
    ///
    /// # Errors
    /// `Unsupported` for another algorithm; `Corrupt` for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        let invalid = || Error::corrupt(format!("invalid digest `{}`", shown.escape_debug()));
        let (name, hex) = text.split_once(':').ok_or_else(invalid)?;
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            "blake3" => {
                let reason = "unsupported digest: the algorithm is `blake3`";
                return Err(Error::unsupported(reason));
            }
            _ => return Err(invalid()),
        };
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != algorithm.digits() || !hex.bytes().all(is_digit) {
            return Err(invalid());
        }
        Ok(Self {
            algorithm,
            hex: hex.to_owned(),
        })
    }

    /// Returns the SHA-256 digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Returns the name of the blob's file in a layout: `blobs/sha256/...`.
    pub fn blob_name(&self) -> String {
        format!("blobs/{}/{}", self.algorithm.name(), self.hex)
    }

    /// Returns the hexadecimal digits, without the algorithm.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// Returns the computation of a digest of the same algorithm.
    pub fn hasher(&self) -> Hasher {
        Hasher(match self.algorithm {
            Algorithm::Sha256 => State::Sha256(Sha256::new()),
            Algorithm::Sha512 => State::Sha512(Sha512::new()),
        })
    }

    /// Fails if the bytes have another digest. `what` names them in the error.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn verify(&self, bytes: &[u8], what: &str) -> Result<()> {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        self.verify_found(&hasher.finish(), what)
    }

    /// Fails if the digest that was found is another one. `what` names the bytes in the error.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn verify_found(&self, found: &Self, what: &str) -> Result<()> {
        if found == self {
            return Ok(());
        }
        let reason = format!("wrong digest of the {what}: expected {self}, found {found}");
        Err(Error::corrupt(reason).with_hint("get the image again from its source"))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The computation of a digest: by default of SHA-256.
#[derive(Debug, Clone, Default)]
pub struct Hasher(State);

#[derive(Debug, Clone)]
enum State {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Default for State {
    fn default() -> Self {
        Self::Sha256(Sha256::default())
    }
}

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
        }
    }

    /// Returns the digest of all bytes.
    pub fn finish(self) -> Digest {
        let (algorithm, hex) = match self.0 {
            State::Sha256(state) => (Algorithm::Sha256, hex(&state.finalize())),
            State::Sha512(state) => (Algorithm::Sha512, hex(&state.finalize())),
        };
        Digest { algorithm, hex }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

#[cfg(test)]
mod tests {
    use diskfs_block::ErrorKind;

    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests_are_parsed_strictly() {
        let digest = Digest::parse(EMPTY).unwrap();
        assert_eq!(digest.to_string(), EMPTY);
        assert_eq!(digest, Digest::of(b""));
        assert_eq!(
            digest.blob_name(),
            EMPTY.replace(':', "/").replacen("sha", "blobs/sha", 1)
        );
        let upper = EMPTY.to_uppercase();
        for bad in [
            "",
            "sha256:",
            "sha256:../../etc/passwd",
            "../..:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            &upper,
            &EMPTY[..70],
            &EMPTY.replace("e3", "+3"),
            &EMPTY.replace("e3b0", "/../"),
            &EMPTY.replace(':', "/"),
        ] {
            let kind = Digest::parse(bad).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::Corrupt, "{bad}");
        }
        let other = Digest::parse("blake3:00").unwrap_err().kind();
        assert_eq!(other, ErrorKind::Unsupported);
    }

    #[test]
    fn other_bytes_are_refused() {
        let digest = Digest::of(b"text");
        digest.verify(b"text", "manifest").unwrap();
        let error = digest.verify(b"test", "manifest").unwrap_err();
        assert!(error.to_string().contains("wrong digest of the manifest"));
        let zeroes = format!("sha512:{}", "0".repeat(128));
        let other = Digest::parse(&zeroes).unwrap();
        assert!(other.verify(b"text", "manifest").is_err());
    }
}
