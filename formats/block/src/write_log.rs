//! What was written to a device, and what a crash may leave of it.

use std::sync::Arc;

use crate::{BlockWrite, Result};

/// One thing that was asked of a device, and done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// `write_at`.
    Write {
        /// Where, in bytes.
        offset: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// `write_zeroes`.
    WriteZeroes {
        /// Where, in bytes.
        offset: u64,
        /// How much.
        len_bytes: u64,
    },
    /// `discard`.
    Discard {
        /// Where, in bytes.
        offset: u64,
        /// How much.
        len_bytes: u64,
    },
    /// `flush`: everything before it is durable.
    Flush,
}

/// The events of a device in their order.
///
/// Between two flushes a device may make writes durable in any order. So a crash leaves everything
/// before the last flush and any part of what came after it: [`crash_after`](Self::crash_after)
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

/// A moment at which the power fails: what is durable then, and what may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash<'a> {
    durable: &'a [Event],
    open: &'a [Event],
}

/// What becomes of a write that was not flushed before the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// All of it is there.
    Kept,
    /// Nothing of it is there.
    Lost,
    /// Only its first bytes are there.
    Torn {
        /// How many.
        keep_bytes: u64,
    },
}

impl Fate {
    /// A function for [`Crash::replay`] that decides by chance, the same for the same `seed`: two
    /// of five writes are kept, two lost, and one is torn between two sectors of 512 bytes.
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

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = *state;
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Event {
    /// How many bytes it is about; none for a flush.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Self::Write { bytes, .. } => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            Self::WriteZeroes { len_bytes, .. } | Self::Discard { len_bytes, .. } => *len_bytes,
            Self::Flush => 0,
        }
    }

    /// Does it again, on `device`, as far as `fate` lets it. For who builds many images of one log,
    /// each from the one before; else there is [`Crash::replay`].
    ///
    /// # Errors
    /// What `device` says.
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

    /// All events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What lies between flushes. The last one is open: nothing flushed it. Each flush ends one, so
    /// that an epoch may be empty.
    pub fn epochs(&self) -> impl Iterator<Item = &[Event]> {
        self.events.split(|event| *event == Event::Flush)
    }

    /// A crash after the first `count` events; after all of them when there are fewer.
    pub fn crash_after(&self, count: usize) -> Crash<'_> {
        let before = self.events.get(..count).unwrap_or(&self.events);
        let flushed = before
            .iter()
            .rposition(|event| *event == Event::Flush)
            .map_or(0, |last| last.saturating_add(1));
        let (durable, open) = before.split_at(flushed);
        Crash { durable, open }
    }

    /// A crash at every moment: before the first event, after each, after the last.
    pub fn crashes(&self) -> impl Iterator<Item = Crash<'_>> {
        (0..=self.events.len()).map(|count| self.crash_after(count))
    }
}

impl<'a> Crash<'a> {
    /// What came before the last flush.
    pub fn durable(&self) -> &'a [Event] {
        self.durable
    }

    /// What came after it, in the order in which it was asked for.
    pub fn open(&self) -> &'a [Event] {
        self.open
    }

    /// Builds the image on `device`, which holds what was there before the first event: all that is
    /// durable, and of the open writes what `fate` says, by their index among them.
    ///
    /// Those that are kept are done in order, as a device does two writes to one sector. Which
    /// subset of the others is kept is free, and that is what reordering comes to at a crash.
    ///
    /// # Errors
    /// What `device` says.
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

    /// The log of a device, replayed on what it was before, gives what it is.
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
