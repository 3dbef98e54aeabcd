//! Conversions of lengths and raw big-endian fields, without a cast or an index that could go
//! wrong.

pub(crate) use diskfs_block::bytes::{array, be16, be32, be64, index, len_u64, part};
