//! The layout of a new disk image, which is written from its beginning to its end.

use std::fmt::Debug;

use crate::Result;

/// Writes bytes at an offset of a file.
pub type WriteAt<'a> = dyn FnMut(u64, &[u8]) -> Result<()> + 'a;

/// A format's layout of a new image: the places of the guest's bytes, and the tables that say so.
///
/// A format crate implements this trait, and opens no file. Its caller begins with an empty file,
/// asks for the place of each range that is not zero, in ascending order, and writes the data
/// there. What is not written reads as zeroes. [`finish`](Self::finish) writes the tables, so the
/// order of the calls determines the file.
pub trait ImageLayout: Debug + Send {
    /// Returns the size of the guest's disk in bytes. A format with a geometry may make it larger
    /// than the size that was requested.
    fn size_bytes(&self) -> u64;

    /// Returns the unit in which space is allocated: a power of two of at least 512 bytes. Bytes of
    /// one unit are contiguous in the file.
    fn block_bytes(&self) -> u64;

    /// Returns the place in the file of the guest's byte at `offset`, for which space is allocated
    /// unless it has some.
    ///
    /// # Errors
    /// `Unsupported` if the file becomes larger than the format allows; the errors of `write`.
    fn place(&mut self, offset: u64, write: &mut WriteAt<'_>) -> Result<u64>;

    /// Writes all tables, and returns the length that the file must have.
    ///
    /// # Errors
    /// The errors of `write`.
    fn finish(&mut self, write: &mut WriteAt<'_>) -> Result<u64>;
}
