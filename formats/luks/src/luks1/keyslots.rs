//! Changes of the key slots of a LUKS1 header.
//!
//! A slot that is not in use gets its key material and its salt first, and the mark that it is in
//! use last, in one sector. A slot that is erased loses its mark first. A crash leaves the old slot
//! or the new one: neither is ever half in use.

mod writes;

use std::time::Duration;

use diskfs_block::{BlockWrite, Error, ErrorKind, Result};

use super::PHDR_BYTES;
use super::create::timed_iterations;
use super::keyblock::RawKeyblock;
use super::phdr::{Common, keyblocks};
use crate::format::Random;
use crate::header::{Header, Version};
use crate::key::{Secret, VolumeKey};
use crate::limits::{Budget, Limits};

/// The number of key slots of a header (`LUKS_NUMKEYS`).
const KEYSLOTS: u32 = 8;

/// The guard against the loss of keys by a change of key slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyslotGuard {
    /// A slot in use is not overwritten, and the last key is not erased.
    #[default]
    Careful,
    /// Any slot may be overwritten or erased.
    Forced,
}

/// A passphrase to add to a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKeyslot {
    /// The passphrase.
    pub passphrase: Secret,
    /// The number of the key slot; `None` for the first that is not in use.
    pub slot: Option<u32>,
    /// The time that trying the passphrase takes on this machine, within bounds.
    pub time: Duration,
}

/// The key slots of the LUKS1 header at the start of a device, which can be changed.
#[derive(Debug)]
pub struct Luks1Keyslots<'a> {
    device: &'a dyn BlockWrite,
    header: Header,
    common: Common,
    blocks: [RawKeyblock; 8],
}

impl<'a> Luks1Keyslots<'a> {
    /// Reads the key slots of the header at the start of `device`.
    ///
    /// # Errors
    /// * `Invalid` for a device without a LUKS header.
    /// * `Unsupported` for LUKS2, and for an unknown cipher or hash.
    /// * `Corrupt`, and the errors of `device`.
    pub fn read(device: &'a dyn BlockWrite) -> Result<Self> {
        let none = || Error::invalid("not encrypted: missing LUKS header");
        let header = Header::read(device)?.ok_or_else(none)?;
        if header.version() != Version::Luks1 {
            let reason = "changing the key slots of a LUKS2 volume is not supported";
            return Err(Error::unsupported(reason)
                .with_hint("use cryptsetup luksAddKey, luksRemoveKey or luksKillSlot"));
        }
        header.encrypted()?;
        let mut start = [0; PHDR_BYTES];
        device.read_at(0, &mut start)?;
        let (common, blocks) = keyblocks(&start)?;
        Ok(Self {
            device,
            header,
            common,
            blocks,
        })
    }

    /// Returns the header, as it was read.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the numbers of the key slots in use.
    pub fn active(&self) -> Vec<u32> {
        let in_use = self.numbered().filter(|(_, block)| block.is_active());
        in_use.map(|(id, _)| id).collect()
    }

    /// Returns the numbers of all key slots that a passphrase opens. Slots that are damaged are
    /// opened by none.
    ///
    /// # Errors
    /// The errors of the device, and `Denied` beyond the limits.
    pub fn opened_by(&self, passphrase: &Secret, limits: &Limits) -> Result<Vec<u32>> {
        let digest = &self.header.encrypted()?.digest;
        let mut budget = Budget::new(limits);
        let mut opened = Vec::new();
        for (id, block) in self.numbered().filter(|(_, block)| block.is_active()) {
            let Ok(keyslot) = block.keyslot(&self.common) else {
                continue;
            };
            let key = match keyslot.open(self.device, passphrase.as_bytes(), &mut budget) {
                Err(e) if e.kind() == ErrorKind::Corrupt => continue,
                key => key?,
            };
            if digest.matches(&key, &mut budget)? {
                opened.push(id);
            }
        }
        Ok(opened)
    }

