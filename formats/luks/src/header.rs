//! The contents of a LUKS header, of either version.

use diskfs_block::{BlockRead, Error, ErrorKind, Result};
use zeroize::Zeroizing;

use crate::digest::Digest;
use crate::key::{Key, Secret, VolumeKey};
use crate::keyslot::{Keyslot, Priority};
use crate::limits::{Budget, Limits};
use crate::problem::Problem;
use crate::segment::Segment;

/// The magic number of LUKS1, and of the primary copy of LUKS2.
pub(crate) const MAGIC: [u8; 6] = *b"LUKS\xba\xbe";

/// The version of a LUKS header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Version {
    /// LUKS1, written by `cryptsetup` before 2.1 and by QEMU.
    Luks1,
    /// LUKS2, the default of `cryptsetup` since 2.1.
    Luks2,
}

impl Version {
    /// Returns the version number in the header.
    pub const fn number(self) -> u16 {
        match self {
            Self::Luks1 => 1,
            Self::Luks2 => 2,
        }
    }
}

/// A LUKS header: the description of the encrypted volume, and the key slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub(crate) version: Version,
    pub(crate) uuid: String,
    pub(crate) label: String,
    pub(crate) encryption: String,
    /// The length of the header without the key slots' areas.
    pub(crate) len_bytes: u64,
    pub(crate) encrypted: std::result::Result<Encrypted, Problem>,
    pub(crate) keyslots: Vec<KeyslotEntry>,
    pub(crate) warnings: Vec<String>,
}

/// The encrypted data and the digest of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encrypted {
    pub(crate) segment: Segment,
    pub(crate) digest: Digest,
}

/// A key slot in use, supported or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyslotEntry {
    pub(crate) id: u32,
    pub(crate) priority: Priority,
    pub(crate) kdf: String,
    pub(crate) keyslot: std::result::Result<Keyslot, Problem>,
}

/// The public description of a key slot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyslotState {
    /// The number of the key slot.
    pub id: u32,
    /// The order in which the slot is tried.
    pub priority: Priority,
    /// The key derivation function for passphrases: `pbkdf2`, `argon2id`.
    pub kdf: String,
    /// The reason why the slot cannot be tried, if any.
    pub problem: Option<String>,
}

impl Header {
    /// Returns the version of the header.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the UUID, as `blkid` prints it.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Returns the label; it is empty if there is none, as always in LUKS1.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the cipher of the data as the header spells it, supported or not: `aes-xts-plain64`.
    pub fn cipher(&self) -> &str {
        &self.encryption
    }

    /// Returns the sector size of the data, if the data can be read.
    pub fn sector_size(&self) -> Option<u32> {
        let encrypted = self.encrypted.as_ref().ok()?;
        Some(encrypted.segment.sector_bytes)
    }

    /// Returns the reason why no key can unlock the volume, if any.
    pub fn problem(&self) -> Option<Error> {
        self.encrypted.as_ref().err().map(Problem::to_error)
    }

    /// Returns true if the data is on another device. On the header's own device it would overlap
    /// the header.
    pub fn is_detached(&self) -> bool {
        let encrypted = self.encrypted.as_ref().ok();
        encrypted.is_some_and(|encrypted| encrypted.segment.offset_bytes < self.len_bytes)
    }

    /// Returns the key slots that are in use and hold the key of the data.
    pub fn keyslots(&self) -> impl Iterator<Item = KeyslotState> {
        self.keyslots.iter().map(|entry| KeyslotState {
            id: entry.id,
            priority: entry.priority,
            kdf: entry.kdf.clone(),
            problem: entry.keyslot.as_ref().err().map(ToString::to_string),
        })
    }

    /// Returns problems of the header that do not prevent its use, as sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Unlocks the volume key with `key`, using the key slots on `device`, where the header is.
    /// Slots are tried in the order of their priority; slots with the priority "ignored" are never
    /// tried.
    ///
    /// # Errors
    /// * `Denied` if `key` opens no slot, with the reasons why slots could not be tried.
    /// * `Unsupported` and `Corrupt` if no key could unlock the volume.
    /// * Read errors of `device`.
    pub fn unlock(&self, device: &dyn BlockRead, key: &Key, limits: &Limits) -> Result<VolumeKey> {
        let encrypted = self.encrypted()?;
        let mut budget = Budget::new(limits);
        match key {
            Key::Volume(key) => self.check_volume_key(encrypted, key, &mut budget),
            Key::Passphrase(secret) => self.try_keyslots(device, encrypted, secret, &mut budget),
        }
    }

    /// Returns the data and its digest, or the reason why they cannot be used.
    pub(crate) fn encrypted(&self) -> Result<&Encrypted> {
        self.encrypted.as_ref().map_err(Problem::to_error)
    }

    fn check_volume_key(
        &self,
        encrypted: &Encrypted,
        key: &Secret,
        budget: &mut Budget,
    ) -> Result<VolumeKey> {
        if encrypted.digest.matches(key.as_bytes(), budget)? {
            return Ok(VolumeKey(key.clone()));
        }
        let reason = format!("wrong volume key for the LUKS volume {}", self.uuid);
        Err(Error::new(ErrorKind::Denied, reason))
    }

    fn try_keyslots(
        &self,
        device: &dyn BlockRead,
        encrypted: &Encrypted,
        secret: &Secret,
        budget: &mut Budget,
    ) -> Result<VolumeKey> {
        let mut slots: Vec<&KeyslotEntry> = self.keyslots.iter().collect();
        slots.retain(|entry| entry.priority != Priority::Ignored);
        slots.sort_by_key(|entry| entry.priority);
        let mut not_tried = Vec::new();
        for entry in &slots {
            let opened = entry.open(device, secret.as_bytes(), budget);
            let tried = opened.and_then(|key| {
                let fits = encrypted.digest.matches(&key, budget)?;
                Ok(fits.then(|| VolumeKey(Secret::new(key.to_vec()))))
            });
            match tried {
                Ok(Some(key)) => {
                    tracing::debug!(uuid = self.uuid, slot = entry.id, "key slot opened");
                    return Ok(key);
                }
                Ok(None) => {}
                Err(e) if e.kind() == ErrorKind::Io => return Err(e),
                Err(e) => not_tried.push(format!("key slot {}: {e}", entry.id)),
            }
        }
        Err(no_slot_opens(slots.len(), &not_tried))
    }
}

fn no_slot_opens(slots: usize, not_tried: &[String]) -> Error {
    let mut reason = match slots {
        0 => "the LUKS volume has no usable key slot".to_owned(),
        _ => "the key opens no key slot of the LUKS volume".to_owned(),
    };
    if !not_tried.is_empty() {
        reason.push_str("; not tried: ");
        reason.push_str(&not_tried.join("; "));
    }
    let error = Error::new(ErrorKind::Denied, reason);
    match slots {
        0 => error,
        _ => error.with_hint("check the passphrase, or use another key"),
    }
}

impl KeyslotEntry {
    fn open(
        &self,
        device: &dyn BlockRead,
        secret: &[u8],
        budget: &mut Budget,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let keyslot = self.keyslot.as_ref().map_err(Problem::to_error)?;
        keyslot.open(device, secret, budget)
    }
}

/// Decodes a string that ends at its first NUL or at the end of its field.
pub(crate) fn text(field: &[u8]) -> String {
    let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
