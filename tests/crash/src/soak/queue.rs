//! One queue of a soak: a thread with a range of the disk that only it changes.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use diskfs_block::BlockWrite;

use crate::random::Random;

/// The contents of a range at one moment.
#[derive(Debug)]
struct Moment {
    /// The number of events of the device that may have been caused until then.
    events: usize,
    bytes: Vec<u8>,
    is_flushed: bool,
}

/// A range of a disk, which need not begin or end at a cluster or a sector, with the requests of its
/// thread.
#[derive(Debug)]
pub(super) struct Queue {
    start: u64,
    bytes: Vec<u8>,
    random: Random,
    moments: Vec<Moment>,
    /// The ranges of the disk that were written, zeroed or discarded.
    written: Vec<Range<u64>>,
}

/// The count of the events of a device that can lose power; `None` for a device that cannot.
pub(super) type Logged<'a> = Option<&'a (dyn Fn() -> usize + Sync)>;

impl Queue {
    /// Returns the queue of a range with these contents, which are durable.
    pub(super) fn new(start: u64, bytes: &[u8], random: Random) -> Self {
        Self {
            start,
            random,
            moments: vec![Moment {
                events: 0,
                bytes: bytes.to_vec(),
                is_flushed: true,
            }],
            bytes: bytes.to_vec(),
            written: Vec::new(),
        }
    }

    /// Returns the ranges of the disk that were written, zeroed or discarded.
    pub(super) fn written(&self) -> &[Range<u64>] {
        &self.written
    }

    /// Returns the current contents.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Sends some requests.
    ///
    /// # Errors
    /// A request that fails; a read that returns something else than was written.
    pub(super) fn run(
        &mut self,
        disk: &dyn BlockWrite,
        requests: usize,
        logged: Logged<'_>,
    ) -> Result<()> {
        for number in 0..requests {
            let range = self.range();
            let kind = self.random.weighted(&[8, 3, 3, 4, 2]);
            let done = self.request(disk, kind, range.clone(), logged);
            done.with_context(|| {
                let start = self.start;
                format!("request {number} of the queue at {start}, kind {kind}, {range:?}")
            })?;
        }
        Ok(())
    }

    fn request(
        &mut self,
        disk: &dyn BlockWrite,
        kind: usize,
        range: Range<usize>,
        logged: Logged<'_>,
    ) -> Result<()> {
        let (at, len) = (self.start + range.start as u64, range.len() as u64);
        if let 0..=2 = kind {
            self.written.push(at..at + len);
        }
        match kind {
            0 => {
                let first = self.random.any().to_le_bytes();
                let bytes = first.iter().cycle().copied().take(range.len());
                self.bytes[range.clone()].copy_from_slice(&bytes.collect::<Vec<_>>());
                disk.write_at(at, &self.bytes[range])?;
            }
            1 => {
                disk.write_zeroes(at, len)?;
                self.bytes[range].fill(0);
            }
            2 => {
                // A part may keep its contents.
                disk.discard(at, len)?;
                disk.read_at(at, &mut self.bytes[range])?;
            }
            3 => {
                let mut found = vec![0x5a; range.len()];
                disk.read_at(at, &mut found)?;
                ensure!(found == self.bytes[range], "the contents are wrong");
                return Ok(());
            }
            _ => disk.flush()?,
        }
        if let Some(logged) = logged {
            self.moments.push(Moment {
                events: logged(),
                bytes: self.bytes.clone(),
                is_flushed: kind == 4,
            });
        }
        Ok(())
    }

    /// Returns a range of any alignment.
    fn range(&mut self) -> Range<usize> {
        let size = self.bytes.len();
        let (unit, largest) = match self.random.below(4) {
            0 => (1, 2000),
            1 => (512, 10_000),
            2 => (4096, 100_000),
            _ => (1, 30_000),
        };
        let start = self.random.index(size) / unit * unit;
        let len = (1 + self.random.index(largest)).next_multiple_of(unit);
        start..(start + len).min(size)
    }

    /// Checks the contents after a crash that kept no event after the first `seen`: each byte has a
    /// value since the last flush.
    ///
    /// # Errors
    /// A byte with another value.
    pub(super) fn check(&self, seen: usize, disk: &[u8]) -> Result<()> {
        let start = usize::try_from(self.start)?;
        let found = &disk[start..start + self.bytes.len()];
        let moments = &self.moments;
        let is_durable = |moment: &Moment| moment.is_flushed && moment.events <= seen;
        let first = moments.iter().rposition(is_durable).unwrap_or(0);
        let under_way = moments.iter().position(|moment| moment.events > seen);
        let last = under_way.unwrap_or(moments.len() - 1).max(first);
        let allowed = &moments[first..=last];
        for at in (0..found.len()).step_by(512) {
            let sector = at..(at + 512).min(found.len());
            let is_whole = |moment: &Moment| moment.bytes[sector.clone()] == found[sector.clone()];
            if allowed.iter().any(is_whole) {
                continue;
            }
            // Requests that are not aligned to sectors are compared byte by byte.
            for byte in sector {
                let is_one = |moment: &Moment| moment.bytes[byte] == found[byte];
                let place = start + byte;
                let value = found[byte];
                ensure!(
                    allowed.iter().any(is_one),
                    "byte {place} is {value:#x}, and was not since the last flush"
                );
            }
        }
        Ok(())
    }
}
