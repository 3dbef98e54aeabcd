//! Secrets in memory.

use std::fmt;

use zeroize::Zeroizing;

/// Bytes that nobody prints and that are wiped when they are dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// A secret of these bytes, which it takes over: no copy stays behind.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a volume is unlocked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// What a key slot opens with: a passphrase, or all bytes of a key file.
    Passphrase(Secret),
    /// The key that the volume is encrypted with (`cryptsetup luksDump --dump-volume-key`).
    Volume(Secret),
}

impl Key {
    /// A key of a copy of these bytes.
    pub fn passphrase(bytes: &[u8]) -> Self {
        Self::Passphrase(Secret::new(bytes.to_vec()))
    }
}

/// The key of a volume, checked against the header's digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeKey(pub(crate) Secret);

impl VolumeKey {
    /// The bytes.
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
