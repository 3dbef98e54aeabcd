//! A key slot of LUKS1. LUKS1 on-disk format 1.2.3, figure 4.

use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::create::STRIPES;
use super::details::Luks1Slot;
use super::phdr::Common;
use super::{PHDR_BYTES, SECTOR_BYTES};
use crate::af::AntiForensic;
use crate::header::KeyslotEntry;
use crate::kdf::{Kdf, Pbkdf2};
use crate::keyslot::{Area, Keyslot, Priority};
use crate::problem::Problem;

const ENABLED: u32 = 0x00ac_71f3;
const DISABLED: u32 = 0x0000_dead;

/// The on-disk structure of a key slot.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawKeyblock {
    active: U32,
    iterations: U32,
    salt: [u8; 32],
    key_material_offset: U32,
    stripes: U32,
}

impl RawKeyblock {
    /// Returns a slot that is not in use, whose area is at this offset.
    pub(super) fn unused(offset_bytes: u64) -> Self {
        let sector = offset_bytes.checked_div(SECTOR_BYTES).unwrap_or(0);
        Self {
            active: DISABLED.into(),
            iterations: 0.into(),
            salt: [0; 32],
            // Key slots are in the first 4 MiB.
            key_material_offset: u32::try_from(sector).unwrap_or(u32::MAX).into(),
            stripes: STRIPES.into(),
        }
    }

    /// Marks the slot as in use.
    pub(super) fn enable(&mut self, iterations: u32, salt: [u8; 32]) {
        self.active = ENABLED.into();
        self.iterations = iterations.into();
        self.salt = salt;
    }

    /// Marks the slot as not in use, and forgets its costs and its salt.
    pub(super) fn disable(&mut self) {
        self.active = DISABLED.into();
        self.iterations = 0.into();
        self.salt = [0; 32];
    }

    /// Returns true if the slot is in use.
    pub(super) fn is_active(&self) -> bool {
        self.active.get() == ENABLED
    }

    /// Returns the same slot with the mark of one that is not in use.
    pub(super) fn inactive(mut self) -> Self {
        self.active = DISABLED.into();
        self
    }

    /// Returns the bytes of the mark that says whether the slot is in use. They are the first of
    /// the slot, and within one sector.
    pub(super) fn mark(&self) -> &[u8] {
        self.active.as_bytes()
    }

    /// Returns the slot as it will be with this salt and so many rounds.
    ///
    /// # Errors
    /// `Corrupt` if its area overlaps the header or the data.
    pub(super) fn renewed(
        mut self,
        iterations: u32,
        salt: [u8; 32],
        common: &Common,
    ) -> Result<(Self, Keyslot), Problem> {
        self.enable(iterations, salt);
        self.stripes = STRIPES.into();
        let keyslot = self.keyslot(common)?;
        Ok((self, keyslot))
    }

    /// Returns the place of the slot's key material, also of a slot that is not in use.
    pub(super) fn place(mut self, common: &Common) -> Result<Keyslot, Problem> {
        self.iterations = 1.into();
        self.keyslot(common)
    }

    /// Parses the slot if it is in use.
    pub(super) fn state(
        &self,
        id: u32,
        common: std::result::Result<&Common, &Problem>,
    ) -> Option<KeyslotEntry> {
        self.is_active().then(|| KeyslotEntry {
            id,
            priority: Priority::Normal,
            kdf: "pbkdf2".to_owned(),
            keyslot: common
                .map_err(Clone::clone)
                .and_then(|common| self.keyslot(common)),
        })
    }

    /// Returns the fields as they are stored.
    pub(super) fn details(&self) -> Luks1Slot {
        Luks1Slot {
            is_active: self.is_active(),
            iterations: self.iterations.get(),
            stripes: self.stripes.get(),
            key_offset_bytes: u64::from(self.key_material_offset.get())
                .saturating_mul(SECTOR_BYTES),
        }
    }

    /// Parses the slot's parameters.
    pub(super) fn keyslot(&self, common: &Common) -> Result<Keyslot, Problem> {
        let iterations = self.iterations.get();
        if iterations == 0 {
            return Err(Problem::corrupt(
                "invalid key slot: PBKDF2 has no iterations",
            ));
        }
        let keyslot = Keyslot {
            kdf: Kdf::Pbkdf2(Pbkdf2 {
                hash: common.hash,
                iterations,
                salt: self.salt.to_vec(),
            }),
            anti_forensic: AntiForensic::new(common.key_bytes, self.stripes.get(), common.hash)?,
            area: Area {
                offset_bytes: u64::from(self.key_material_offset.get())
                    .saturating_mul(SECTOR_BYTES),
                cipher: common.cipher,
                key_bytes: common.key_bytes,
            },
        };
        check_place(&keyslot, common.payload_offset_bytes)?;
        Ok(keyslot)
    }
}

/// Checks that the area is after the header, and before the data if that is on the same device.
fn check_place(keyslot: &Keyslot, payload_offset_bytes: u64) -> Result<(), Problem> {
    let start = keyslot.area.offset_bytes;
    let len = u64::try_from(keyslot.area_bytes()).unwrap_or(u64::MAX);
    let end = start.saturating_add(len);
    let behind_header = u64::try_from(PHDR_BYTES).is_ok_and(|header| start >= header);
    if behind_header && (payload_offset_bytes == 0 || end <= payload_offset_bytes) {
        return Ok(());
    }
    let reason =
        format!("the key slot's area (bytes {start} to {end}) overlaps the header or the data");
    Err(Problem::corrupt(reason))
}
