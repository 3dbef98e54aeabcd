//! The layouts of contents, in `i_format` of inodes.

/// The way in which the contents of an inode are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Blocks in a row.
    FlatPlain,
    /// Compressed, with full indexes or extent records.
    CompressedFull,
    /// Blocks in a row, but the last one follows the inode.
    FlatInline,
    /// Compressed, with compact indexes.
    CompressedCompact,
    /// Chunks anywhere.
    ChunkBased,
}

impl Layout {
    /// Returns the layout in `i_format`, or `None` if it is unknown.
    pub(crate) fn from_format(format: u16) -> Option<Self> {
        Some(match format.wrapping_shr(1) & 7 {
            0 => Self::FlatPlain,
            1 => Self::CompressedFull,
            2 => Self::FlatInline,
            3 => Self::CompressedCompact,
            4 => Self::ChunkBased,
            _ => return None,
        })
    }

    pub(crate) const fn is_compressed(self) -> bool {
        matches!(self, Self::CompressedFull | Self::CompressedCompact)
    }
}
