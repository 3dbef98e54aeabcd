//! Numbers of one type as another.

/// Returns a length in memory as one of a file.
pub(crate) fn len_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
