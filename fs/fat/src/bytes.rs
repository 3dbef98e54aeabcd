//! Lengths, small numbers and raw little-endian fields, without a cast or an index that could go wrong.

pub(crate) use diskfs_block::bytes::{index, le16, le32, put};
pub(crate) use diskfs_clusters::low32;
