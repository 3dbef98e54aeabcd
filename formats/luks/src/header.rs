//! What a header says, of whichever version.

use diskfs_block::{BlockRead, Error, ErrorKind, Result};
use zeroize::Zeroizing;

use crate::digest::Digest;
use crate::key::{Key, Secret, VolumeKey};
use crate::keyslot::{Keyslot, Priority};
use crate::limits::{Budget, Limits};
use crate::problem::Problem;
use crate::segment::Segment;

/// Of LUKS1, and of the first copy of LUKS2.
pub(crate) const MAGIC: [u8; 6] = *b"LUKS\xba\xbe";

/// A header's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Version {
    /// LUKS1: `cryptsetup` before 2.1, and QEMU.
    Luks1,
    /// LUKS2.
    Luks2,
}

impl Version {
    /// The number that the header has.
    pub const fn number(self) -> u16 {
        match self {
            Self::Luks1 => 1,
            Self::Luks2 => 2,
        }
    }
}

/// A LUKS header: what the volume is, and the key slots that lead to its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub(crate) version: Version,
    pub(crate) uuid: String,
    pub(crate) label: String,
    pub(crate) encryption: String,
    /// How far it goes, without the key slots' areas.
    pub(crate) len_bytes: u64,
    pub(crate) encrypted: std::result::Result<Encrypted, Problem>,
    pub(crate) keyslots: Vec<KeyslotEntry>,
    pub(crate) warnings: Vec<String>,
}

/// The data and its key's digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encrypted {
    pub(crate) segment: Segment,
    pub(crate) digest: Digest,
}

/// A key slot that is in use, whether or not it can be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyslotEntry {
    pub(crate) id: u32,
    pub(crate) priority: Priority,
    pub(crate) kdf: String,
    pub(crate) keyslot: std::result::Result<Keyslot, Problem>,
}

/// What can be told of a key slot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyslotState {
    /// Its number.
    pub id: u32,
    /// When it is tried.
    pub priority: Priority,
    /// How its key follows from a passphrase: `pbkdf2`, `argon2id`.
    pub kdf: String,
    /// Why it cannot be tried.
    pub problem: Option<String>,
}

impl Header {
    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The UUID, as `blkid` prints it.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The label; empty without one, as always in LUKS1.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What the data is encrypted with: `aes-xts-plain64`. As the header has it, known or not.
    pub fn cipher(&self) -> &str {
        &self.encryption
    }

    /// The size of the data's sectors, where the data can be read.
    pub fn sector_size(&self) -> Option<u32> {
        let encrypted = self.encrypted.as_ref().ok()?;
        Some(encrypted.segment.sector_bytes)
    }

    /// Why the volume cannot be unlocked with any key.
    pub fn problem(&self) -> Option<Error> {
        self.encrypted.as_ref().err().map(Problem::to_error)
    }

    /// Whether the header's data is on another device: here it would lie on the header.
    pub fn is_detached(&self) -> bool {
        let encrypted = self.encrypted.as_ref().ok();
        encrypted.is_some_and(|encrypted| encrypted.segment.offset_bytes < self.len_bytes)
    }

    /// The key slots that are in use and hold the key of the data.
    pub fn keyslots(&self) -> impl Iterator<Item = KeyslotState> {
        self.keyslots.iter().map(|entry| KeyslotState {
            id: entry.id,
            priority: entry.priority,
            kdf: entry.kdf.clone(),
            problem: entry.keyslot.as_ref().err().map(ToString::to_string),
        })
    }

    /// What is wrong with the header but does not keep it from being used, as sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The volume key that `key` leads to, by the key slots that are on `device`, where the header
    /// is. Slots are tried in the order of their priority, those to be ignored never.
    ///
    /// # Errors
    /// `Denied` when it leads to none, with what kept slots from being tried; `Unsupported` and
    /// `Corrupt` when no key could; what the device answers when it cannot be read.
    pub fn unlock(&self, device: &dyn BlockRead, key: &Key, limits: &Limits) -> Result<VolumeKey> {
        let encrypted = self.encrypted()?;
        let mut budget = Budget::new(limits);
        match key {
            Key::Volume(key) => self.check_volume_key(encrypted, key, &mut budget),
            Key::Passphrase(secret) => self.try_keyslots(device, encrypted, secret, &mut budget),
        }
    }

    /// The data and its digest, or why there is no getting at them.
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
        let reason = format!("the volume key is not that of {}", self.uuid);
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
        0 => "the LUKS volume has no key slot to try".to_owned(),
        _ => "no key slot of the LUKS volume opens with the key".to_owned(),
    };
    if !not_tried.is_empty() {
        reason.push_str("; not tried were: ");
        reason.push_str(&not_tried.join("; "));
    }
    Error::new(ErrorKind::Denied, reason)
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

/// A text that ends at its first NUL, or with its field.
pub(crate) fn text(field: &[u8]) -> String {
    let text = field.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
