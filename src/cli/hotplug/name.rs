//! The names of hotplugged disks.

use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The longest name: KubeVirt's limit for volumes.
const MAX_BYTES: usize = 63;

/// The start of the names of our block nodes.
pub(super) const NODE_PREFIX: &str = "diskfs-";

/// The name of a hotplugged disk, which is the ID of its device in QEMU: a letter, and then letters,
/// digits, `-`, `.` and `_`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskName(String);

impl DiskName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the block node. QEMU allows 31 bytes, so it has a hash of the name.
    pub(super) fn node(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        let start = digest.first_chunk().copied().unwrap_or_default();
        let hash = u64::from_be_bytes(start);
        format!("{NODE_PREFIX}{hash:016x}")
    }
}

impl FromStr for DiskName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_valid = name.len() <= MAX_BYTES
            && name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.bytes().all(is_plain);
        if is_valid {
            return Ok(Self(name.to_owned()));
        }
        Err(format!(
            "expected a letter, and then at most {} letters, digits, `-`, `.` and `_`",
            MAX_BYTES.saturating_sub(1)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_names_that_qemu_allows() {
        let long = "a".repeat(MAX_BYTES);
        let node = long.parse::<DiskName>().unwrap().node();
        assert!(node.len() <= 31, "{node}");
        assert_ne!(node, "b".parse::<DiskName>().unwrap().node());
        for wrong in ["", "1a", "-a", "a b", "a/b", &"a".repeat(64), "é"] {
            assert!(wrong.parse::<DiskName>().is_err(), "{wrong}");
        }
    }
}
