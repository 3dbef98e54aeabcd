//! A device that counts, for tests.

use std::sync::atomic::{AtomicUsize, Ordering};

use diskfs_block::{BlockRead, Memory, Result};

/// Bytes in memory that count how often they are read.
#[derive(Debug)]
pub(crate) struct Counting {
    inner: Memory,
    reads: AtomicUsize,
}

impl Counting {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            inner: Memory::new(bytes),
            reads: AtomicUsize::new(0),
        }
    }

    /// Reads so far.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }
}

impl BlockRead for Counting {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read_at(offset, buf)
    }
}
