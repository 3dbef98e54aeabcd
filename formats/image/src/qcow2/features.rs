//! The three feature fields: specification, fields `incompatible_features`, `compatible_features`
//! and `autoclear_features`.

use diskfs_block::{Error, Result};

use crate::numbers::has_bit;
use crate::qcow2::feature_names::{FeatureField, FeatureNames};

/// The bits that a program must know to open the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Incompatible(pub(crate) u64);

/// The bits that a program may ignore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compatible(pub(crate) u64);

/// The bits that a program must clear when it writes without knowing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Autoclear(pub(crate) u64);

impl Incompatible {
    /// The known bits, 0 to 4: dirty, corrupt, external data file, compression type, extended L2 entries.
    const KNOWN: u64 = 0b1_1111;

    pub(crate) const DIRTY: u64 = 1;
    pub(crate) const CORRUPT: u64 = 1 << 1;
    pub(crate) const EXTERNAL_DATA_FILE: u64 = 1 << 2;
    pub(crate) const COMPRESSION_TYPE: u64 = 1 << 3;
    pub(crate) const EXTENDED_L2: u64 = 1 << 4;

    pub(crate) const fn dirty(self) -> bool {
        has_bit(self.0, 0)
    }

    pub(crate) const fn corrupt(self) -> bool {
        has_bit(self.0, 1)
    }

    pub(crate) const fn external_data_file(self) -> bool {
        has_bit(self.0, 2)
    }

    pub(crate) const fn compression_type(self) -> bool {
        has_bit(self.0, 3)
    }

    pub(crate) const fn extended_l2(self) -> bool {
        has_bit(self.0, 4)
    }

    /// Returns the bits that are not known.
    pub(crate) const fn unknown(self) -> u64 {
        self.0 & !Self::KNOWN
    }

    /// Fails for unknown bits, with the names that the image itself gives them.
    pub(crate) fn refuse_unknown(self, names: &FeatureNames) -> Result<()> {
        let unknown = self.unknown();
        if unknown == 0 {
            return Ok(());
        }
        let list: Vec<_> = bits(unknown)
            .map(|bit| names.describe(FeatureField::Incompatible, bit))
            .collect();
        let reason = format!("unknown incompatible feature: {}", list.join(", "));
        Err(Error::unsupported(reason).at(72))
    }
}

impl Compatible {
    pub(crate) const LAZY_REFCOUNTS: u64 = 1 << 0;

    pub(crate) const fn lazy_refcounts(self) -> bool {
        has_bit(self.0, 0)
    }
}

impl Autoclear {
    pub(crate) const BITMAPS: u64 = 1;
    pub(crate) const RAW_EXTERNAL_DATA: u64 = 1 << 1;
    /// The known bits, 0 and 1: bitmaps, raw external data.
    pub(crate) const KNOWN: u64 = 0b11;

    pub(crate) const fn bitmaps(self) -> bool {
        has_bit(self.0, 0)
    }

    pub(crate) const fn raw_external_data(self) -> bool {
        has_bit(self.0, 1)
    }
}

/// Returns the indices of the set bits.
pub(crate) fn bits(field: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |&bit| has_bit(field, bit))
}
