//! The anti-forensic splitter: it spreads a key over so many bytes that losing any of them loses
//! the key.
//!
//! LUKS1 on-disk format 1.2.3, section 2.4.

use zeroize::Zeroizing;

use crate::hash::Hash;
use crate::problem::Problem;

/// The largest number of stripes. Every tool writes fewer (4000). A key of 64 bytes then takes 4
/// MiB.
const MAX_STRIPES: u32 = 65_536;

/// The parameters of a split key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AntiForensic {
    stripes: u32,
    hash: Hash,
    key_bytes: usize,
}

impl AntiForensic {
    pub(crate) fn new(key_bytes: usize, stripes: u32, hash: Hash) -> Result<Self, Problem> {
        if !(1..=MAX_STRIPES).contains(&stripes) {
            let reason =
                format!("invalid key slot: {stripes} stripes, expected 1 to {MAX_STRIPES}");
            return Err(Problem::corrupt(reason));
        }
        Ok(Self {
            stripes,
            hash,
            key_bytes,
        })
    }

    /// Returns the length of the split key in bytes.
    pub(crate) fn split_bytes(&self) -> usize {
        // Keys have at most 64 bytes, and the number of stripes is limited.
        let stripes = usize::try_from(self.stripes).unwrap_or(usize::MAX);
        self.key_bytes.saturating_mul(stripes)
    }

    /// Merges the stripes into the key. Bytes after the last stripe are ignored.
    pub(crate) fn merge(&self, split: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut key = Zeroizing::new(vec![0; self.key_bytes]);
        let stripes = usize::try_from(self.stripes).unwrap_or(usize::MAX);
        for (index, stripe) in split
            .chunks_exact(self.key_bytes.max(1))
            .take(stripes)
            .enumerate()
        {
            if index > 0 {
                self.diffuse(&mut key);
            }
            for (byte, more) in key.iter_mut().zip(stripe) {
                *byte ^= more;
            }
        }
        key
    }

    /// Splits a key into stripes. `random` holds the random bytes of all stripes but the last, and
    /// becomes the result.
    pub(crate) fn split(&self, key: &[u8], mut random: Zeroizing<Vec<u8>>) -> Zeroizing<Vec<u8>> {
        random.truncate(self.split_bytes().saturating_sub(self.key_bytes));
        let mut last = Zeroizing::new(vec![0; self.key_bytes]);
        for stripe in random.chunks_exact(self.key_bytes.max(1)) {
            for (byte, more) in last.iter_mut().zip(stripe) {
                *byte ^= more;
            }
            self.diffuse(&mut last);
        }
        for (byte, more) in last.iter_mut().zip(key) {
            *byte ^= more;
        }
        // The final length, so that no copy of the key stays in memory that is freed.
        let mut split = Zeroizing::new(Vec::with_capacity(self.split_bytes()));
        split.extend_from_slice(&random);
        split.extend_from_slice(&last);
        split
    }

    /// Replaces each piece, of the hash's length, by the hash of its index and its contents.
    fn diffuse(&self, key: &mut [u8]) {
        for (number, piece) in (0_u32..).zip(key.chunks_mut(self.hash.len_bytes())) {
            let hashed = self.hash.digest(&[&number.to_be_bytes(), piece]);
            for (byte, new) in piece.iter_mut().zip(hashed.iter()) {
                *byte = *new;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_have_a_limit() {
        assert!(AntiForensic::new(64, 0, Hash::Sha1).is_err());
        assert!(AntiForensic::new(64, u32::MAX, Hash::Sha1).is_err());
        let af = AntiForensic::new(64, 4000, Hash::Sha1).unwrap();
        assert_eq!(af.split_bytes(), 256_000);
    }

    #[test]
    fn one_stripe_is_the_key() {
        let af = AntiForensic::new(3, 1, Hash::Sha256).unwrap();
        assert_eq!(*af.merge(&[1, 2, 3, 4, 5, 6]), [1, 2, 3]);
    }

    #[test]
    fn a_split_key_merges_again() {
        for stripes in [1, 2, 5] {
            let af = AntiForensic::new(40, stripes, Hash::Sha256).unwrap();
            let random: Vec<u8> = (0..=255).cycle().take(40 * 4).collect();
            let key = [9; 40];
            let split = af.split(&key, Zeroizing::new(random));
            assert_eq!(split.len(), af.split_bytes());
            assert_eq!(*af.merge(&split), key);
        }
    }

    #[test]
    fn stripes_are_diffused_between() {
        let af = AntiForensic::new(32, 2, Hash::Sha256).unwrap();
        let mut split = [0; 64];
        split[..32].copy_from_slice(&[7; 32]);
        let hashed = Hash::Sha256.digest(&[&[0; 4], &[7; 32]]);
        assert_eq!(af.merge(&split), hashed);
    }
}
