//! Secrets in memory.

use std::fmt;

use zeroize::Zeroizing;

/// A secret: bytes that are never printed, and are wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes over the bytes of a secret, without a copy.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Returns the secret bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The key that unlocks a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// The secret that opens a key slot: a passphrase, or all bytes of a key file.
    Passphrase(Secret),
    /// The key with which the volume is encrypted (`cryptsetup luksDump --dump-volume-key`).
    Volume(Secret),
}

impl Key {
    /// Creates a passphrase key with a copy of these bytes.
    pub fn passphrase(bytes: &[u8]) -> Self {
        Self::Passphrase(Secret::new(bytes.to_vec()))
    }
}

/// The volume key, checked against the header's digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeKey(pub(crate) Secret);

impl VolumeKey {
    /// Returns the bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_a_secret() {
        let key = Key::passphrase(b"hunter2");
        let volume = VolumeKey(Secret::new(b"hunter2".to_vec()));
        let text = format!("{key:?} {volume:?}");
        assert_eq!(text, "Passphrase(Secret(..)) VolumeKey(Secret(..))");
    }
}
