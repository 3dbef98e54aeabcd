//! A device that counts the requests that reach another device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::len_of;
use crate::{BlockRead, BlockWrite, Extent, Result};

/// A device that passes all requests on to another and counts them. The number of bytes read below
/// for each byte requested above (read amplification) is the measure of an offline engine.
#[derive(Debug)]
pub struct Counting<D: ?Sized = dyn BlockRead> {
    counters: Counters,
    inner: Arc<D>,
}

#[derive(Debug, Default)]
struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
}

/// The requests that a [`Counting`] device saw. Failed requests count, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The number of calls of `read_at`.
    pub reads: u64,
    /// The number of bytes that those calls requested.
    pub read_bytes: u64,
    /// The number of calls of `write_at`, `write_zeroes` and `discard`.
    pub writes: u64,
    /// The number of bytes that were passed to `write_at`.
    pub written_bytes: u64,
    /// The number of calls of `flush`.
    pub flushes: u64,
}

impl<D: ?Sized> Counting<D> {
    /// Wraps `inner`, with all counters at zero.
    pub fn new(inner: Arc<D>) -> Self {
        Self {
            counters: Counters::default(),
            inner,
        }
    }

    /// Returns the counters. Requests of other threads that run at this moment may be in one
    /// counter and not yet in another.
    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            reads: of(&self.counters.reads),
            read_bytes: of(&self.counters.read_bytes),
            writes: of(&self.counters.writes),
            written_bytes: of(&self.counters.written_bytes),
            flushes: of(&self.counters.flushes),
        }
    }

    /// Resets the counters to zero and returns their previous values.
    pub fn reset(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        Counts {
            reads: of(&self.counters.reads),
            read_bytes: of(&self.counters.read_bytes),
            writes: of(&self.counters.writes),
            written_bytes: of(&self.counters.written_bytes),
            flushes: of(&self.counters.flushes),
        }
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl<D: BlockRead + ?Sized> BlockRead for Counting<D> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        add(&self.counters.reads, 1);
        add(&self.counters.read_bytes, len_of(buf));
        self.inner.read_at(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.inner.extent_at(offset)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        self.inner.stored_at(offset)
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn will_need(&self, offset: u64, len_bytes: u64) {
        self.inner.will_need(offset, len_bytes);
    }
}

impl<D: BlockWrite + ?Sized> BlockWrite for Counting<D> {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        add(&self.counters.writes, 1);
        add(&self.counters.written_bytes, len_of(buf));
        self.inner.write_at(offset, buf)
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        add(&self.counters.writes, 1);
        self.inner.write_zeroes(offset, len_bytes)
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        add(&self.counters.writes, 1);
        self.inner.discard(offset, len_bytes)
    }

    fn flush(&self) -> Result<()> {
        add(&self.counters.flushes, 1);
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn counts_and_passes_on() {
        let device = Counting::new(Arc::new(Memory::new(vec![1; 100])));
        let mut b = [0; 10];
        device.read_at(5, &mut b).unwrap();
        assert_eq!(b, [1; 10]);
        assert!(device.read_at(95, &mut b).is_err());
        device.write_at(0, &[2; 7]).unwrap();
        device.write_zeroes(0, 50).unwrap();
        device.discard(0, 50).unwrap();
        device.flush().unwrap();
        let counts = device.reset();
        assert_eq!((counts.reads, counts.read_bytes), (2, 20));
        assert_eq!((counts.writes, counts.written_bytes), (3, 7));
        assert_eq!(counts.flushes, 1);
        assert_eq!(device.counts(), Counts::default());
    }

    #[test]
    fn works_on_a_device_that_is_only_read() {
        let memory: Arc<dyn BlockRead> = Arc::new(Memory::new(vec![0; 10]));
        let device: Counting = Counting::new(memory);
        device.read_at(0, &mut [0]).unwrap();
        assert_eq!(device.counts().reads, 1);
    }
}
