//! A device for tests that injects faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{BlockRead, BlockWrite, Error, ErrorKind, Event, Extent, Result, WriteLog};

/// A fault that occurs once. Requests of each kind are counted from 0; a write is a `write_at`, a
/// `write_zeroes` or a `discard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A read that fails.
    FailRead {
        /// The index of the read.
        nth: u64,
    },
    /// A write that fails and changes nothing.
    FailWrite {
        /// The index of the write.
        nth: u64,
    },
    /// A write that fails after its first bytes were written.
    TornWrite {
        /// The index of the write.
        nth: u64,
        /// The number of bytes that are written. A discard is all or nothing; here it is skipped.
        keep_bytes: usize,
    },
    /// A write that is reported as successful and never written: the device lies.
    LostWrite {
        /// The index of the write.
        nth: u64,
    },
    /// A write that succeeds and is seen by reads, but reaches the device below only with the next
    /// flush, after all later writes. Without a flush it is lost.
    HeldWrite {
        /// The index of the write.
        nth: u64,
    },
    /// A flush that fails. Writes that were held back stay held back.
    FailFlush {
        /// The index of the flush.
        nth: u64,
    },
    /// A power cut: from this write on every request fails.
    PowerCut {
        /// The index of the write.
        nth: u64,
    },
}

/// A device that passes all requests on to another, except for the injected faults, and keeps a log
/// of the writes. It tests the layers above: that they notice faults, that they write in the right
/// order, and, by means of the [`WriteLog`], that every crash leaves a consistent state.
#[derive(Debug)]
pub struct Faulty<D: ?Sized = dyn BlockWrite> {
    faults: Vec<Fault>,
    /// The state, locked for the whole of a request, so that the log has the order in which
    /// requests ran.
    state: Mutex<FaultyState>,
    inner: Arc<D>,
}

#[derive(Debug, Default)]
struct FaultyState {
    reads: u64,
    writes: u64,
    flushes: u64,
    gone: bool,
    held: Vec<Event>,
    log: WriteLog,
}

/// The treatment of a write.
enum WriteTreatment {
    Do,
    Fail,
    Tear(usize),
    Lose,
    Hold,
}

impl<D: BlockWrite + ?Sized> Faulty<D> {
    /// Wraps `inner`, with the given faults.
    pub fn new(inner: Arc<D>, faults: impl IntoIterator<Item = Fault>) -> Self {
        Self {
            faults: faults.into_iter().collect(),
            state: Mutex::default(),
            inner,
        }
    }

    /// Returns the log of writes so far: what was reported as written, in that order, and the
    /// written part of a torn write. A lost write is not in the log.
    pub fn log(&self) -> WriteLog {
        self.lock().log.clone()
    }

    /// Returns the number of events in the log.
    pub fn logged(&self) -> usize {
        self.lock().log.events().len()
    }

    /// Returns the log like [`log`](Self::log), and starts a new one.
    pub fn take_log(&self) -> WriteLog {
        std::mem::take(&mut self.lock().log)
    }

    fn lock(&self) -> MutexGuard<'_, FaultyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self, state: &mut FaultyState) -> WriteTreatment {
        let number = state.writes;
        state.writes = number.saturating_add(1);
        for fault in &self.faults {
            match *fault {
                Fault::FailWrite { nth } if nth == number => return WriteTreatment::Fail,
                Fault::TornWrite { nth, keep_bytes } if nth == number => {
                    return WriteTreatment::Tear(keep_bytes);
                }
                Fault::LostWrite { nth } if nth == number => return WriteTreatment::Lose,
                Fault::HeldWrite { nth } if nth == number => return WriteTreatment::Hold,
                Fault::PowerCut { nth } if nth <= number => {
                    state.gone = true;
                    return WriteTreatment::Fail;
                }
                _ => {}
            }
        }
        WriteTreatment::Do
    }

    /// Executes a write, or its planned fault.
    fn change(&self, event: Event) -> Result<()> {
        let (offset, len_bytes) = event.place();
        crate::check_bounds(offset, len_bytes, self.inner.size_bytes())?;
        let mut state = self.lock();
        if state.gone {
            return Err(gone());
        }
        match self.plan(&mut state) {
            WriteTreatment::Fail => return Err(injected("write", offset)),
            WriteTreatment::Tear(keep_bytes) => {
                if let Some(part) = event.cut(keep_bytes) {
                    self.apply(&mut state, part)?;
                }
                return Err(injected("write", offset));
            }
            WriteTreatment::Lose => {}
            WriteTreatment::Hold => {
                state.log.push(event.clone());
                state.held.push(event);
            }
            WriteTreatment::Do => self.apply(&mut state, event)?,
        }
        Ok(())
    }

    /// Applies a write to the device below. A write that overlaps a held-back one is held back,
    /// too, so that reads see the newer bytes and the device below gets both in order.
    fn apply(&self, state: &mut FaultyState, event: Event) -> Result<()> {
        if state.held.iter().any(|held| held.touches(&event)) {
            state.held.push(event.clone());
        } else {
            event.apply(&*self.inner)?;
        }
        state.log.push(event);
        Ok(())
    }
}

