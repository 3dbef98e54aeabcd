//! References to inodes, and other places in tables of metadata blocks.

/// A place in a table of metadata blocks: the block's offset from the start of the table (48 bits),
/// and the offset in the decompressed block (16 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InodeReference(pub(crate) u64);

impl InodeReference {
    /// Returns the reference to a byte of a block.
    pub(crate) fn new(block: u32, offset: u16) -> Self {
        Self(u64::from(block).wrapping_shl(16) | u64::from(offset))
    }

    /// Returns the block's offset from the start of the table.
    pub(crate) const fn block(self) -> u64 {
        self.0.wrapping_shr(16)
    }

    /// Returns the offset in the decompressed block.
    pub(crate) fn offset(self) -> usize {
        usize::try_from(self.0 & 0xffff).unwrap_or(usize::MAX)
    }
}
