//! A log of writes to a device, and the states that a crash can leave.

use std::sync::Arc;

use crate::{BlockWrite, Result};

/// A request that a device completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A call of `write_at`.
    Write {
        /// The offset in bytes.
        offset: u64,
        /// The bytes that were written.
        bytes: Arc<[u8]>,
    },
    /// A call of `write_zeroes`.
    WriteZeroes {
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        len_bytes: u64,
    },
    /// A call of `discard`.
    Discard {
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        len_bytes: u64,
    },
    /// A call of `flush`: everything before it is durable.
    Flush,
}

/// The events of a device in their order.
///
/// Between two flushes a device may make writes durable in any order. So a crash leaves everything
/// before the last flush and any part of what came after it. [`crash_after`](Self::crash_after)
/// names a moment, and [`Crash::replay`] builds the image for one choice of that part.
///
/// ```
/// use std::sync::Arc;
/// use diskfs_block::{BlockRead, BlockWrite, Fate, Faulty, Memory, Overlay};
///
/// let before = Arc::new(Memory::new(vec![0; 4096]));
/// let device = Faulty::new(Arc::new(Memory::new(vec![0; 4096])), []);
/// device.write_at(0, b"data")?;
/// device.flush()?;
/// device.write_at(512, b"metadata")?;
///
/// // At every moment, with everything lost that was not flushed.
/// let log = device.log();
/// for crash in log.crashes() {
///     let image = Overlay::in_memory(before.clone(), 1 << 20);
///     crash.replay(&image, |_, _| Fate::Lost)?;
///     let mut bytes = [0; 8];
///     image.read_at(512, &mut bytes)?;
///     assert_eq!(bytes, [0; 8]);
/// }
/// # Ok::<(), diskfs_block::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct WriteLog {
    events: Vec<Event>,
}

/// A moment at which the power fails: the durable events, and those that may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash<'a> {
    durable: &'a [Event],
    open: &'a [Event],
}

/// The result of a crash for a write that was not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// All of the write is on the device.
    Kept,
    /// The write is lost completely.
    Lost,
    /// Only the first bytes of the write are on the device.
    Torn {
        /// The number of bytes that are on the device.
        keep_bytes: u64,
    },
}

impl Fate {
    /// Returns a function for [`Crash::replay`] that decides at random, repeatably for the same
    /// `seed`: two of five writes are kept, two lost, and one is torn between two sectors of 512
    /// bytes.
    pub fn by_chance(seed: u64) -> impl FnMut(usize, &Event) -> Self {
        let mut state = seed;
        move |_, event| {
            let choice = split_mix(&mut state);
            let sectors = event.len_bytes().div_ceil(512);
            match choice.wrapping_rem(5) {
                0 | 1 => Self::Kept,
                2 | 3 => Self::Lost,
                _ => Self::Torn {
                    keep_bytes: split_mix(&mut state)
                        .checked_rem(sectors)
                        .unwrap_or(0)
                        .saturating_mul(512),
                },
            }
        }
    }
}

/// Generates the next random number, after Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", 2014.
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = *state;
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Event {
    /// Returns the number of bytes that the event affects; zero for a flush.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Write { bytes, .. } => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::WriteZeroes { len_bytes, .. } | Self::Discard { len_bytes, .. } => *len_bytes,
            Self::Flush => 0,
        }
    }

    /// Repeats the event on `device`, as far as `fate` allows. It is for callers that build many
    /// images of one log, each from the previous one; others use [`Crash::replay`].
    ///
    /// # Errors
    /// Errors of `device`.
    pub fn replay(&self, device: &dyn BlockWrite, fate: Fate) -> Result<()> {
        let keep_bytes = match fate {
            Fate::Kept => self.len_bytes(),
            Fate::Lost => return Ok(()),
            Fate::Torn { keep_bytes } => keep_bytes.min(self.len_bytes()),
        };
        match self {
            Self::Write { offset, bytes } => {
                let kept = usize::try_from(keep_bytes).unwrap_or(usize::MAX);
                device.write_at(*offset, bytes.get(..kept).unwrap_or(bytes))
            }
            Self::WriteZeroes { offset, .. } => device.write_zeroes(*offset, keep_bytes),
            Self::Discard { offset, .. } => device.discard(*offset, keep_bytes),
            Self::Flush => Ok(()),
        }
    }
}

impl WriteLog {
    pub(crate) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Returns all events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the events between flushes, as epochs. The last epoch is open: no flush ended it.
    /// Each flush ends one, so an epoch may be empty.
    pub fn epochs(&self) -> impl Iterator<Item = &[Event]> {
        self.events.split(|event| *event == Event::Flush)
    }

