//! The boot record volume descriptor (El Torito, "Boot Record Volume Descriptor").

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    _kind: u8,
    _identifier: [u8; 5],
    _version: u8,
    system_identifier: [u8; 32],
    _unused: [u8; 32],
    catalog: U32,
}

const _: () = assert!(std::mem::offset_of!(Raw, catalog) == 0x47);

/// A boot record of El Torito.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BootRecord {
    /// The sector of the boot catalog.
    pub(crate) catalog_sector: u32,
}

impl BootRecord {
    /// Parses the boot record of a sector; `None` if it is not one of El Torito.
    pub(crate) fn parse(sector: &[u8]) -> Option<Self> {
        let (raw, _) = Raw::ref_from_prefix(sector).ok()?;
        raw.system_identifier
            .starts_with(b"EL TORITO SPECIFICATION")
            .then_some(Self {
                catalog_sector: raw.catalog.get(),
            })
    }
}
