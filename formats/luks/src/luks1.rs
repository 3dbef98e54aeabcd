//! The LUKS1 format: one header with eight key slots.

mod create;
mod details;
mod keyblock;
mod keyslots;
mod phdr;

pub use create::{Luks1Options, NewLuks1};
pub use details::{Luks1Details, Luks1Slot};
pub use keyslots::{KeyslotGuard, Luks1Keyslots, NewKeyslot};
pub(crate) use phdr::from_bytes;

/// The length of the header in bytes, including the key blocks.
pub(crate) const PHDR_BYTES: usize = 592;

/// The unit of offsets in LUKS1.
const SECTOR_BYTES: u64 = 512;