    /// Adds a passphrase, and returns the number of its key slot. With
    /// [`Forced`](KeyslotGuard::Forced), a slot in use loses its key; meanwhile the new key is in a
    /// slot that is not in use, if there is one.
    ///
    /// `random` must return unpredictable bytes.
    ///
    /// # Errors
    /// * `Invalid` for an empty passphrase, a slot that LUKS1 does not have, and the key of another
    ///   volume.
    /// * `Exists` for a slot in use, `NoSpace` if all slots are.
    /// * `Corrupt` if the slot's area overlaps something else; the errors of the device and of
    ///   `random`.
    pub fn add(
        &mut self,
        volume_key: &VolumeKey,
        new: &NewKeyslot,
        guard: KeyslotGuard,
        random: Random<'_>,
    ) -> Result<u32> {
        let id = self.slot_for(new, guard)?;
        self.check_volume_key(volume_key)?;
        let iterations = timed_iterations(new.time, self.common.hash, self.common.key_bytes);
        let mut seal = |id| self.seal(id, volume_key, &new.passphrase, iterations, random);
        let sealed = seal(id)?;
        if !self.is_active(id) {
            self.store(&sealed)?;
            return Ok(id);
        }
        let spare = match self.first_free() {
            Some(spare) => Some(seal(spare)?),
            None => None,
        };
        if let Some(spare) = &spare {
            self.store(spare)?;
        }
        self.take_out_of_use(id)?;
        self.store(&sealed)?;
        if let Some(spare) = spare {
            self.erase(spare.id, random)?;
        }
        Ok(id)
    }

    /// Fails if [`remove`](Self::remove) would, before anything is written. `added` is the number of
    /// keys that are added before.
    ///
    /// # Errors
    /// * `Invalid` for a slot that LUKS1 does not have, `NotFound` for one that is not in use.
    /// * `Denied` if no key would be left.
    pub fn check_removal(&self, slots: &[u32], added: usize, guard: KeyslotGuard) -> Result<()> {
        slots.iter().try_for_each(|slot| check_number(*slot))?;
        if guard == KeyslotGuard::Forced {
            return Ok(());
        }
        if let Some(unused) = slots.iter().find(|slot| !self.is_active(**slot)) {
            let reason = format!("key slot {unused} is not in use");
            return Err(Error::new(ErrorKind::NotFound, reason));
        }
        let mut left = self.active();
        left.retain(|slot| !slots.contains(slot));
        if left.is_empty() && added == 0 && !slots.is_empty() {
            let reason = "refusing to remove the last key: nobody could ever read the data again";
            return Err(Error::new(ErrorKind::Denied, reason)
                .with_hint("add another key first, or use --force"));
        }
        Ok(())
    }

    /// Erases key slots: they are out of use first, and then their key material is overwritten.
    ///
    /// # Errors
    /// As for [`check_removal`](Self::check_removal); the errors of the device and of `random`.
    pub fn remove(&mut self, slots: &[u32], guard: KeyslotGuard, random: Random<'_>) -> Result<()> {
        self.check_removal(slots, 0, guard)?;
        slots.iter().try_for_each(|slot| self.erase(*slot, random))
    }

    fn numbered(&self) -> impl Iterator<Item = (u32, &RawKeyblock)> {
        (0..).zip(&self.blocks)
    }

    fn block(&self, id: u32) -> Result<&RawKeyblock> {
        let block = usize::try_from(id).ok().and_then(|id| self.blocks.get(id));
        block.ok_or_else(|| no_such_slot(id))
    }

    fn is_active(&self, id: u32) -> bool {
        self.block(id).is_ok_and(RawKeyblock::is_active)
    }

    fn first_free(&self) -> Option<u32> {
        let mut free = self.numbered().filter(|(_, block)| !block.is_active());
        free.next().map(|(id, _)| id)
    }

    /// Returns the number of the slot for a new key.
    fn slot_for(&self, new: &NewKeyslot, guard: KeyslotGuard) -> Result<u32> {
        if new.passphrase.as_bytes().is_empty() {
            return Err(Error::invalid("the passphrase is empty"));
        }
        let Some(id) = new.slot else {
            return self.first_free().ok_or_else(|| {
                let reason = format!("all {KEYSLOTS} key slots are in use");
                Error::new(ErrorKind::NoSpace, reason).with_hint("remove a key first")
            });
        };
        check_number(id)?;
        if guard == KeyslotGuard::Careful && self.is_active(id) {
            let reason = format!("key slot {id} is in use");
            return Err(Error::new(ErrorKind::Exists, reason)
                .with_hint("use another one, or --force to replace its key"));
        }
        Ok(id)
    }

    fn check_volume_key(&self, key: &VolumeKey) -> Result<()> {
        let limits = Limits::default();
        let digest = &self.header.encrypted()?.digest;
        let is_ours = key.as_bytes().len() == self.common.key_bytes
            && digest.matches(key.as_bytes(), &mut Budget::new(&limits))?;
        if is_ours {
            return Ok(());
        }
        Err(Error::invalid("the volume key is that of another volume"))
    }
}

fn check_number(slot: u32) -> Result<()> {
    if slot < KEYSLOTS {
        return Ok(());
    }
    Err(no_such_slot(slot))
}

fn no_such_slot(slot: u32) -> Error {
    Error::invalid(format!("no such key slot: {slot}; LUKS1 has 0 to 7"))
}
