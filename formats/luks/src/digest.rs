//! The digest against which a volume key is checked.

use diskfs_block::Result;

use crate::kdf::Pbkdf2;
use crate::limits::Budget;

/// The PBKDF2 digest of the volume key from the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) pbkdf2: Pbkdf2,
    pub(crate) value: Vec<u8>,
}

impl Digest {
    /// Returns true if `key` is the volume key.
    pub(crate) fn matches(&self, key: &[u8], budget: &mut Budget) -> Result<bool> {
        let value = self.pbkdf2.derive(key, self.value.len(), budget)?;
        Ok(*value == self.value)
    }
}
