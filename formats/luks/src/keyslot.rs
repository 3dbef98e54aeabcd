//! Key slots: the volume key, split and encrypted with a key that a passphrase leads to.

use diskfs_block::{BlockRead, Error, Result, check_bounds};
use zeroize::Zeroizing;

use crate::af::AntiForensic;
use crate::cipher_spec::CipherSpec;
use crate::kdf::Kdf;
use crate::limits::Budget;
use crate::problem::Problem;
use crate::sector_cipher::Sectors;

/// Key slots count in sectors of this size, whatever the data's is.
pub(crate) const SECTOR_BYTES: usize = 512;

/// When a key slot is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Priority {
    /// Before the others.
    High,
    /// As always in LUKS1.
    Normal,
    /// Never, unless it is asked for by its number.
    Ignored,
}

/// What it takes to try a key slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keyslot {
    pub(crate) kdf: Kdf,
    pub(crate) anti_forensic: AntiForensic,
    pub(crate) area: Area,
}

/// Where the split key is and how it is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) offset_bytes: u64,
    pub(crate) cipher: CipherSpec,
    pub(crate) key_bytes: usize,
}

impl Keyslot {
    /// The key that the slot holds if `secret` is its own; something else if it is not.
    pub(crate) fn open(
        &self,
        header: &dyn BlockRead,
        secret: &[u8],
        budget: &mut Budget,
    ) -> Result<Zeroizing<Vec<u8>>> {
        // Reading first: what cannot be read needs no key.
        let mut split = self.read_area(header)?;
        let key = self.kdf.derive(secret, self.area.key_bytes, budget)?;
        let cipher = self.area.cipher.with_key(&key);
        let cipher = cipher.map_err(|problem: Problem| problem.to_error())?;
        let sectors = Sectors {
            first: 0,
            step: 1,
            bytes: SECTOR_BYTES,
        };
        cipher.decrypt(sectors, &mut split);
        Ok(self.anti_forensic.merge(&split))
    }

    /// Bytes of the area that are in use: whole sectors.
    pub(crate) fn area_bytes(&self) -> usize {
        self.anti_forensic
            .split_bytes()
            .next_multiple_of(SECTOR_BYTES)
    }

    fn read_area(&self, header: &dyn BlockRead) -> Result<Zeroizing<Vec<u8>>> {
        let len = self.area_bytes();
        let offset = self.area.offset_bytes;
        let len_bytes = u64::try_from(len).unwrap_or(u64::MAX);
        check_bounds(offset, len_bytes, header.size_bytes())
            .map_err(|_| Error::corrupt("the key slot's area ends past the device").at(offset))?;
        let mut split = Zeroizing::new(vec![0; len]);
        header.read_at(offset, &mut split)?;
        Ok(split)
    }
}
