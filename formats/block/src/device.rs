//! The two traits of block devices.

use std::fmt::Debug;

use crate::{Error, ErrorKind, Extent, ExtentKind, Result};

/// The largest number of zeroes in one write.
const ZEROES_BYTES: u64 = 1 << 20;

/// A device that can be read: a size, and positional reads from any thread.
///
/// Offsets and lengths are in bytes and need no alignment; a device that needs alignment uses
/// bounce buffers internally. There is no cursor and no hidden state: any number of threads may
/// read at once.
pub trait BlockRead: Debug + Send + Sync {
    /// Returns the device's size in bytes. Only [`BlockWrite::set_size`] changes it while the
    /// device is open.
    fn size_bytes(&self) -> u64;

    /// Fills all of `buf` with the bytes at `offset`, or fails.
    ///
    /// # Errors
    /// * [`ErrorKind::OutOfBounds`] if the range does not lie within the device.
    /// * [`ErrorKind::Corrupt`] if the format's metadata for the range is invalid.
    /// * [`ErrorKind::Io`] if a device below fails.
    ///
    /// After an error the contents of `buf` are unspecified.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Returns the run that begins at `offset` and how it is stored, so that copies and exports can
    /// skip holes. The run need not be maximal: a caller that needs the longest run merges
    /// neighbours.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`] if `offset` is not below [`size_bytes`](Self::size_bytes);
    /// otherwise as for [`read_at`](Self::read_at).
    fn extent_at(&self, offset: u64) -> Result<Extent> {
        let len_bytes = self.size_bytes().saturating_sub(offset);
        if len_bytes == 0 {
            return Err(past_end(offset, 1, self.size_bytes()));
        }
        Ok(Extent {
            len_bytes,
            kind: ExtentKind::Data,
        })
    }

    /// Returns the run that begins at `offset`, and whether the device itself stores it: `Data` for
    /// what it stores, and another kind for a hole, and for what only a backing file stores. Unlike
    /// [`extent_at`](Self::extent_at) the kind says nothing about the contents. A discard of a run
    /// that is not stored saves no space.
    ///
    /// The default is [`extent_at`](Self::extent_at), which is right for a device without a backing
    /// file. A layer above another device asks that device.
    ///
    /// # Errors
    /// As for [`extent_at`](Self::extent_at).
    fn stored_at(&self, offset: u64) -> Result<Extent> {
        self.extent_at(offset)
    }

    /// Returns the unit in bytes in which reads are cheapest: a power of two, as a hint and not a
    /// requirement.
    fn block_size(&self) -> u32 {
        512
    }

    /// Announces that the range will be read soon. A device that can prefetch in the background
    /// starts to; the default does nothing. Never fails, whatever the range.
    fn will_need(&self, offset: u64, len_bytes: u64) {
        let _ = (offset, len_bytes);
    }
}

/// A device that can be written as well as read.
///
/// Reads see a write at once; the write is durable once a later [`flush`](Self::flush) returns.
/// Without a flush between them, writes may reach the medium in any order.
pub trait BlockWrite: BlockRead {
    /// Writes all of `buf` at `offset`, or fails. After a failure any part of it may be written.
    ///
    /// # Errors
    /// As for [`BlockRead::read_at`], and [`ErrorKind::ReadOnly`], [`ErrorKind::NoSpace`].
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()>;

    /// Makes the range read as zeroes. The default writes them.
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at).
    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        write_zeroes_as_data(self, offset, len_bytes)
    }

    /// Makes the range read as zeroes that will probably stay, and frees its storage if the device
    /// can. The default keeps the storage: [`write_zeroes`](Self::write_zeroes).
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at).
    fn unmap(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.write_zeroes(offset, len_bytes)
    }

    /// Discards a range whose contents are no longer needed. What the range reads as afterwards is
    /// unspecified. The default only checks the range.
    ///
    /// # Errors
    /// As for [`write_at`](Self::write_at).
    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes())
    }

    /// Waits until everything that was written before is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; it is then unknown what reached the medium.
    fn flush(&self) -> Result<()>;

    /// Changes the device's size to `size_bytes`. Shrinking drops the bytes past the new end; added
    /// bytes read as zeroes. The default refuses, as for a device of fixed size.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a device of fixed size; otherwise as for
    /// [`write_at`](Self::write_at).
    fn set_size(&self, size_bytes: u64) -> Result<()> {
        if size_bytes == self.size_bytes() {
            return Ok(());
        }
        let reason = format!(
            "cannot resize a device of fixed size ({} bytes)",
            self.size_bytes()
        );
        Err(Error::unsupported(reason).at(size_bytes))
    }
}

/// Writes zeroes as data, so that the range has its space afterwards.
///
/// # Errors
/// As for [`BlockWrite::write_at`].
pub fn write_zeroes_as_data<D: BlockWrite + ?Sized>(
    device: &D,
    offset: u64,
    len_bytes: u64,
) -> Result<()> {
    check_bounds(offset, len_bytes, device.size_bytes())?;
    let zeroes = vec![0; usize::try_from(len_bytes.min(ZEROES_BYTES)).unwrap_or(0)];
    let mut at = offset;
    let mut left = len_bytes;
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(usize::MAX);
        let piece = zeroes.get(..len).unwrap_or(&zeroes);
        device.write_at(at, piece)?;
        at = at.saturating_add(len_of(piece));
        left = left.saturating_sub(len_of(piece));
    }
    Ok(())
}

/// Fails unless `len_bytes` bytes at `offset` lie within a device of `size_bytes`.
///
/// # Errors
/// [`ErrorKind::OutOfBounds`], with the offset.
pub fn check_bounds(offset: u64, len_bytes: u64, size_bytes: u64) -> Result<()> {
    match offset.checked_add(len_bytes) {
        Some(end) if end <= size_bytes => Ok(()),
        _ => Err(past_end(offset, len_bytes, size_bytes)),
    }
}

/// Reads `len_bytes` bytes at `offset`. Returns `None` if the range goes past the end of the
/// device, so that only a failed read is an error.
///
/// The buffer is allocated only after the range was checked against the device's size. A
/// `len_bytes` that comes from an image still needs a limit of its own.
///
/// # Errors
/// As for [`BlockRead::read_at`].
pub fn read_within(
    device: &dyn BlockRead,
    offset: u64,
    len_bytes: usize,
) -> Result<Option<Vec<u8>>> {
    let len = u64::try_from(len_bytes).unwrap_or(u64::MAX);
    if check_bounds(offset, len, device.size_bytes()).is_err() {
        return Ok(None);
    }
    let mut bytes = vec![0; len_bytes];
    device.read_at(offset, &mut bytes)?;
    Ok(Some(bytes))
}

/// Returns a buffer's length in bytes as a `u64`.
pub fn len_of(buf: &[u8]) -> u64 {
    crate::bytes::len_u64(buf.len())
}

fn past_end(offset: u64, len_bytes: u64, size_bytes: u64) -> Error {
    Error::new(
        ErrorKind::OutOfBounds,
        format!("{len_bytes} bytes do not lie within the device's {size_bytes}"),
    )
    .at(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_do_not_wrap() {
        assert!(check_bounds(0, 0, 0).is_ok());
        assert!(check_bounds(10, 6, 16).is_ok());
        assert!(check_bounds(10, 7, 16).is_err());
        let e = check_bounds(u64::MAX, 2, u64::MAX).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::OutOfBounds);
        assert_eq!(e.offset(), Some(u64::MAX));
    }
}
