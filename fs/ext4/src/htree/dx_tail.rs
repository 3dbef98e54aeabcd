//! `struct dx_tail`: the checksum after an index block's table, with `metadata_csum`.

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::bytes::{part, put};
use crate::checksum::ChecksumSeed;

use super::dx_entry::{DxTable, ENTRY_BYTES};

/// `struct dx_tail` as it is stored.
#[derive(Debug, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawDxTail {
    reserved: [u8; 4],
    checksum: U32,
}

/// The size of `struct dx_tail`.
pub(super) const TAIL_BYTES: usize = size_of::<RawDxTail>();

/// The checksum stored in a block, and the one computed from its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checksums {
    pub(super) stored: u32,
    pub(super) computed: u32,
}

/// Returns the checksums of an index block whose table begins at `offset`. They cover everything up
/// to the last entry in use, and the tail with a checksum of zero. `seed` is the directory's.
pub(super) fn checksums(
    block: &[u8],
    offset: usize,
    table: &DxTable<'_>,
    seed: ChecksumSeed,
) -> Checksums {
    let behind = |entries: usize| offset.saturating_add(entries.saturating_mul(ENTRY_BYTES));
    let used = block.get(..behind(table.count())).unwrap_or_default();
    let tail = part(block, behind(table.limit()), TAIL_BYTES);
    let (stored, reserved) = match tail.map(RawDxTail::ref_from_bytes) {
        Some(Ok(tail)) => (tail.checksum.get(), tail.reserved),
        _ => Default::default(),
    };
    let computed = seed.of(&[used, &reserved, &[0; 4]]);
    Checksums { stored, computed }
}

/// Updates the checksum of an index block.
pub(super) fn seal(block: &mut [u8], offset: usize, limit: usize, seed: ChecksumSeed) {
    let Ok(table) = DxTable::parse(block, offset, limit) else {
        return;
    };
    let sum = checksums(block, offset, &table, seed).computed;
    let tail = offset.saturating_add(limit.saturating_mul(ENTRY_BYTES));
    let place = tail.saturating_add(std::mem::offset_of!(RawDxTail, checksum));
    put(block, place, &sum.to_le_bytes());
}
