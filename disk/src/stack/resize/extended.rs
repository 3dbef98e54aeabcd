//! A device with more bytes than the one below it.

use std::sync::Arc;

use diskfs_block::{BlockRead, Extent, ExtentKind, Result, check_bounds, len_of};

/// A device as it will be after growing: the added bytes read as zeroes.
#[derive(Debug)]
pub(super) struct Extended {
    inner: Arc<dyn BlockRead>,
    size_bytes: u64,
}

impl Extended {
    /// Extends a device to `size_bytes`; one that is larger already keeps its size.
    pub(super) fn new(inner: Arc<dyn BlockRead>, size_bytes: u64) -> Self {
        let size_bytes = size_bytes.max(inner.size_bytes());
        Self { inner, size_bytes }
    }

    /// Returns the number of bytes from `offset` on that the inner device has.
    fn left_inside(&self, offset: u64) -> u64 {
        self.inner.size_bytes().saturating_sub(offset)
    }
}

impl BlockRead for Extended {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_bounds(offset, len_of(buf), self.size_bytes)?;
        let inside = usize::try_from(self.left_inside(offset)).unwrap_or(usize::MAX);
        let (inside, added) = buf.split_at_mut(inside.min(buf.len()));
        if !inside.is_empty() {
            self.inner.read_at(offset, inside)?;
        }
        added.fill(0);
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        check_bounds(offset, 1, self.size_bytes)?;
        if self.left_inside(offset) > 0 {
            return self.inner.extent_at(offset);
        }
        Ok(Extent {
            len_bytes: self.size_bytes.saturating_sub(offset),
            kind: ExtentKind::Unallocated,
        })
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_block::Memory;

    #[test]
    fn added_bytes_are_zeroes() {
        let inner: Arc<dyn BlockRead> = Arc::new(Memory::new(vec![7; 1000]));
        let device = Extended::new(Arc::clone(&inner), 4096);
        let mut bytes = [1; 4];
        device.read_at(998, &mut bytes).unwrap();
        assert_eq!(bytes, [7, 7, 0, 0]);
        device.read_at(4092, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4]);
        assert!(device.read_at(4093, &mut bytes).is_err());
        assert_eq!(device.extent_at(10).unwrap().len_bytes, 990);
        let added = device.extent_at(1000).unwrap();
        assert_eq!(
            (added.len_bytes, added.kind),
            (3096, ExtentKind::Unallocated)
        );
        assert_eq!(Extended::new(inner, 5).size_bytes(), 1000);
    }
}
