//! Key slots: the volume key, split, and encrypted with a key that is derived from a passphrase.

use diskfs_block::{BlockRead, Error, Result, check_bounds};
use zeroize::Zeroizing;

use crate::af::AntiForensic;
use crate::cipher_spec::CipherSpec;
use crate::kdf::Kdf;
use crate::limits::{Budget, Limits};
use crate::problem::Problem;
use crate::sector_cipher::Sectors;

/// The sector size in key slots, whatever the sector size of the data.
pub(crate) const SECTOR_BYTES: usize = 512;

/// The numbers of an area's sectors.
const SECTORS: Sectors = Sectors {
    first: 0,
    step: 1,
    bytes: SECTOR_BYTES,
};

/// The order in which key slots are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Priority {
    /// A slot that is tried before the others.
    High,
    /// A slot that is tried in the normal order; all slots of LUKS1 are.
    Normal,
    /// A slot that is tried only if it is selected by its number.
    Ignored,
}

/// The parameters for opening a key slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyslot {
    pub(crate) kdf: Kdf,
    pub(crate) anti_forensic: AntiForensic,
    pub(crate) area: Area,
}

/// The area of the split key, and its encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) offset_bytes: u64,
    pub(crate) cipher: CipherSpec,
    pub(crate) key_bytes: usize,
}

impl Keyslot {
    /// Returns the key that the slot holds if `secret` is the right one; otherwise other bytes.
    pub(crate) fn open(
        &self,
        header: &dyn BlockRead,
        secret: &[u8],
        budget: &mut Budget,
    ) -> Result<Zeroizing<Vec<u8>>> {
        // Read first: if the area cannot be read, the expensive key derivation is skipped.
        let mut split = self.read_area(header)?;
        let key = self.kdf.derive(secret, self.area.key_bytes, budget)?;
        let cipher = self.area.cipher.with_key(&key);
        let cipher = cipher.map_err(|problem: Problem| problem.to_error())?;
        cipher.decrypt(SECTORS, &mut split);
        Ok(self.anti_forensic.merge(&split))
    }

    /// Returns the contents of the area that holds `volume_key` for `secret`. `random` fills the
    /// stripes.
    pub(crate) fn seal(
        &self,
        volume_key: &[u8],
        secret: &[u8],
        random: Zeroizing<Vec<u8>>,
    ) -> Result<Zeroizing<Vec<u8>>> {
        let limits = Limits::default();
        let mut budget = Budget::new(&limits);
        let key = self.kdf.derive(secret, self.area.key_bytes, &mut budget)?;
        let cipher = self.area.cipher.with_key(&key);
        let cipher = cipher.map_err(|problem: Problem| problem.to_error())?;
        let mut split = self.anti_forensic.split(volume_key, random);
        split.resize(self.area_bytes(), 0);
        cipher.encrypt(SECTORS, &mut split);
        Ok(split)
    }

    /// Returns the length of the used part of the area, in whole sectors.
    pub(crate) fn area_bytes(&self) -> usize {
        self.anti_forensic
            .split_bytes()
            .next_multiple_of(SECTOR_BYTES)
    }

    fn read_area(&self, header: &dyn BlockRead) -> Result<Zeroizing<Vec<u8>>> {
        let len = self.area_bytes();
        let offset = self.area.offset_bytes;
        let len_bytes = u64::try_from(len).unwrap_or(u64::MAX);
        check_bounds(offset, len_bytes, header.size_bytes()).map_err(|_| {
            Error::corrupt("the key slot's area ends past the end of the device").at(offset)
        })?;
        let mut split = Zeroizing::new(vec![0; len]);
        header.read_at(offset, &mut split)?;
        Ok(split)
    }
}
