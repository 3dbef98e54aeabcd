//! The label of a physical volume, `label_header`. LVM2, `lib/label/label.h`.

use diskfs_block::{BlockRead, Result, read_within};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::LvmId;
use super::crc::crc;

/// The number of sectors, one of which has the label (`LABEL_SCAN_SECTORS`).
const SCAN_SECTORS: usize = 4;

/// The size of a label's sector, whatever the disk's sector size (`LABEL_SIZE`).
pub(super) const SECTOR_BYTES: usize = 512;

/// The on-disk structure of the header.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawLabel {
    id: [u8; 8],
    sector: U64,
    crc: U32,
    offset: U32,
    kind: [u8; 8],
}

const _: () = assert!(size_of::<RawLabel>() == 32);

/// The offset of the header that follows a new label.
const HEADER_OFFSET: u32 = 32;

/// The offset of the checksum.
const CRC_AT: usize = 16;

/// The offset of the checksummed bytes: after the checksum itself.
const CRC_FROM: usize = 20;

/// The sector of a valid label, and the offset in it of the physical volume's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) sector: Vec<u8>,
    /// The offset of the sector on the device, in bytes.
    pub(super) start_bytes: u64,
    pub(super) header_offset: usize,
}

/// The result of looking for a label in a device's first sectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LabelSearch {
    Label(Label),
    /// No valid label; with the reason for each broken one.
    Nothing(Vec<String>),
}

impl Label {
    /// Finds the first valid label on `device`.
    pub(super) fn find(device: &dyn BlockRead) -> Result<LabelSearch> {
        let mut broken = Vec::new();
        for number in 0..SCAN_SECTORS {
            let offset = u64::try_from(number.saturating_mul(SECTOR_BYTES)).unwrap_or(u64::MAX);
            let Some(sector) = read_within(device, offset, SECTOR_BYTES)? else {
                break;
            };
            match Self::from_sector(sector, number) {
                Some(Ok(label)) => return Ok(LabelSearch::Label(label)),
                Some(Err(reason)) => broken.push(reason),
                None => {}
            }
        }
        Ok(LabelSearch::Nothing(broken))
    }

    /// Parses a label; returns `None` if the sector has none.
    fn from_sector(sector: Vec<u8>, number: usize) -> Option<std::result::Result<Self, String>> {
        let (raw, _) = RawLabel::ref_from_prefix(&sector).ok()?;
        if raw.id != *b"LABELONE" || raw.kind != *b"LVM2 001" {
            return None;
        }
        let (stored, actual) = (
            raw.crc.get(),
            crc(&[sector.get(CRC_FROM..).unwrap_or_default()]),
        );
        if stored != actual {
            return Some(Err(format!(
                "the LVM label in sector {number} has a wrong checksum \
                 ({actual:#010x}, stored {stored:#010x})"
            )));
        }
        let (says, header_offset) = (raw.sector.get(), raw.offset.get());
        if usize::try_from(says) != Ok(number) {
            let reason =
                format!("the LVM label in sector {number} says that it is in sector {says}");
            return Some(Err(reason));
        }
        Some(match usize::try_from(header_offset) {
            Ok(header_offset) if (size_of::<RawLabel>()..SECTOR_BYTES).contains(&header_offset) => {
                Ok(Self {
                    sector,
                    start_bytes: u64::try_from(number.saturating_mul(SECTOR_BYTES))
                        .unwrap_or(u64::MAX),
                    header_offset,
                })
            }
            _ => Err(format!(
                "the LVM label in sector {number} has its header at byte {header_offset}, not in \
                 that sector"
            )),
        })
    }

    /// Returns a label in sector 1 with this header of a physical volume.
    pub(super) fn new(header: &[u8]) -> Self {
        const NUMBER: u64 = 1;
        let raw = RawLabel {
            id: *b"LABELONE",
            sector: NUMBER.into(),
            crc: 0.into(),
            offset: HEADER_OFFSET.into(),
            kind: *b"LVM2 001",
        };
        let mut sector = [raw.as_bytes(), header].concat();
        sector.resize(SECTOR_BYTES, 0);
        let start_bytes = u64::try_from(SECTOR_BYTES).unwrap_or(u64::MAX);
        let label = Self {
            sector,
            start_bytes,
            header_offset: size_of::<RawLabel>(),
        };
        let sector = label.with_header(|_| ());
        Self { sector, ..label }
    }

    /// Returns the sector with another UUID of the physical volume.
    pub(super) fn with_id(&self, id: LvmId) -> Vec<u8> {
        self.with_header(|header| {
            for (byte, new) in header.iter_mut().zip(id.as_bytes()) {
                *byte = *new;
            }
        })
    }

    /// Returns the sector after a change of the header of the physical volume, with a new checksum.
    pub(super) fn with_header(&self, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut sector = self.sector.clone();
        change(sector.get_mut(self.header_offset..).unwrap_or(&mut []));
        let sum = crc(&[sector.get(CRC_FROM..).unwrap_or_default()]);
        let stored = sector.get_mut(CRC_AT..CRC_FROM).unwrap_or_default();
        stored.copy_from_slice(&sum.to_le_bytes());
        sector
    }
}
