//! Volume descriptors (ECMA-119, 8.1, 8.4 and 8.5; Joliet Specification, "Supplementary Volume
//! Descriptor").

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::date_time::LONG_BYTES;
use crate::error::{Result, corrupt};
use crate::numbers::{Both16, Both32};

/// The size of a logical sector in bytes: the unit of descriptors. Directory records do not cross
/// its boundaries.
pub(crate) const SECTOR_BYTES: u64 = 2048;
/// The sector of the first descriptor.
pub(crate) const FIRST_SECTOR: u64 = 16;
/// The maximum number of descriptors. Writers make only a few; Linux reads up to sector 100.
pub(crate) const MAX_DESCRIPTORS: u64 = 84;

/// The type of a descriptor, from its first bytes (8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DescriptorType {
    BootRecord,
    Primary,
    Supplementary,
    Terminator,
    Other,
}

impl DescriptorType {
    /// Returns the type of the descriptor in a sector; `None` if there is no descriptor.
    pub(crate) fn of(sector: &[u8]) -> Option<Self> {
        let kind = *sector.first()?;
        (sector.get(1..6)? == b"CD001").then_some(match kind {
            0 => Self::BootRecord,
            1 => Self::Primary,
            2 => Self::Supplementary,
            255 => Self::Terminator,
            _ => Self::Other,
        })
    }
}

/// The layout of primary and supplementary descriptors, which have the same fields (8.4, 8.5).
#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    _kind: u8,
    _identifier: [u8; 5],
    version: u8,
    flags: u8,
    _system_identifier: [u8; 32],
    volume_identifier: [u8; 32],
    _unused_72: [u8; 8],
    volume_space_size: Both32,
    escape_sequences: [u8; 32],
    _volume_set_size: [u8; 4],
    _volume_sequence_number: [u8; 4],
    logical_block_size: Both16,
    _path_tables: [u8; 24],
    root: [u8; 34],
    _names: [u8; 623],
    creation: [u8; LONG_BYTES],
    modification: [u8; LONG_BYTES],
}

const _: () = assert!(std::mem::offset_of!(Raw, root) == 156);
const _: () = assert!(std::mem::offset_of!(Raw, modification) == 830);

/// A parsed primary or supplementary descriptor.
#[derive(Debug, Clone)]
pub(crate) struct VolumeDescriptor {
    /// The size of a logical block: 512, 1024 or 2048 bytes.
    pub(crate) block_bytes: u32,
    pub(crate) blocks: u32,
    pub(crate) volume_identifier: [u8; 32],
    /// The directory record of the root.
    pub(crate) root: [u8; 34],
    pub(crate) is_joliet: bool,
    /// The creation date: decimal digits, or zeroes if not specified.
    creation: [u8; LONG_BYTES],
    modification: [u8; LONG_BYTES],
}

impl VolumeDescriptor {
    /// Parses the descriptor in the sector at byte `at` of the device.
    pub(crate) fn parse(sector: &[u8], at: u64) -> Result<Self> {
        let Ok((raw, _)) = Raw::ref_from_prefix(sector) else {
            return Err(corrupt("invalid volume descriptor: it is too short", at));
        };
        let block_bytes = raw.logical_block_size.get();
        if !matches!(block_bytes, 512 | 1024 | 2048) {
            let reason = format!(
                "invalid volume descriptor: block size is {block_bytes}, expected 512, 1024 or 2048"
            );
            return Err(corrupt(reason, at));
        }
        let is_joliet = raw.version == 1
            && raw.flags & 1 == 0
            && [b"%/@", b"%/C", b"%/E"]
                .iter()
                .any(|level| raw.escape_sequences.starts_with(*level));
        Ok(Self {
            block_bytes: block_bytes.into(),
            blocks: raw.volume_space_size.get(),
            volume_identifier: raw.volume_identifier,
            root: raw.root,
            is_joliet,
            creation: raw.creation,
            modification: raw.modification,
        })
    }

    /// Returns the UUID as `blkid` does: the date of the last modification or, without one, of the
    /// creation.
    pub(crate) fn uuid(&self) -> Option<String> {
        [&self.modification, &self.creation]
            .into_iter()
            .find_map(date_as_uuid)
    }
}

/// Formats a date like `2026-01-02-03-04-05-00`; `None` for a date that is not specified.
fn date_as_uuid(date: &[u8; LONG_BYTES]) -> Option<String> {
    let digits = std::str::from_utf8(date.get(..16)?).ok()?;
    let known = digits.bytes().all(|byte| byte.is_ascii_digit());
    if !known || digits.bytes().all(|byte| byte == b'0') {
        return None;
    }
    let ends = [0, 4, 6, 8, 10, 12, 14, 16];
    let parts = ends.iter().zip(ends.iter().skip(1));
    let parts: Option<Vec<&str>> = parts.map(|(from, to)| digits.get(*from..*to)).collect();
    Some(parts?.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_stands_in_for_a_uuid() {
        let uuid = date_as_uuid(b"2026010203040500\0");
        assert_eq!(uuid.as_deref(), Some("2026-01-02-03-04-05-00"));
        assert_eq!(date_as_uuid(b"0000000000000000\0"), None);
        assert_eq!(date_as_uuid(&[0; 17]), None);
    }

    #[test]
    fn only_sane_blocks_are_taken() {
        let mut sector = vec![0; 2048];
        assert!(VolumeDescriptor::parse(&sector, 0).is_err());
        sector[129] = 8;
        let descriptor = VolumeDescriptor::parse(&sector, 0).unwrap();
        assert_eq!(
            (descriptor.block_bytes, descriptor.is_joliet),
            (2048, false)
        );
        sector[6] = 1;
        sector[88..91].copy_from_slice(b"%/E");
        assert!(VolumeDescriptor::parse(&sector, 0).unwrap().is_joliet);
    }
}
