//! Changes of the keys of encrypted images.

use std::path::Path;

use diskfs_block::{BlockWrite, Error, ErrorKind};
use diskfs_image::OpenOptions;
use diskfs_image::amend::edit_luks_header;
use diskfs_luks::{Key, KeyslotGuard, Luks1Keyslots, NewKeyslot, Secret, VolumeKey};

use super::luks::{Keys, first_matching_key};

/// The next step after a key that opens nothing.
const CHECK_KEY: &str = "check the passphrase, or use another key";

/// A change of the keys of an encrypted image. A key is added before others are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChange {
    /// The passphrase to add.
    pub add: Option<NewKeyslot>,
    /// The keys to remove.
    pub remove: Option<KeyRemoval>,
    /// The proof that the caller can read the data.
    pub proof: KeyProof,
    /// The guard against the loss of keys.
    pub guard: KeyslotGuard,
}

/// The keys to remove from an encrypted image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRemoval {
    /// All key slots that one of these passphrases opens.
    Passphrases(Vec<Secret>),
    /// One key slot.
    Slot {
        /// The number of the key slot.
        number: u32,
        /// The passphrase that must open the slot.
        passphrase: Option<Secret>,
    },
}

/// The proof that the caller of [`Keys::change`] can read the data. To add a key always takes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyProof {
    /// No proof, except for the key with which another one is added.
    #[default]
    NotNeeded,
    /// A key that opens the image.
    AnyKey,
    /// A key that still opens the image after others were removed.
    RemainingKey,
}

/// The result of a change of keys: numbers of key slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedKeys {
    /// The key slot with the new key.
    pub added: Option<u32>,
    /// The key slots that were erased.
    pub removed: Vec<u32>,
    /// The key slots that are in use now.
    pub in_use: Vec<u32>,
}

impl Keys {
    /// Changes the keys of the encrypted image at `path`: a raw image that is a LUKS1 volume, or a
    /// qcow2 image with LUKS. An interruption leaves the old keys or the new ones, or both.
    ///
    /// `random` must return unpredictable bytes.
    ///
    /// # Errors
    /// * As for [`edit_luks_header`].
    /// * `Denied` if no key of these opens the image, if no key slot opens with the passphrase to
    ///   remove, and if no key would be left.
    /// * `NotFound` for a key slot to remove that is not in use, `Exists` for one to add that is,
    ///   `NoSpace` if all are.
    /// * `Invalid` for a file that is not a LUKS volume; `Unsupported` for LUKS2; `Corrupt`, `Io`.
    pub fn change(
        &self,
        path: &Path,
        change: &KeyChange,
        options: &OpenOptions,
        random: &mut dyn FnMut(&mut [u8]) -> diskfs_block::Result<()>,
    ) -> crate::Result<ChangedKeys> {
        Ok(edit_luks_header(path, options, |device| {
            self.change_slots(path, change, device, random)
        })?)
    }

    fn change_slots(
        &self,
        path: &Path,
        change: &KeyChange,
        device: &dyn BlockWrite,
        random: &mut dyn FnMut(&mut [u8]) -> diskfs_block::Result<()>,
    ) -> diskfs_block::Result<ChangedKeys> {
        let mut slots = Luks1Keyslots::read(device)?;
        let mut removed = match &change.remove {
            Some(removal) => self.removed(&slots, removal)?,
            None => Vec::new(),
        };
        let volume_key = self.volume_key_for(path, change, device, &slots)?;
        if change.proof == KeyProof::RemainingKey {
            self.check_remaining(path, &slots, &removed)?;
        }
        let more = usize::from(change.add.is_some());
        slots.check_removal(&removed, more, change.guard)?;
        let added = match (&change.add, volume_key) {
            (Some(new), Some(key)) => Some(slots.add(&key, new, change.guard, random)?),
            _ => None,
        };
        // A slot whose key was replaced has the new one.
        removed.retain(|slot| Some(*slot) != added);
        slots.remove(&removed, change.guard, random)?;
        Ok(ChangedKeys {
            added,
            removed,
            in_use: slots.active(),
        })
    }

    /// Returns the key slots to remove.
    fn removed(
        &self,
        slots: &Luks1Keyslots<'_>,
        removal: &KeyRemoval,
    ) -> diskfs_block::Result<Vec<u32>> {
        match removal {
            KeyRemoval::Passphrases(passphrases) => {
                let mut opened = Vec::new();
                for passphrase in passphrases {
                    opened.extend(slots.opened_by(passphrase, &self.limits)?);
                }
                opened.sort_unstable();
                opened.dedup();
                if opened.is_empty() {
                    let reason = "the key to remove opens no key slot of the LUKS volume";
                    return Err(Error::new(ErrorKind::Denied, reason).with_hint(CHECK_KEY));
                }
                Ok(opened)
            }
            KeyRemoval::Slot { number, passphrase } => {
                if let Some(passphrase) = passphrase
                    && !slots.opened_by(passphrase, &self.limits)?.contains(number)
                {
                    let reason = format!("the key does not open key slot {number}");
                    return Err(Error::new(ErrorKind::Denied, reason).with_hint(CHECK_KEY));
                }
                Ok(vec![*number])
            }
        }
    }

    /// Returns the volume key if the change takes it. The passphrase to remove opens the image, too.
    fn volume_key_for(
        &self,
        path: &Path,
        change: &KeyChange,
        device: &dyn BlockWrite,
        slots: &Luks1Keyslots<'_>,
    ) -> diskfs_block::Result<Option<VolumeKey>> {
        if change.add.is_none() && change.proof != KeyProof::AnyKey {
            return Ok(None);
        }
        let removed: Vec<Key> = match &change.remove {
            Some(KeyRemoval::Passphrases(all)) if change.proof != KeyProof::AnyKey => {
                all.iter().cloned().map(Key::Passphrase).collect()
            }
            _ => Vec::new(),
        };
        let mut keys = self.of_image(path, slots.header());
        keys.extend(&removed);
        if keys.is_empty() {
            return Err(no_key(path, "adding a key takes one that opens the image"));
        }
        first_matching_key(slots.header(), device, &keys, &self.limits).map(Some)
    }

    /// Fails unless a key opens the image without the slots to remove.
    fn check_remaining(
        &self,
        path: &Path,
        slots: &Luks1Keyslots<'_>,
        removed: &[u32],
    ) -> diskfs_block::Result<()> {
        let keys = self.of_image(path, slots.header());
        if keys.is_empty() {
            let reason = "removing a key slot by its number takes a key that is kept";
            return Err(no_key(path, reason));
        }
        for key in keys {
            let Key::Passphrase(passphrase) = key else {
                continue;
            };
            let opened = slots.opened_by(passphrase, &self.limits)?;
            if opened.iter().any(|slot| !removed.contains(slot)) {
                return Ok(());
            }
        }
        let reason = "the given key does not open a key slot that is kept";
        let hint = "use another key, or --force to remove the key slot anyway";
        Err(Error::new(ErrorKind::Denied, reason).with_hint(hint))
    }
}

fn no_key(path: &Path, reason: &'static str) -> Error {
    let name = path.file_name().unwrap_or(path.as_os_str()).display();
    Error::new(ErrorKind::Denied, reason).with_hint(format!("use --key {name}:ask"))
}
