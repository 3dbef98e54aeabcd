//! An entry of the L1 table: specification, section "Cluster mapping".

use diskfs_block::{Error, Result};

use crate::qcow2::units::{Geometry, HostOffset};

/// Bits 9 to 55.
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
/// Bit 63: the L2 table's refcount is exactly one.
const COPIED: u64 = 1 << 63;

/// Where the L2 table is that an L1 entry points to; `None` when there is none.
///
/// `at` is where the entry itself is stored.
pub(crate) fn l2_table(
    entry: u64,
    geometry: Geometry,
    at: HostOffset,
) -> Result<Option<HostOffset>> {
    let reserved = entry & !(OFFSET_MASK | COPIED);
    if reserved != 0 {
        let reason = format!("L1 entry {entry:#018x} has reserved bits set");
        return Err(Error::corrupt(reason).at(at.0));
    }
    let offset = entry & OFFSET_MASK;
    if !geometry.is_cluster_aligned(offset) {
        let reason = format!("L2 table at {offset:#x}, not at the start of a cluster");
        return Err(Error::corrupt(reason).at(at.0));
    }
    Ok((offset != 0).then_some(HostOffset(offset)))
}

/// The place that an entry names, whatever else is wrong with it; 0 for none.
pub(crate) const fn offset(entry: u64) -> u64 {
    entry & OFFSET_MASK
}

/// The entry that points to an L2 table which nothing else uses.
pub(crate) const fn entry_for(l2_table: HostOffset) -> u64 {
    l2_table.0 | COPIED
}

/// Whether nothing else refers to the entry's table, so that it may be changed.
pub(crate) const fn is_copied(entry: u64) -> bool {
    entry & COPIED != 0
}

/// The entry, saying whether anything else refers to its table.
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