fn injected(what: &str, offset: u64) -> Error {
    Error::new(ErrorKind::Io, format!("injected fault: the {what} fails")).at(offset)
}

fn gone() -> Error {
    Error::new(ErrorKind::Io, "injected fault: the device is gone")
}

impl Event {
    fn place(&self) -> (u64, u64) {
        let offset = match self {
            Self::Write { offset, .. }
            | Self::WriteZeroes { offset, .. }
            | Self::Discard { offset, .. } => *offset,
            Self::Flush => 0,
        };
        (offset, self.len_bytes())
    }

    fn touches(&self, other: &Self) -> bool {
        let ((a, a_len), (b, b_len)) = (self.place(), other.place());
        a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
    }

    /// Returns the first bytes of the event; `None` if nothing is left of it.
    fn cut(&self, keep_bytes: usize) -> Option<Self> {
        match self {
            Self::Write { offset, bytes } => Some(Self::Write {
                offset: *offset,
                bytes: bytes.get(..keep_bytes).unwrap_or(bytes).into(),
            }),
            Self::WriteZeroes { offset, len_bytes } => Some(Self::WriteZeroes {
                offset: *offset,
                len_bytes: u64::try_from(keep_bytes)
                    .unwrap_or(u64::MAX)
                    .min(*len_bytes),
            }),
            Self::Discard { .. } | Self::Flush => None,
        }
    }

    fn apply(&self, device: &(impl BlockWrite + ?Sized)) -> Result<()> {
        match self {
            Self::Write { offset, bytes } => device.write_at(*offset, bytes),
            Self::WriteZeroes { offset, len_bytes } => device.write_zeroes(*offset, *len_bytes),
            Self::Discard { offset, len_bytes } => device.discard(*offset, *len_bytes),
            Self::Flush => device.flush(),
        }
    }

    /// Copies to `buf` what a read at `at` sees of this event. A held-back discard is ignored,
    /// because the contents of a discarded range are unspecified.
    fn show(&self, at: u64, buf: &mut [u8]) {
        let (offset, len_bytes) = self.place();
        let start = offset.max(at);
        let buf_end = at.saturating_add(u64::try_from(buf.len()).unwrap_or(u64::MAX));
        let end = offset.saturating_add(len_bytes).min(buf_end);
        let within = |base: u64| {
            let index = |place: u64| usize::try_from(place.saturating_sub(base)).unwrap_or(0);
            index(start)..index(end)
        };
        if start >= end {
            return;
        }
        let Some(target) = buf.get_mut(within(at)) else {
            return;
        };
        match self {
            Self::Write { bytes, .. } => {
                if let Some(source) = bytes.get(within(offset)) {
                    target.copy_from_slice(source);
                }
            }
            Self::WriteZeroes { .. } => target.fill(0),
            Self::Discard { .. } | Self::Flush => {}
        }
    }
}

impl<D: BlockWrite + ?Sized> BlockRead for Faulty<D> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut state = self.lock();
        if state.gone {
            return Err(gone());
        }
        let number = state.reads;
        state.reads = number.saturating_add(1);
        if self.faults.contains(&Fault::FailRead { nth: number }) {
            return Err(injected("read", offset));
        }
        self.inner.read_at(offset, buf)?;
        for held in &state.held {
            held.show(offset, buf);
        }
        Ok(())
    }

    /// Reports everything as data while a write is held back, because the device below does not
    /// have it yet.
    fn extent_at(&self, offset: u64) -> Result<Extent> {
        let state = self.lock();
        if state.gone {
            return Err(gone());
        }
        let below = self.inner.extent_at(offset)?;
        if state.held.is_empty() {
            return Ok(below);
        }
        Ok(Extent {
            kind: crate::ExtentKind::Data,
            ..below
        })
    }

    fn stored_at(&self, offset: u64) -> Result<Extent> {
        let state = self.lock();
        if state.gone {
            return Err(gone());
        }
        let below = self.inner.stored_at(offset)?;
        if state.held.is_empty() {
            return Ok(below);
        }
        Ok(Extent {
            kind: crate::ExtentKind::Data,
            ..below
        })
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }
}

