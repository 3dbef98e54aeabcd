//! A GPT partition entry. UEFI specification 2.10, section 5.3.3, tables 5.6 to 5.8.

use diskfs_block::bytes::text_until_nul;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::sector::Lba;
use crate::{Attributes, Guid};

/// The part of an entry that the specification defines; a longer entry has zeroes after it.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    partition_type_guid: [u8; 16],
    unique_partition_guid: [u8; 16],
    starting_lba: U64,
    ending_lba: U64,
    attributes: U64,
    partition_name: [U16; MAX_NAME_UNITS],
}

const _: () = assert!(size_of::<RawEntry>() == 128);

/// The longest name in UTF-16 units.
pub(crate) const MAX_NAME_UNITS: usize = 36;

/// An entry in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) type_guid: Guid,
    pub(crate) guid: Guid,
    pub(crate) first: Lba,
    /// The last sector of the partition.
    pub(crate) last: Lba,
    pub(crate) attributes: Attributes,
    pub(crate) name: String,
}

impl Entry {
    /// Parses an entry; returns `None` if it is unused (or shorter than 128 bytes, which callers
    /// exclude).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = RawEntry::ref_from_prefix(bytes).ok()?;
        let type_guid = Guid::from_disk(raw.partition_type_guid);
        if type_guid.is_nil() {
            return None;
        }
        Some(Self {
            type_guid,
            guid: Guid::from_disk(raw.unique_partition_guid),
            first: Lba(raw.starting_lba.get()),
            last: Lba(raw.ending_lba.get()),
            attributes: Attributes(raw.attributes.get()),
            name: decode_name(&raw.partition_name),
        })
    }

    /// Writes the entry over `bytes`, which are an entry of the array. A name that did not change
    /// keeps its bytes, which may not be valid UTF-16.
    pub(crate) fn write_to(&self, bytes: &mut [u8]) {
        let Ok((raw, _)) = RawEntry::mut_from_prefix(bytes) else {
            return;
        };
        raw.partition_type_guid = self.type_guid.to_disk();
        raw.unique_partition_guid = self.guid.to_disk();
        raw.starting_lba = U64::new(self.first.0);
        raw.ending_lba = U64::new(self.last.0);
        raw.attributes = U64::new(self.attributes.0);
        if decode_name(&raw.partition_name) != self.name {
            raw.partition_name = [U16::ZERO; MAX_NAME_UNITS];
            let units = self.name.encode_utf16();
            for (unit, value) in raw.partition_name.iter_mut().zip(units) {
                *unit = U16::new(value);
            }
        }
    }

    /// Returns the number of sectors; `None` if the first one is after the last.
    pub(crate) fn len_sectors(&self) -> Option<u64> {
        self.last.0.checked_sub(self.first.0)?.checked_add(1)
    }
}

/// Decodes UTF-16 up to the first NUL or the field's end.
fn decode_name(units: &[U16; MAX_NAME_UNITS]) -> String {
    text_until_nul(units.iter().map(|unit| unit.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_the_first_nul_and_may_be_full() {
        let mut units = [U16::new(0); 36];
        for (unit, value) in units.iter_mut().zip("gr\u{fc}n".encode_utf16()) {
            *unit = U16::new(value);
        }
        units[10] = U16::new(65);
        assert_eq!(decode_name(&units), "gr\u{fc}n");
        assert_eq!(decode_name(&[U16::new(65); 36]), "A".repeat(36));
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced() {
        let mut units = [U16::new(0); 36];
        units[0] = U16::new(0xd83d);
        units[1] = U16::new(65);
        assert_eq!(decode_name(&units), "\u{fffd}A");
    }

    #[test]
    fn attributes_are_printed_as_sfdisk_does() {
        assert_eq!(Attributes(0).to_string(), "");
        assert_eq!(
            Attributes(1 | 4 | 1 << 48 | 1 << 63).to_string(),
            "RequiredPartition LegacyBIOSBootable GUID:48,63"
        );
    }

    #[test]
    fn sectors_are_counted_with_the_last_one() {
        let entry = |first, last| Entry {
            type_guid: Guid::from_u128(1),
            guid: Guid::NIL,
            first: Lba(first),
            last: Lba(last),
            attributes: Attributes::default(),
            name: String::new(),
        };
        assert_eq!(entry(34, 34).len_sectors(), Some(1));
        assert_eq!(entry(34, 33).len_sectors(), None);
        assert_eq!(entry(0, u64::MAX).len_sectors(), None);
    }
}
