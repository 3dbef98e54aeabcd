//! A package's header as it is stored in a database: bytes of a known length, wherever they are.

use diskfs_block::{Error, Result};

/// Bytes that are read on demand.
pub(crate) trait Blob {
    /// Returns the length in bytes.
    fn len_bytes(&self) -> u64;

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `Corrupt` if the blob is shorter; the errors of the device.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()>;
}

/// Fails unless `len` bytes at `offset` are within a blob of `len_bytes`.
pub(crate) fn check_within(offset: u64, len: u64, len_bytes: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= len_bytes => Ok(()),
        _ => Err(Error::corrupt(format!(
            "invalid length: {len} bytes are needed at byte {offset} of {len_bytes}"
        ))),
    }
}

/// A part of another blob.
pub(crate) struct BlobPart<B> {
    inner: B,
    start: u64,
    len_bytes: u64,
}

impl<B: Blob> BlobPart<B> {
    /// Returns the `len_bytes` bytes of `inner` from `start` on.
    ///
    /// # Errors
    /// `Corrupt` if `inner` is shorter.
    pub(crate) fn new(inner: B, start: u64, len_bytes: u64) -> Result<Self> {
        check_within(start, len_bytes, inner.len_bytes())?;
        Ok(Self {
            inner,
            start,
            len_bytes,
        })
    }
}

impl<B: Blob> Blob for BlobPart<B> {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = diskfs_block::bytes::len_u64(buf.len());
        check_within(offset, len, self.len_bytes)?;
        self.inner.read_at(self.start.saturating_add(offset), buf)
    }
}

#[cfg(test)]
pub(crate) struct InMemory(pub(crate) Vec<u8>);

#[cfg(test)]
impl Blob for InMemory {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_within(offset, buf.len() as u64, self.len_bytes())?;
        let start = usize::try_from(offset).unwrap();
        buf.copy_from_slice(&self.0[start..start + buf.len()]);
        Ok(())
    }
}
