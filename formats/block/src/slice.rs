//! A part of another device.

use std::sync::Arc;

use crate::device::len_of;
use crate::{BlockRead, BlockWrite, Error, Extent, Result, check_bounds};

/// The bytes `start..start + size` of another device as a device, for example a partition.
///
/// Every range is checked against the slice's own end first, so nothing past it can be reached.
#[derive(Debug)]
pub struct Slice<D: ?Sized = dyn BlockRead> {
    start_bytes: u64,
    size_bytes: u64,
    inner: Arc<D>,
}

impl<D: ?Sized> Clone for Slice<D> {
    fn clone(&self) -> Self {
        Self {
            start_bytes: self.start_bytes,
            size_bytes: self.size_bytes,
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<D: BlockRead + ?Sized> Slice<D> {
    /// Creates a device of `size_bytes` bytes of `inner` from `start_bytes` on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfBounds`](crate::ErrorKind::OutOfBounds) if they do not lie within `inner`.
    pub fn new(inner: Arc<D>, start_bytes: u64, size_bytes: u64) -> Result<Self> {
        check_bounds(start_bytes, size_bytes, inner.size_bytes())?;
        Ok(Self {
            start_bytes,
            size_bytes,
            inner,
        })
    }

    /// Returns the offset in the device below at which the slice begins, in bytes.
    pub fn start_bytes(&self) -> u64 {
        self.start_bytes
    }

    /// Converts `offset` to an offset in the device below, after a bounds check.
    fn below(&self, offset: u64, len_bytes: u64) -> Result<u64> {
        check_bounds(offset, len_bytes, self.size_bytes)?;
        // `new` checked the sum for the slice's end, and `offset` is below that.
        offset
            .checked_add(self.start_bytes)
            .ok_or_else(|| Error::invalid("offset overflows").at(offset))
    }
}

impl<D: BlockRead + ?Sized> BlockRead for Slice<D> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(self.below(offset, len_of(buf))?, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        let extent = self.inner.extent_at(self.below(offset, 1)?)?;
        let left = self.size_bytes.saturating_sub(offset);
        Ok(Extent {
            len_bytes: extent.len_bytes.min(left),
            ..extent
        })
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        let extent = self.inner.stored_at(self.below(offset, 1)?)?;
        let left = self.size_bytes.saturating_sub(offset);
        Ok(Extent {
            len_bytes: extent.len_bytes.min(left),
            ..extent
        })
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        let len_bytes = len_bytes.min(self.size_bytes.saturating_sub(offset));
        if let Ok(below) = self.below(offset, len_bytes) {
            self.inner.will_need(below, len_bytes);
        }
    }
}

impl<D: BlockWrite + ?Sized> BlockWrite for Slice<D> {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.inner.write_at(self.below(offset, len_of(buf))?, buf)
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.inner
            .write_zeroes(self.below(offset, len_bytes)?, len_bytes)
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.inner
            .discard(self.below(offset, len_bytes)?, len_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Memory};

    fn slice() -> Slice<Memory> {
        let bytes: Vec<u8> = (0..=255).collect();
        Slice::new(Arc::new(Memory::new(bytes)), 100, 50).unwrap()
    }

    #[test]
    fn reads_its_own_part_only() {
        let s = slice();
        let mut b = [0; 2];
        s.read_at(48, &mut b).unwrap();
        assert_eq!(b, [148, 149]);
        assert_eq!(
            s.read_at(49, &mut b).unwrap_err().kind(),
            ErrorKind::OutOfBounds
        );
        assert_eq!(
            s.read_at(u64::MAX, &mut b).unwrap_err().kind(),
            ErrorKind::OutOfBounds
        );
        assert_eq!(s.extent_at(20).unwrap().len_bytes, 30);
        assert!(s.extent_at(50).is_err());
        s.will_need(49, u64::MAX);
    }

    #[test]
    fn writes_do_not_reach_past_its_end() {
        let s = slice();
        assert!(s.write_at(49, &[0; 2]).is_err());
        assert!(s.write_zeroes(1, 50).is_err());
        s.write_zeroes(0, 50).unwrap();
        s.discard(0, 50).unwrap();
        s.flush().unwrap();
    }

    #[test]
    fn does_not_start_past_the_device() {
        let m = Arc::new(Memory::new(vec![0; 10]));
        assert!(Slice::new(Arc::clone(&m), 11, 0).is_err());
        assert!(Slice::new(m, 1, u64::MAX).is_err());
    }

    #[test]
    fn works_on_trait_objects() {
        let m: Arc<dyn BlockWrite> = Arc::new(Memory::new(vec![0; 10]));
        let s: Slice<dyn BlockWrite> = Slice::new(Arc::clone(&m), 5, 5).unwrap();
        s.write_at(0, &[1]).unwrap();
        let r: Arc<dyn BlockRead> = m;
        let s: Slice = Slice::new(r, 5, 5).unwrap();
        let mut b = [0];
        s.read_at(0, &mut b).unwrap();
        assert_eq!(b, [1]);
    }
}
