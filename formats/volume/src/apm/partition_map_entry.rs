//! `struct Partition`, an entry of the map.

use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The start of the entry.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPartition {
    sig: [u8; 2],
    sig_pad: [u8; 2],
    map_blk_cnt: U32,
    py_part_start: U32,
    part_blk_cnt: U32,
    part_name: [u8; 32],
    par_type: [u8; 32],
}

/// An entry of the map, in blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MapEntry {
    /// The number of entries of the map.
    pub(super) map_blocks: u32,
    pub(super) start_blocks: u32,
    pub(super) len_blocks: u32,
    pub(super) name: String,
    pub(super) kind: String,
}

impl MapEntry {
    /// Parses the entry in a block; returns `None` if there is none.
    pub(super) fn from_block(block: &[u8]) -> Option<Self> {
        let (raw, _) = RawPartition::ref_from_prefix(block).ok()?;
        (raw.sig == *b"PM").then(|| Self {
            map_blocks: raw.map_blk_cnt.get(),
            start_blocks: raw.py_part_start.get(),
            len_blocks: raw.part_blk_cnt.get(),
            name: text(&raw.part_name),
            kind: text(&raw.par_type),
        })
    }
}

/// Decodes a string that ends with a NUL or fills its field.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
