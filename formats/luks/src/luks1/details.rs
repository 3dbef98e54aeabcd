//! The fields of a LUKS1 header as they are stored, which programs show.

use diskfs_block::{BlockRead, Result};

use super::PHDR_BYTES;
use super::phdr::details;

/// The fields of a LUKS1 header, supported or not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Luks1Details {
    /// The name of the cipher: `aes`.
    pub cipher: String,
    /// The mode of the cipher with its vectors: `xts-plain64`, `cbc-essiv:sha256`.
    pub mode: String,
    /// The hash function of the key derivation: `sha256`.
    pub hash: String,
    /// The length of the volume key in bytes.
    pub key_bytes: u32,
    /// The UUID.
    pub uuid: String,
    /// The offset of the data in bytes; zero if the data is on another device.
    pub payload_offset_bytes: u64,
    /// The iterations of PBKDF2 for the digest of the volume key.
    pub digest_iterations: u32,
    /// The eight key slots.
    pub slots: Vec<Luks1Slot>,
}

/// A key slot of a LUKS1 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Luks1Slot {
    /// True if the slot is in use.
    pub is_active: bool,
    /// The iterations of PBKDF2.
    pub iterations: u32,
    /// The number of stripes of the anti-forensic splitter.
    pub stripes: u32,
    /// The offset of the key material in bytes.
    pub key_offset_bytes: u64,
}

impl Luks1Details {
    /// Reads the header at the start of `device`; returns `None` if it has no LUKS1 header.
    ///
    /// # Errors
    /// Read errors of `device`.
    pub fn read(device: &dyn BlockRead) -> Result<Option<Self>> {
        let mut start = [0; PHDR_BYTES];
        if device.size_bytes() < diskfs_block::len_of(&start) {
            return Ok(None);
        }
        device.read_at(0, &mut start)?;
        Ok(details(&start))
    }
}
