//! The writes of key slots, in their order.

use diskfs_block::{Error, Result, check_bounds};
use zerocopy::IntoBytes;
use zeroize::Zeroizing;

use super::{Luks1Keyslots, no_such_slot};
use crate::format::Random;
use crate::key::{Secret, VolumeKey};
use crate::keyslot::Keyslot;
use crate::luks1::create::{SALT_BYTES, random_bytes};
use crate::luks1::keyblock::RawKeyblock;
use crate::luks1::phdr::KEYBLOCKS_AT;
use crate::problem::Problem;

/// The hint after an error that left old key material on the disk.
const NOT_ERASED: &str = "the key slot is out of use, but its old key material may still be on the \
     disk; erase the key slot again";

/// A key slot that is to be written: its block and its key material.
pub(super) struct Sealed {
    pub(super) id: u32,
    block: RawKeyblock,
    at: u64,
    area: Zeroizing<Vec<u8>>,
}

impl Luks1Keyslots<'_> {
    /// Encrypts the volume key for a slot; writes nothing.
    pub(super) fn seal(
        &self,
        id: u32,
        volume_key: &VolumeKey,
        passphrase: &Secret,
        iterations: u32,
        random: Random<'_>,
    ) -> Result<Sealed> {
        let mut salt = [0; SALT_BYTES];
        random(&mut salt)?;
        let renewed = self.block(id)?.renewed(iterations, salt, &self.common);
        let (block, keyslot) = renewed.map_err(|problem: Problem| problem.to_error())?;
        self.check_area(id, &keyslot)?;
        let stripes = random_bytes(random, keyslot.anti_forensic.split_bytes())?;
        let area = keyslot.seal(volume_key.as_bytes(), passphrase.as_bytes(), stripes)?;
        Ok(Sealed {
            id,
            block,
            at: keyslot.area.offset_bytes,
            area,
        })
    }

    /// Checks that the area of a slot is on the device, and shares no byte with another slot in use.
    fn check_area(&self, id: u32, keyslot: &Keyslot) -> Result<()> {
        let area = area(keyslot);
        let len_bytes = area.end.saturating_sub(area.start);
        check_bounds(area.start, len_bytes, self.device.size_bytes()).map_err(|_| {
            let reason = format!("the area of key slot {id} ends past the end of the header");
            Error::corrupt(reason).at(area.start)
        })?;
        let others = self
            .numbered()
            .filter(|(other, block)| *other != id && block.is_active());
        for (other, block) in others {
            let Ok(theirs) = block.keyslot(&self.common).map(|slot| self::area(&slot)) else {
                continue;
            };
            if area.start < theirs.end && theirs.start < area.end {
                let reason = format!("the areas of the key slots {id} and {other} overlap");
                return Err(Error::corrupt(reason).at(area.start));
            }
        }
        Ok(())
    }

    /// Writes a slot that is not in use, and then the mark that it is.
    pub(super) fn store(&mut self, sealed: &Sealed) -> Result<()> {
        self.device.write_at(sealed.at, &sealed.area)?;
        self.write_block(sealed.id, sealed.block.inactive())?;
        self.write_mark(sealed.id, sealed.block)
    }

    /// Takes a slot out of use.
    pub(super) fn take_out_of_use(&mut self, id: u32) -> Result<()> {
        let block = self.block(id)?.inactive();
        self.write_mark(id, block)
    }

    /// Takes a slot out of use, and overwrites its key material and its salt.
    pub(super) fn erase(&mut self, id: u32, random: Random<'_>) -> Result<()> {
        let mut block = *self.block(id)?;
        let place = block.place(&self.common).ok();
        self.take_out_of_use(id)?;
        let wipe = || {
            // An area that overlaps something else is left alone.
            if let Some(slot) = place.filter(|slot| self.check_area(id, slot).is_ok()) {
                let noise = random_bytes(random, slot.area_bytes())?;
                self.device.write_at(slot.area.offset_bytes, &noise)?;
            }
            block.disable();
            self.write_block(id, block)
        };
        wipe().map_err(|e| e.with_hint(NOT_ERASED))
    }

    /// Writes all of a slot's block.
    fn write_block(&mut self, id: u32, block: RawKeyblock) -> Result<()> {
        self.write(id, block, block.as_bytes())
    }

    /// Writes the mark of a slot's block, which is within one sector.
    fn write_mark(&mut self, id: u32, block: RawKeyblock) -> Result<()> {
        self.write(id, block, block.mark())
    }

    fn write(&mut self, id: u32, block: RawKeyblock, bytes: &[u8]) -> Result<()> {
        let index = usize::try_from(id).unwrap_or(usize::MAX);
        let known = self.blocks.get_mut(index);
        *known.ok_or_else(|| no_such_slot(id))? = block;
        let at = index.saturating_mul(size_of::<RawKeyblock>());
        let at = u64::try_from(at.saturating_add(KEYBLOCKS_AT)).unwrap_or(u64::MAX);
        self.device.write_at(at, bytes)?;
        self.device.flush()
    }
}

/// Returns the range of a slot's key material.
fn area(keyslot: &Keyslot) -> std::ops::Range<u64> {
    let start = keyslot.area.offset_bytes;
    let len_bytes = u64::try_from(keyslot.area_bytes()).unwrap_or(u64::MAX);
    start..start.saturating_add(len_bytes)
}
