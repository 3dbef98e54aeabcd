//! Minix: `struct minix_super_block` and `minix3_super_block` at 1024, in either byte order. The
//! magic has only two bytes, so the bitmaps must also have the size that the filesystem needs.

use super::found::filesystem;
use super::view::View;
use crate::stack::content::Content;

const SB: u64 = 1024;

pub(super) fn probe(view: &View<'_>) -> Option<Content> {
    [u16::from_le_bytes, u16::from_be_bytes]
        .into_iter()
        .any(|order| is_minix(view, order))
        .then(|| filesystem("minix", Vec::new(), None))
}

fn is_minix(view: &View<'_>, order: fn([u8; 2]) -> u16) -> bool {
    let short = |at| u64::from(order(view.array(SB + at)));
    // A number of four bytes, in the byte order of `order`.
    let long = |at| match order([1, 0]) {
        1 => u64::from(view.le32(SB + at)),
        _ => u64::from(view.be32(SB + at)),
    };
    let version_3 = short(24) == 0x4d5a;
    let (inodes, zones, maps_at, block_bytes) = match short(16) {
        _ if version_3 => (long(0), long(20), 6, short(28)),
        0x137f | 0x138f => (short(0), short(2), 4, 1024), // names of 14 and 30 bytes
        0x2468 | 0x2478 => (short(0), long(20), 4, 1024),
        _ => return false,
    };
    let [inode_map, zone_map, first_zone] = [0, 2, 4].map(|n| short(maps_at + n));
    let bits = |blocks: u64| blocks * block_bytes * 8;
    let holds = |map: u64, things: u64| map > 0 && things > 0 && bits(map) >= things;
    holds(inode_map, inodes) && zones > first_zone && holds(zone_map, zones - first_zone)
}
