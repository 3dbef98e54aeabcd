//! Addresses of blocks: in the filesystem and in a file, and the block size.

use std::fmt;

/// A block of the filesystem, counted from the start of its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FsBlock(pub(crate) u64);

impl FsBlock {
    /// Returns the block `count` blocks further on.
    pub(crate) const fn after(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl fmt::Display for FsBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A block of a file, counted from the file's start ("logical block"). The format has 32 bits for
/// it (`ee_block`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileBlock(pub(crate) u32);

impl fmt::Display for FileBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The size of a block: a power of two from 1 KiB to 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockSize {
    bits: u32,
}

impl BlockSize {
    /// The largest binary logarithm, `EXT4_MAX_BLOCK_LOG_SIZE`: 64 KiB.
    const BITS_MAX: u32 = 16;
    /// The smallest binary logarithm, `EXT4_MIN_BLOCK_LOG_SIZE`: 1 KiB.
    const BITS_MIN: u32 = 10;

    /// Converts `s_log_block_size`: 0 means 1 KiB, 6 means 64 KiB.
    pub(crate) fn from_log(log_block_size: u32) -> Option<Self> {
        let bits = log_block_size.checked_add(Self::BITS_MIN)?;
        (bits <= Self::BITS_MAX).then_some(Self { bits })
    }

    /// Returns the binary logarithm of the size in bytes.
    pub(crate) const fn bits(self) -> u32 {
        self.bits
    }

    /// Returns the size in bytes.
    pub(crate) const fn bytes(self) -> u32 {
        1u32.wrapping_shl(self.bits)
    }

    /// Returns the size in bytes, as a length in memory.
    pub(crate) const fn len(self) -> usize {
        1usize.wrapping_shl(self.bits)
    }

    /// Returns the byte offset of a block. It saturates, at a value that no device reaches.
    pub(crate) fn byte_of(self, block: FsBlock) -> u64 {
        block.0.saturating_mul(u64::from(self.bytes()))
    }

    /// Returns the size of `len_blocks` blocks in bytes. It saturates.
    pub(crate) fn bytes_of(self, len_blocks: u64) -> u64 {
        len_blocks.saturating_mul(u64::from(self.bytes()))
    }

    /// Returns the byte offset of a block within its file.
    pub(crate) fn file_byte_of(self, block: FileBlock) -> u64 {
        self.bytes_of(u64::from(block.0))
    }

    /// Returns the file block that contains byte `offset`, or `None` past the last block that a
    /// file can have.
    pub(crate) fn file_block_at(self, offset: u64) -> Option<FileBlock> {
        u32::try_from(offset.wrapping_shr(self.bits))
            .ok()
            .map(FileBlock)
    }

    /// Returns the number of blocks that `size_bytes` need.
    pub(crate) fn blocks_for(self, size_bytes: u64) -> u64 {
        size_bytes.div_ceil(u64::from(self.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_from_1_to_64_kib() {
        assert_eq!(BlockSize::from_log(0).unwrap().bytes(), 1024);
        assert_eq!(BlockSize::from_log(6).unwrap().len(), 65536);
        assert!(BlockSize::from_log(7).is_none());
        assert!(BlockSize::from_log(u32::MAX).is_none());
    }

    #[test]
    fn bytes_and_blocks() {
        let size = BlockSize::from_log(2).unwrap();
        assert_eq!(size.byte_of(FsBlock(3)), 12288);
        assert_eq!(size.byte_of(FsBlock(u64::MAX)), u64::MAX);
        assert_eq!(size.file_block_at(8191), Some(FileBlock(1)));
        assert_eq!(size.file_block_at(1 << 44), None);
        assert_eq!(size.blocks_for(4097), 2);
    }
}
