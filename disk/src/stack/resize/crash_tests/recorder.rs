//! A device that records writes, flushes and changes of its size.

use std::sync::{Arc, Mutex};

use diskfs_block::{BlockRead, BlockWrite, Event, Extent, Fate, Fault, Faulty, Memory, Result};

/// A device in memory with the record of its changes.
#[derive(Debug)]
pub(super) struct Recorder {
    memory: Arc<Memory>,
    device: Faulty<Memory>,
    /// The changes of the size: the number of events before each, and the new size.
    sizes: Mutex<Vec<(usize, u64)>>,
}

/// A moment of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// The number of events before it.
    pub(super) events: usize,
    /// True if changes of the size since the last flush are lost. They are kept otherwise.
    pub(super) loses_size: bool,
}

impl Recorder {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self::with_fault(bytes, None)
    }

    /// Creates a device of which one request fails.
    pub(super) fn with_fault(bytes: Vec<u8>, fault: Option<Fault>) -> Self {
        let memory = Arc::new(Memory::new(bytes));
        Self {
            device: Faulty::new(Arc::clone(&memory), fault),
            memory,
            sizes: Mutex::default(),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.memory.to_vec()
    }

    /// Returns all moments at which the power can fail.
    pub(super) fn moments(&self) -> Vec<Moment> {
        let log = self.device.log();
        let sizes = self.sizes.lock().unwrap();
        let mut moments = Vec::new();
        for events in 0..=log.events().len() {
            let durable = log.crash_after(events).durable().len();
            let moment = |loses_size| Moment { events, loses_size };
            let mut changes = sizes.iter().map(|(at, _)| *at);
            if changes.any(|at| (durable..=events).contains(&at)) {
                moments.push(moment(true));
            }
            moments.push(moment(false));
        }
        moments
    }

    /// Returns what a crash leaves of the device that had the bytes `before`.
    pub(super) fn left(
        &self,
        before: &[u8],
        moment: &Moment,
        fate: &mut dyn FnMut() -> Fate,
    ) -> Vec<u8> {
        let log = self.device.log();
        let durable = log.crash_after(moment.events).durable().len();
        let device = Memory::new(before);
        let resize = |at: usize| {
            let is_lost = moment.loses_size && at >= durable;
            let sizes = self.sizes.lock().unwrap();
            for (_, size) in sizes.iter().filter(|change| change.0 == at && !is_lost) {
                device.set_size(*size).unwrap();
            }
        };
        for (at, event) in log.events()[..moment.events].iter().enumerate() {
            resize(at);
            let fate = if at < durable { Fate::Kept } else { fate() };
            replay(event, &device, fate);
        }
        resize(moment.events);
        device.to_vec()
    }
}

/// Repeats an event. A write past the end of a device that did not grow is lost.
fn replay(event: &Event, device: &Memory, fate: Fate) {
    let end = match event {
        Event::Write { offset, .. }
        | Event::WriteZeroes { offset, .. }
        | Event::Discard { offset, .. } => offset + event.len_bytes(),
        Event::Flush => 0,
    };
    if end <= device.size_bytes() {
        event.replay(device, fate).unwrap();
    }
}

impl BlockRead for Recorder {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, buf)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent> {
        self.device.extent_at(offset)
    }
}

impl BlockWrite for Recorder {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.device.write_at(offset, buf)
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.device.write_zeroes(offset, len_bytes)
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.device.discard(offset, len_bytes)
    }

    fn flush(&self) -> Result<()> {
        self.device.flush()
    }

    fn set_size(&self, size_bytes: u64) -> Result<()> {
        self.device.set_size(size_bytes)?;
        let change = (self.device.logged(), size_bytes);
        self.sizes.lock().unwrap().push(change);
        Ok(())
    }
}
