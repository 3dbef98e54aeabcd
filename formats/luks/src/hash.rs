//! The hash functions that headers use.

use pbkdf2::pbkdf2_hmac;
use sha2::Digest;
use zeroize::Zeroizing;

use crate::problem::Problem;

/// A hash function, by its name in the Linux kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
    Ripemd160,
    Whirlpool,
}

/// Expands to `$body` with `$D` as the type that computes the hash.
macro_rules! with_digest {
    ($hash:expr, $D:ident => $body:expr) => {
        match $hash {
            Hash::Sha1 => with_digest!(@ $D, sha1::Sha1, $body),
            Hash::Sha224 => with_digest!(@ $D, sha2::Sha224, $body),
            Hash::Sha256 => with_digest!(@ $D, sha2::Sha256, $body),
            Hash::Sha384 => with_digest!(@ $D, sha2::Sha384, $body),
            Hash::Sha512 => with_digest!(@ $D, sha2::Sha512, $body),
            Hash::Ripemd160 => with_digest!(@ $D, ripemd::Ripemd160, $body),
            Hash::Whirlpool => with_digest!(@ $D, whirlpool::Whirlpool, $body),
        }
    };
    (@ $D:ident, $type:ty, $body:expr) => {{
        type $D = $type;
        $body
    }};
}

impl Hash {
    pub(crate) fn parse(name: &str) -> Result<Self, Problem> {
        Ok(match name {
            "sha1" => Self::Sha1,
            "sha224" => Self::Sha224,
            "sha256" => Self::Sha256,
            "sha384" => Self::Sha384,
            "sha512" => Self::Sha512,
            "ripemd160" => Self::Ripemd160,
            "whirlpool" => Self::Whirlpool,
            _ => {
                let reason = format!("unsupported hash `{}`", name.escape_debug());
                return Err(Problem::unsupported(reason));
            }
        })
    }

    /// Returns the length of the hash in bytes.
    pub(crate) fn len_bytes(self) -> usize {
        with_digest!(self, D => <D as Digest>::output_size())
    }

    /// Hashes the concatenation of the parts.
    pub(crate) fn digest(self, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        with_digest!(self, D => {
            let mut state = D::new();
            for part in parts {
                state.update(part);
            }
            Zeroizing::new(state.finalize().to_vec())
        })
    }

    /// Derives a key by PBKDF2 with HMAC of this hash (RFC 8018, 5.2).
    pub(crate) fn pbkdf2(self, secret: &[u8], salt: &[u8], iterations: u32, out: &mut [u8]) {
        with_digest!(self, D => pbkdf2_hmac::<D>(secret, salt, iterations, out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pbkdf2_is_that_of_rfc_6070() {
        let mut out = [0; 20];
        Hash::Sha1.pbkdf2(b"password", b"salt", 2, &mut out);
        assert_eq!(out[..4], [0xea, 0x6c, 0x01, 0x4d]);
    }

    #[test]
    fn names_and_lengths() {
        for (name, len) in [
            ("sha1", 20),
            ("sha224", 28),
            ("sha256", 32),
            ("sha384", 48),
            ("sha512", 64),
            ("ripemd160", 20),
            ("whirlpool", 64),
        ] {
            let hash = Hash::parse(name).unwrap();
            assert_eq!(hash.len_bytes(), len, "{name}");
            assert_eq!(hash.digest(&[b"a", b"b"]), hash.digest(&[b"ab"]), "{name}");
        }
        assert!(Hash::parse("md5").is_err());
    }
}
