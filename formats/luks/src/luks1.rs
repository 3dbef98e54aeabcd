//! LUKS1: one header, eight key slots.

mod keyblock;
mod phdr;

pub(crate) use phdr::from_bytes;

/// Bytes of the header, key blocks and all.
pub(crate) const PHDR_BYTES: usize = 592;

/// What LUKS1 counts offsets in.
const SECTOR_BYTES: u64 = 512;