impl<D: BlockWrite + ?Sized> BlockWrite for Faulty<D> {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        let bytes = buf.into();
        self.change(Event::Write { offset, bytes })
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.change(Event::WriteZeroes { offset, len_bytes })
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.change(Event::Discard { offset, len_bytes })
    }

    fn flush(&self) -> Result<()> {
        let mut state = self.lock();
        if state.gone {
            return Err(gone());
        }
        let number = state.flushes;
        state.flushes = number.saturating_add(1);
        if self.faults.contains(&Fault::FailFlush { nth: number }) {
            return Err(Error::new(ErrorKind::Io, "injected fault: the flush fails"));
        }
        for held in std::mem::take(&mut state.held) {
            held.apply(&*self.inner)?;
        }
        self.inner.flush()?;
        state.log.push(Event::Flush);
        Ok(())
    }

    /// Changes the size, without a log entry: a crash test replays on a device that is long enough
    /// from the start.
    fn set_size(&self, size_bytes: u64) -> Result<()> {
        if self.lock().gone {
            return Err(gone());
        }
        self.inner.set_size(size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fate, Memory};

    fn device(faults: impl IntoIterator<Item = Fault>) -> (Arc<Memory>, Faulty<Memory>) {
        let memory = Arc::new(Memory::new(vec![0; 8]));
        (Arc::clone(&memory), Faulty::new(memory, faults))
    }

    fn read(device: &impl BlockRead) -> Vec<u8> {
        let mut b = vec![0; 8];
        device.read_at(0, &mut b).unwrap();
        b
    }

    #[test]
    fn fails_once_and_does_nothing() {
        let (below, device) = device([Fault::FailWrite { nth: 1 }]);
        device.write_at(0, &[1]).unwrap();
        let e = device.write_at(1, &[1]).unwrap_err();
        assert_eq!((e.kind(), e.offset()), (ErrorKind::Io, Some(1)));
        device.write_at(2, &[1]).unwrap();
        assert_eq!(below.to_vec(), [1, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!((device.log().events().len(), device.logged()), (2, 2));
    }

    #[test]
    fn tears() {
        let torn = |nth| Fault::TornWrite { nth, keep_bytes: 2 };
        let (below, device) = device([torn(0), torn(2), torn(3)]);
        assert!(device.write_at(0, &[1; 4]).is_err());
        device.write_at(4, &[1; 4]).unwrap();
        assert!(device.write_zeroes(4, 4).is_err());
        assert!(device.discard(0, 8).is_err());
        assert_eq!(below.to_vec(), [1, 1, 0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn loses() {
        let (below, device) = device([Fault::LostWrite { nth: 0 }]);
        device.write_at(0, &[1; 4]).unwrap();
        device.flush().unwrap();
        assert_eq!(below.to_vec(), [0; 8]);
        assert_eq!(device.log().events(), [Event::Flush]);
    }

    #[test]
    fn holds_back_until_the_flush() {
        let (below, device) = device([Fault::HeldWrite { nth: 0 }]);
        device.write_at(0, &[1; 4]).unwrap();
        device.write_at(2, &[2; 2]).unwrap();
        device.write_at(6, &[3; 2]).unwrap();
        assert_eq!(read(&device), [1, 1, 2, 2, 0, 0, 3, 3]);
        assert_eq!(below.to_vec(), [0, 0, 0, 0, 0, 0, 3, 3]);
        device.flush().unwrap();
        assert_eq!(below.to_vec(), [1, 1, 2, 2, 0, 0, 3, 3]);
        assert_eq!(read(&device), below.to_vec());
    }

    #[test]
    fn fails_reads_and_flushes() {
        let (_, device) = device([Fault::FailRead { nth: 1 }, Fault::FailFlush { nth: 0 }]);
        read(&device);
        assert!(device.read_at(0, &mut [0]).is_err());
        read(&device);
        assert!(device.flush().is_err());
        assert!(device.log().events().is_empty());
        device.flush().unwrap();
    }

    #[test]
    fn is_gone_after_a_power_cut() {
        let (below, device) = device([Fault::PowerCut { nth: 1 }]);
        device.write_at(0, &[1]).unwrap();
        assert!(device.write_at(1, &[1]).is_err());
        assert!(device.write_at(2, &[1]).is_err());
        assert!(device.flush().is_err());
        assert!(device.read_at(0, &mut [0]).is_err());
        assert!(device.extent_at(0).is_err());
        assert_eq!(below.to_vec(), [1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn ranges_are_checked_before_they_count() {
        let (_, device) = device([Fault::FailWrite { nth: 0 }]);
        let e = device.write_at(7, &[0; 2]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::OutOfBounds);
        assert_eq!(device.write_at(7, &[0]).unwrap_err().kind(), ErrorKind::Io);
    }

    /// The core of every crash test: each moment, each subset of the open writes.
    #[test]
    fn every_subset_of_the_open_writes_can_be_built() {
        let (_, device) = device([]);
        device.write_at(0, &[1]).unwrap();
        device.flush().unwrap();
        for at in 1..4 {
            device.write_at(at, &[1]).unwrap();
        }
        let log = device.take_log();
        assert!(device.log().events().is_empty());
        let mut images = std::collections::HashSet::new();
        for crash in log.crashes() {
            for subset in 0..1 << crash.open().len() {
                let image = Memory::new(vec![0; 8]);
                let fate = |index: usize, _: &Event| match subset >> index & 1 {
                    0 => Fate::Lost,
                    _ => Fate::Kept,
                };
                crash.replay(&image, fate).unwrap();
                images.insert(image.to_vec());
            }
        }
        // The empty image, and the first byte with any subset of the other three.
        assert_eq!(images.len(), 1 + (1 << 3));
        assert!(!images.contains(&vec![0, 1, 0, 0, 0, 0, 0, 0]));
    }
}
