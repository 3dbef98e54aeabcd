//! Conversion between number types.

/// Converts a length in memory to one in a file.
pub(crate) fn len_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
