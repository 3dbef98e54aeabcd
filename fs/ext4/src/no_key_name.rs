//! Encrypted names and symlink targets in the form in which the kernel shows them without the key:
//! base64url of two hash words, the first 149 bytes of the ciphertext, and, if it is longer, the
//! SHA-256 of the rest.
//!
//! Source: kernel documentation, "Filesystem-level encryption (fscrypt)", section "Access
//! semantics, without the key".

use sha2::{Digest, Sha256};

use crate::bytes::index;

/// The number of bytes of the ciphertext that are shown unhashed: with the digest of the rest, the
/// longest encoded name has 252 bytes.
const PLAIN_BYTES: usize = 149;

/// Returns the form without the key. The hash words are those by which the kernel finds a
/// directory's entry, and zero for anything else.
pub(crate) fn encode(hash: [u32; 2], name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    bytes.extend(hash.iter().flat_map(|word| word.to_le_bytes()));
    match name.split_at_checked(PLAIN_BYTES) {
        Some((plain, rest)) if !rest.is_empty() => {
            bytes.extend(plain);
            bytes.extend(Sha256::digest(rest));
        }
        _ => bytes.extend(name),
    }
    base64url(&bytes)
}

/// Encodes bytes as Base64 with `-` and `_`, without padding (RFC 4648, section 5).
fn base64url(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(3)
        .flat_map(|group| {
            let at = |nth: usize| u32::from(group.get(nth).copied().unwrap_or(0));
            let bits = at(0).wrapping_shl(16) | at(1).wrapping_shl(8) | at(2);
            let digits = group.len().saturating_add(1);
            [18, 12, 6, 0]
                .into_iter()
                .take(digits)
                .map(move |shift| digit(bits.wrapping_shr(shift) & 63))
        })
        .collect()
}

fn digit(value: u32) -> u8 {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    DIGITS.get(index(value)).copied().unwrap_or(b'A')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_of_rfc_4648() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64url(plain.as_bytes()), encoded.as_bytes());
        }
        assert_eq!(base64url(&[0xfb, 0xff]), b"-_8");
    }

    #[test]
    fn long_names_end_in_a_digest_and_stay_names() {
        assert_eq!(
            encode([0, 0], &[1; 149]).len(),
            (8 + 149usize).div_ceil(3) * 4 - 2
        );
        let long = encode([0, 0], &[1; 255]);
        assert_eq!(long.len(), 252);
        assert_ne!(long, encode([0, 0], &[[1; 254].as_slice(), &[2]].concat()));
    }
}
