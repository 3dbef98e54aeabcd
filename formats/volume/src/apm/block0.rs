//! The driver descriptor record: `struct Block0`.

use zerocopy::big_endian::U16;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The start of the record.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBlock0 {
    sb_sig: [u8; 2],
    sb_blk_size: U16,
}

/// A record with a valid block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block0 {
    pub(super) block_bytes: u16,
}

impl Block0 {
    /// Parses the record in a disk's first sector; returns `None` if there is none.
    pub(super) fn from_sector(sector: &[u8]) -> Option<Self> {
        let (raw, _) = RawBlock0::ref_from_prefix(sector).ok()?;
        let block_bytes = raw.sb_blk_size.get();
        let is_one = raw.sb_sig == *b"ER" && matches!(block_bytes, 512 | 1024 | 2048 | 4096);
        is_one.then_some(Self { block_bytes })
    }
}
