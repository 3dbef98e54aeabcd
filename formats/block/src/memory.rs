//! A device in memory.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::device::len_of;
use crate::{BlockRead, BlockWrite, Error, ErrorKind, Result, check_bounds};

/// The largest piece by which a device grows.
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// A device whose bytes are in memory, for small images and tests.
pub struct Memory {
    bytes: RwLock<Vec<u8>>,
}

impl Memory {
    /// Creates a device with the contents `bytes`.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            bytes: RwLock::new(bytes.into()),
        }
    }

    /// Returns a copy of the device's contents.
    pub fn to_vec(&self) -> Vec<u8> {
        self.read().clone()
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<u8>> {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<u8>> {
        self.bytes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory")
            .field("size_bytes", &self.size_bytes())
            .finish_non_exhaustive()
    }
}

/// Converts a range to indices. `check_bounds` succeeded, so both fit in a `usize`.
fn range(offset: u64, len: usize) -> std::ops::Range<usize> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    start..start.saturating_add(len)
}

impl BlockRead for Memory {
    fn size_bytes(&self) -> u64 {
        len_of(&self.read())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let bytes = self.read();
        check_bounds(offset, len_of(buf), len_of(&bytes))?;
        if let Some(stored) = bytes.get(range(offset, buf.len())) {
            buf.copy_from_slice(stored);
        }
        Ok(())
    }
}

impl BlockWrite for Memory {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let mut bytes = self.write();
        check_bounds(offset, len_of(buf), len_of(&bytes))?;
        if let Some(stored) = bytes.get_mut(range(offset, buf.len())) {
            stored.copy_from_slice(buf);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn set_size(&self, size_bytes: u64) -> Result<()> {
        let mut bytes = self.write();
        let len = usize::try_from(size_bytes).map_err(|_| no_memory(size_bytes))?;
        let more = len.saturating_sub(bytes.len());
        bytes.try_reserve(more).map_err(|_| no_memory(size_bytes))?;
        bytes.truncate(len);
        while let more @ 1.. = len.saturating_sub(bytes.len()) {
            // `resize` takes 20 ms for 4 MiB where the compiler does not optimise, as in tests.
            bytes.extend_from_slice(ZEROES.get(..more).unwrap_or(&ZEROES));
        }
        Ok(())
    }
}

fn no_memory(size_bytes: u64) -> Error {
    let reason = format!("cannot allocate {size_bytes} bytes of memory");
    Error::new(ErrorKind::NoSpace, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_was_written_and_nothing_past_the_end() {
        let m = Memory::new(vec![0; 100]);
        m.write_at(90, &[1; 10]).unwrap();
        let mut b = [9; 20];
        m.read_at(80, &mut b).unwrap();
        assert_eq!(b[..10], [0; 10]);
        assert_eq!(b[10..], [1; 10]);
        assert!(m.write_at(91, &[1; 10]).is_err());
        m.write_zeroes(0, 100).unwrap();
        assert_eq!(m.to_vec(), vec![0; 100]);
        m.write_at(40, &[1; 60]).unwrap();
        m.set_size(50).unwrap();
        m.set_size(60).unwrap();
        m.read_at(40, &mut b).unwrap();
        assert_eq!((&b[..10], &b[10..]), (&[1; 10][..], &[0; 10][..]));
    }
}
