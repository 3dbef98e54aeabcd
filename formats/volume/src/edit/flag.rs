//! Flags of partitions, by name.

use std::fmt;
use std::str::FromStr;

use diskfs_block::{Error, Result};

use crate::Attributes;

/// A flag of a partition: an attribute bit of a GPT entry, or the boot flag of an MBR entry.
///
/// Sources of bits 48 to 63: the Discoverable Partitions Specification (59, 60, 63) and Microsoft's
/// `PARTITION_INFORMATION_GPT` (60 to 63).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flag {
    /// Bit 0, `required`: the platform needs the partition to work.
    Required,
    /// Bit 1, `no-block-io`: firmware must not look for a filesystem on it.
    NoBlockIo,
    /// Bit 2, `legacy-boot`: a BIOS may boot from it.
    LegacyBoot,
    /// Bit 59, `grow-fs`: the filesystem is grown when it is mounted.
    GrowFs,
    /// Bit 60, `read-only`: the partition is mounted read-only.
    ReadOnly,
    /// Bit 61, `shadow-copy`: the partition is a shadow copy of another one (Windows).
    ShadowCopy,
    /// Bit 62, `hidden`: Windows does not show the partition.
    Hidden,
    /// Bit 63, `no-auto`: the partition is not mounted automatically.
    NoAuto,
    /// Any other attribute bit that a partition's type defines, 48 to 58: `48`.
    Bit(u8),
    /// `active`: the BIOS boots from this entry of the MBR.
    Active,
}

/// The flags with a name, and their bits in a GPT.
const NAMES: [(&str, Flag, Option<u8>); 9] = [
    ("required", Flag::Required, Some(0)),
    ("no-block-io", Flag::NoBlockIo, Some(1)),
    ("legacy-boot", Flag::LegacyBoot, Some(2)),
    ("grow-fs", Flag::GrowFs, Some(59)),
    ("read-only", Flag::ReadOnly, Some(60)),
    ("shadow-copy", Flag::ShadowCopy, Some(61)),
    ("hidden", Flag::Hidden, Some(62)),
    ("no-auto", Flag::NoAuto, Some(63)),
    ("active", Flag::Active, None),
];

impl Flag {
    /// Returns the flags of GPT attributes. Bits that no specification defines are left out.
    pub fn of_attributes(attributes: Attributes) -> Vec<Self> {
        let is_set = |bit: u8| attributes.0.checked_shr(bit.into()).unwrap_or(0) & 1 != 0;
        let flag = |bit: u8| {
            let named = NAMES.iter().find(|&&(_, _, named)| named == Some(bit));
            named.map_or(Self::Bit(bit), |&(_, flag, _)| flag)
        };
        let bits = (0..3).chain(48..64);
        bits.filter(|&bit| is_set(bit)).map(flag).collect()
    }

    /// Returns `attributes` with the flag set or cleared.
    ///
    /// # Errors
    /// `Invalid` for the flag `active`, which only an MBR has.
    pub(super) fn apply(self, attributes: Attributes, set: bool) -> Result<Attributes> {
        let bit = match self {
            Self::Bit(bit) => Some(bit),
            _ => NAMES
                .iter()
                .find(|&&(_, flag, _)| flag == self)
                .and_then(|&(_, _, bit)| bit),
        };
        let mask = bit.and_then(|bit| 1_u64.checked_shl(bit.into()));
        let mask = mask.ok_or_else(|| {
            Error::invalid(format!("a GPT has no flag `{self}`"))
                .with_hint("`legacy-boot` is the flag that a BIOS boot loader looks for")
        })?;
        Ok(Attributes(if set {
            attributes.0 | mask
        } else {
            attributes.0 & !mask
        }))
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Bit(bit) = self {
            return write!(f, "{bit}");
        }
        let named = NAMES.iter().find(|(_, flag, _)| flag == self);
        f.write_str(named.map_or("", |&(name, _, _)| name))
    }
}

impl FromStr for Flag {
    type Err = Error;

    /// Parses the name of a flag, or the number of an attribute bit.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](diskfs_block::ErrorKind::Invalid) for an unknown name, and for a bit
    /// that the specification reserves (3 to 47).
    fn from_str(text: &str) -> Result<Self> {
        let by_name = NAMES.iter().find(|(name, _, _)| *name == text);
        let by_bit = || {
            let bit: u8 = text.parse().ok()?;
            let named = NAMES.iter().find(|&&(_, _, named)| named == Some(bit));
            let other = (48..64).contains(&bit).then_some(Self::Bit(bit));
            named.map(|&(_, flag, _)| flag).or(other)
        };
        by_name
            .map(|&(_, flag, _)| flag)
            .or_else(by_bit)
            .ok_or_else(|| {
                let names = NAMES.map(|(name, _, _)| name).join(", ");
                Error::invalid(format!("unknown flag `{text}`"))
                    .with_hint(format!("give one of {names}, or a bit from 48 to 63"))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bits_are_read_back() {
        for (name, flag, bit) in NAMES {
            assert_eq!(name.parse::<Flag>().unwrap(), flag);
            assert_eq!(flag.to_string(), name);
            if let Some(bit) = bit {
                assert_eq!(bit.to_string().parse::<Flag>().unwrap(), flag);
                let set = flag.apply(Attributes(1 << 50), true).unwrap();
                assert_eq!(set, Attributes(1 << 50 | 1 << bit));
                assert_eq!(flag.apply(set, false).unwrap(), Attributes(1 << 50));
                assert!(Flag::of_attributes(set).contains(&flag));
            }
        }
        assert_eq!("48".parse::<Flag>().unwrap(), Flag::Bit(48));
        for invalid in ["", "3", "47", "64", "boot"] {
            assert!(invalid.parse::<Flag>().is_err(), "{invalid}");
        }
        assert!(Flag::Active.apply(Attributes(0), true).is_err());
    }
}
