//! A disk that is read at a limited rate.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use diskfs_block::{BlockRead, Extent, Result};

use crate::numbers::{to_u64, to_usize};

/// The time that a burst of reads may be ahead of the rate.
const BURST: Duration = Duration::from_millis(100);
/// The smallest read into which a longer one is divided.
const PART_MIN_BYTES: u64 = 4096;

/// A disk of which at most a number of bytes are read per second, by all threads together. Holes are
/// not read, and do not count.
#[derive(Debug)]
pub struct Throttled {
    device: Arc<dyn BlockRead>,
    bytes_per_second: NonZeroU64,
    /// The time at which the bytes that were read so far are due at this rate.
    due: Mutex<Option<Instant>>,
}

impl Throttled {
    /// Limits the rate at which a disk is read.
    pub fn new(device: Arc<dyn BlockRead>, bytes_per_second: NonZeroU64) -> Self {
        Self {
            device,
            bytes_per_second,
            due: Mutex::new(None),
        }
    }

    /// Waits until this number of bytes may be read.
    fn wait(&self, len_bytes: u64) {
        let nanoseconds = u128::from(len_bytes)
            .saturating_mul(1_000_000_000)
            .checked_div(u128::from(self.bytes_per_second.get()))
            .and_then(|nanoseconds| u64::try_from(nanoseconds).ok());
        let cost = Duration::from_nanos(nanoseconds.unwrap_or(u64::MAX));
        let now = Instant::now();
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let start = due.map_or(now, |due| due.max(now));
        *due = start.checked_add(cost).or(Some(start));
        drop(due);
        let delay = start.saturating_duration_since(now).saturating_sub(BURST);
        if !delay.is_zero() {
            thread::sleep(delay);
        }
    }

    /// Returns the largest part of a read: a tenth of a second's, so that the rate is even, and a
    /// cancelled read ends soon.
    fn part_bytes(&self) -> usize {
        to_usize((self.bytes_per_second.get() / 10).max(PART_MIN_BYTES))
    }
}

impl BlockRead for Throttled {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut at = offset;
        for part in buf.chunks_mut(self.part_bytes()) {
            let len_bytes = to_u64(part.len());
            self.wait(len_bytes);
            self.device.read_at(at, part)?;
            at = at.saturating_add(len_bytes);
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.device.extent_at(offset)
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        self.device.stored_at(offset)
    }

    fn block_size(&self) -> u32 {
        self.device.block_size()
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::Memory;

    use super::*;

    /// Several threads share the rate. The upper bound is generous: the machine may be busy.
    #[test]
    fn the_rate_is_kept_by_all_threads_together() {
        let memory = Arc::new(Memory::new(vec![5; 1 << 20]));
        let rate = NonZeroU64::new(1 << 20).unwrap();
        let throttled = Throttled::new(memory, rate);
        let began = Instant::now();
        thread::scope(|scope| {
            for quarter in 0..4_u64 {
                let throttled = &throttled;
                scope.spawn(move || {
                    let mut bytes = vec![0; 1 << 18];
                    throttled.read_at(quarter << 18, &mut bytes).unwrap();
                    assert!(bytes.iter().all(|byte| *byte == 5));
                });
            }
        });
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(700), "{took:?}");
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}
