//! An entry of the L1 table: specification, section "Cluster mapping".

use diskfs_block::{Error, Result};

use crate::qcow2::units::{Geometry, HostOffset};

/// The bits of the offset: 9 to 55.
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
/// The "copied" flag, bit 63: the L2 table's refcount is exactly one.
const COPIED: u64 = 1 << 63;

/// Returns the offset of the L2 table to which an L1 entry points; `None` if there is none.
///
/// `at` is where the entry itself is stored.
pub(crate) fn l2_table(
    entry: u64,
    geometry: Geometry,
    at: HostOffset,
) -> Result<Option<HostOffset>> {
    let reserved = entry & !(OFFSET_MASK | COPIED);
    if reserved != 0 {
        let reason = format!("invalid L1 entry {entry:#018x}: reserved bits are set");
        return Err(Error::corrupt(reason).at(at.0));
    }
    let offset = entry & OFFSET_MASK;
    if !geometry.is_cluster_aligned(offset) {
        let reason = format!("invalid L2 table offset {offset:#x}: not at the start of a cluster");
        return Err(Error::corrupt(reason).at(at.0));
    }
    Ok((offset != 0).then_some(HostOffset(offset)))
}

/// Returns true if reserved bits of an entry are set.
pub(crate) const fn has_reserved_bits(entry: u64) -> bool {
    entry & !(OFFSET_MASK | COPIED) != 0
}

/// Returns the offset in an entry without checking it; 0 for none.
pub(crate) const fn offset(entry: u64) -> u64 {
    entry & OFFSET_MASK
}

/// Returns the entry for an L2 table that has no other reference.
pub(crate) const fn entry_for(l2_table: HostOffset) -> u64 {
    l2_table.0 | COPIED
}

/// Returns true if the entry's table has no other reference, so that it may be changed.
pub(crate) const fn is_copied(entry: u64) -> bool {
    entry & COPIED != 0
}

/// Returns the entry with its "copied" flag set or cleared.
pub(crate) const fn with_copied(entry: u64, copied: bool) -> u64 {
    if copied {
        entry | COPIED
    } else {
        entry & !COPIED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qcow2::units::L2Layout;

    #[test]
    fn offsets_are_checked() {
        let g = Geometry::new(16, L2Layout::Standard);
        let at = HostOffset(0x30008);
        assert_eq!(l2_table(0, g, at).unwrap(), None);
        assert_eq!(
            l2_table(COPIED | 0x50000, g, at).unwrap(),
            Some(HostOffset(0x50000))
        );
        for bad in [0x50001, 0x50200, 1 << 62, 1 << 56] {
            let e = l2_table(bad, g, at).unwrap_err();
            assert_eq!(e.offset(), Some(0x30008), "{bad:#x}");
        }
    }
}
