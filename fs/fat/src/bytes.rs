//! Conversions of lengths and little-endian fields, without casts or indexing that could panic.

pub(crate) use diskfs_block::bytes::{index, le16, le32, len_u64, put};
pub(crate) use diskfs_clusters::low32;