    /// Returns a crash after the first `count` events, or after all of them if there are fewer.
    pub fn crash_after(&self, count: usize) -> Crash<'_> {
        let before = self.events.get(..count).unwrap_or(&self.events);
        let flushed = before
            .iter()
            .rposition(|event| *event == Event::Flush)
            .map_or(0, |last| last.saturating_add(1));
        let (durable, open) = before.split_at(flushed);
        Crash { durable, open }
    }

    /// Returns a crash at every moment: before the first event, after each, after the last.
    pub fn crashes(&self) -> impl Iterator<Item = Crash<'_>> {
        (0..=self.events.len()).map(|count| self.crash_after(count))
    }
}

impl<'a> Crash<'a> {
    /// Returns the events before the last flush.
    pub fn durable(&self) -> &'a [Event] {
        self.durable
    }

    /// Returns the events after the last flush, in the order of the requests.
    pub fn open(&self) -> &'a [Event] {
        self.open
    }

    /// Builds the image of the crash on `device`, which must have the contents from before the
    /// first event. All durable events are applied, and each open write according to `fate`, which
    /// gets its index among them.
    ///
    /// Kept writes are applied in order, as a device orders two writes to one sector. Any subset of
    /// the open writes can be kept; at a crash, reordering has no other effect.
    ///
    /// # Errors
    /// Errors of `device`.
    pub fn replay(
        &self,
        device: &dyn BlockWrite,
        mut fate: impl FnMut(usize, &Event) -> Fate,
    ) -> Result<()> {
        for event in self.durable {
            event.replay(device, Fate::Kept)?;
        }
        for (index, event) in self.open.iter().enumerate() {
            event.replay(device, fate(index, event))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Faulty, Memory};

    fn write(offset: u64, byte: u8) -> Event {
        Event::Write {
            offset,
            bytes: vec![byte; 4].into(),
        }
    }

    fn log() -> WriteLog {
        let events = vec![
            write(0, 1),
            Event::Flush,
            write(4, 2),
            write(2, 3),
            Event::WriteZeroes {
                offset: 0,
                len_bytes: 1,
            },
        ];
        WriteLog { events }
    }

    fn image(crash: Crash<'_>, fate: impl FnMut(usize, &Event) -> Fate) -> Vec<u8> {
        let device = Memory::new(vec![9; 8]);
        crash.replay(&device, fate).unwrap();
        device.to_vec()
    }

    #[test]
    fn what_was_flushed_is_there_and_of_the_rest_any_part() {
        let log = log();
        let end = log.crash_after(99);
        assert_eq!((end.durable().len(), end.open().len()), (2, 3));
        assert_eq!(image(end, |_, _| Fate::Kept), [0, 1, 3, 3, 3, 3, 2, 2]);
        assert_eq!(image(end, |_, _| Fate::Lost), [1, 1, 1, 1, 9, 9, 9, 9]);
        let second = |index, _: &Event| if index == 1 { Fate::Kept } else { Fate::Lost };
        assert_eq!(image(end, second), [1, 1, 3, 3, 3, 3, 9, 9]);
        let torn = |_, _: &Event| Fate::Torn { keep_bytes: 1 };
        assert_eq!(image(end, torn), [0, 1, 3, 1, 2, 9, 9, 9]);
    }

    #[test]
    fn before_the_first_flush_nothing_is_sure() {
        let log = log();
        assert_eq!(image(log.crash_after(1), |_, _| Fate::Lost), [9; 8]);
        assert_eq!(log.crash_after(2).open(), []);
        assert_eq!(log.crashes().count(), 6);
        assert_eq!(log.epochs().map(<[Event]>::len).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn chance_is_the_same_for_the_same_seed_and_tries_everything() {
        let fates = |seed| {
            let mut chance = Fate::by_chance(seed);
            let event = Event::WriteZeroes {
                offset: 0,
                len_bytes: 4096,
            };
            (0..100)
                .map(|index| chance(index, &event))
                .collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
        let all = fates(3);
        assert!(all.contains(&Fate::Kept) && all.contains(&Fate::Lost));
        assert!(
            all.iter()
                .any(|f| matches!(f, Fate::Torn { keep_bytes: 512.. }))
        );
    }

    /// The log of a device, replayed on its previous contents, gives its current contents.
    #[test]
    fn the_whole_log_gives_the_device() {
        let below = Arc::new(Memory::new(vec![5; 100]));
        let device = Faulty::new(Arc::clone(&below), []);
        device.write_at(3, &[1; 50]).unwrap();
        device.write_zeroes(10, 5).unwrap();
        device.flush().unwrap();
        device.write_at(90, &[2; 10]).unwrap();
        let again = Memory::new(vec![5; 100]);
        let log = device.log();
        log.crash_after(usize::MAX)
            .replay(&again, |_, _| Fate::Kept)
            .unwrap();
        assert_eq!(again.to_vec(), below.to_vec());
    }
}
