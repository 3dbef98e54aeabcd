//! A device for tests that counts reads.

use std::sync::atomic::{AtomicUsize, Ordering};

use diskfs_block::{BlockRead, Memory, Result};

/// A device in memory that counts how often it is read.
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

    /// Returns the number of reads so far.
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
