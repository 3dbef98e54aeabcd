//! A GPT partition entry. UEFI specification 2.10, section 5.3.3, tables 5.6 to 5.8.

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::sector::Lba;
use crate::{Attributes, Guid};

/// The part of an entry that the specification defines; a longer entry has zeroes after it.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    partition_type_guid: [u8; 16],
    unique_partition_guid: [u8; 16],
    starting_lba: U64,
    ending_lba: U64,
    attributes: U64,
    partition_name: [U16; 36],
}

const _: () = assert!(size_of::<RawEntry>() == 128);

/// An entry in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) type_guid: Guid,
    pub(super) guid: Guid,
    pub(super) first: Lba,
    /// The last sector of the partition.
    pub(super) last: Lba,
    pub(super) attributes: Attributes,
    pub(super) name: String,
}

impl Entry {
    /// Parses an entry; returns `None` if it is unused (or shorter than 128 bytes, which callers
    /// exclude).
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
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

    /// Returns the number of sectors; `None` if the first one is after the last.
    pub(super) fn len_sectors(&self) -> Option<u64> {
        self.last.0.checked_sub(self.first.0)?.checked_add(1)
    }
}

/// Decodes UTF-16 up to the first NUL or the field's end.
fn decode_name(units: &[U16; 36]) -> String {
    let units = units.iter().map(|u| u.get()).take_while(|&u| u != 0);
    char::decode_utf16(units)
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
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
