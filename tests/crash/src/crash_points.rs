//! Simulated power failures, and the image that each leaves.

use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use diskfs_block::{BlockRead, BlockWrite, Event, Fate, Overlay, WriteLog};

use crate::image;
use crate::random::Random;

/// The maximum size of the open writes of one epoch.
const OVERLAY_BYTES: u64 = 1 << 30;

/// The choice of crash points.
#[derive(Debug, Clone, Copy)]
pub struct Points {
    /// The approximate number of crash points.
    pub count: usize,
    /// The seed for the choice.
    pub seed: u64,
}

/// A crash point: a moment, and the fate of the writes that were open then.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// The number of events that the device had seen.
    pub events: usize,
    /// The fate of the open writes.
    pub open: OpenWritesFate,
}

/// The fate of the open writes. An open write may be done, lost or torn.
#[derive(Debug, Clone, Copy)]
pub enum OpenWritesFate {
    /// All writes are done.
    All,
    /// No write is done.
    None,
    /// Each is done, lost or torn, randomly from this seed.
    Random(u64),
    /// All are done except this one.
    Without(usize),
    /// Only this one is done.
    Only(usize),
    /// All before this one are done, and this one is torn, randomly from the seed.
    TornAt(usize, u64),
}

/// A function that chooses the fate of each open write.
trait FateOf: FnMut(usize, &Event) -> Fate {}

impl<T: FnMut(usize, &Event) -> Fate> FateOf for T {}

impl OpenWritesFate {
    fn random(random: &mut Random, open: &[Event]) -> Self {
        let one = random.index(open.len());
        match random.weighted(&[3, 1, 6, 3, 2, 3]) {
            0 => Self::All,
            1 => Self::None,
            2 => Self::Random(random.any()),
            3 => Self::Without(one),
            4 => Self::Only(one),
            _ => {
                let sectors = open.get(one).map_or(0, |event| event.len_bytes() / 512);
                Self::TornAt(one, random.below(sectors) * 512)
            }
        }
    }

    /// Returns the function for the fate of each open write, by its number.
    fn fate(self) -> Box<dyn FateOf> {
        let kept = |is_kept| if is_kept { Fate::Kept } else { Fate::Lost };
        match self {
            Self::All => Box::new(|_, _| Fate::Kept),
            Self::None => Box::new(|_, _| Fate::Lost),
            Self::Random(seed) => Box::new(Fate::by_chance(seed)),
            Self::Without(one) => Box::new(move |at, _| kept(at != one)),
            Self::Only(one) => Box::new(move |at, _| kept(at == one)),
            Self::TornAt(one, keep_bytes) => Box::new(move |at, _| match at.cmp(&one) {
                std::cmp::Ordering::Less => Fate::Kept,
                std::cmp::Ordering::Equal => Fate::Torn { keep_bytes },
                std::cmp::Ordering::Greater => Fate::Lost,
            }),
        }
    }
}

/// Returns the fate, but does not tear a write within the superblock: it is done or lost. Two
/// sectors have one checksum there and are written in place to mark the journal for replay. No
/// program can open a filesystem with a torn superblock (the kernel fails, e2fsck uses a backup),
/// so all rely on disks that do not tear it.
fn whole(superblock: &Range<u64>, event: &Event, fate: Fate) -> Fate {
    let (Event::Write { offset, .. }, Fate::Torn { keep_bytes }) = (event, fate) else {
        return fate;
    };
    let end = offset + keep_bytes;
    if superblock.start < end && end < superblock.end {
        return Fate::Torn {
            keep_bytes: superblock.start.saturating_sub(*offset),
        };
    }
    fate
}

/// Calls `look` with each crash point and the image that it leaves, starting from the image
/// `fresh`. `superblock` is the range of the filesystem's superblock on its device.
///
/// # Errors
/// The first error of `look`.
pub fn each(
    fresh: &[u8],
    superblock: &Range<u64>,
    log: &WriteLog,
    points: Points,
    mut look: impl FnMut(Point, &Arc<dyn BlockRead>) -> Result<()>,
) -> Result<()> {
    let mut random = Random::new(points.seed ^ 0xdead);
    let mut base = Base::new(image::in_memory(fresh));
    for events in moments(log, points.count, &mut random) {
        let crash = log.crash_after(events);
        let open = crash.open();
        let choice = OpenWritesFate::random(&mut random, open);
        let mut fate = choice.fate();
        let open = open.iter().enumerate();
        let open = open.map(|(index, event)| (event, fate(index, event)));
        let crashed = base.crash(crash.durable(), open, superblock)?;
        let point = Point {
            events,
            open: choice,
        };
        look(point, &crashed)?;
    }
    Ok(())
}

/// Returns the moments in order, some from every part of the log. Moments with many open writes and
/// those right after a flush are as likely as others.
fn moments(log: &WriteLog, count: usize, random: &mut Random) -> Vec<usize> {
    let events = log.events().len();
    let mut moments: Vec<_> = (0..count)
        .map(|number| {
            let start = number * events / count.max(1);
            let end = (number + 1) * events / count.max(1);
            start + random.index(end - start + 1)
        })
        .collect();
    moments.sort_unstable();
    moments
}

/// The image with all writes before a flush, from which the images of crashes are built.
pub(crate) struct Base {
    device: Arc<dyn BlockWrite>,
    /// The number of events that the image has.
    done: usize,
}

impl Base {
    /// Starts with the image from before the first event.
    pub(crate) fn new(device: Arc<dyn BlockWrite>) -> Self {
        Self { device, done: 0 }
    }

    /// Returns the image of a crash. `durable` are all events before a flush, at least those of the
    /// previous crash; `open` are the next ones.
    pub(crate) fn crash<'a>(
        &mut self,
        durable: &[Event],
        open: impl Iterator<Item = (&'a Event, Fate)>,
        superblock: &Range<u64>,
    ) -> Result<Arc<dyn BlockRead>> {
        for event in &durable[self.done..] {
            event.replay(&*self.device, Fate::Kept)?;
        }
        self.done = durable.len();
        let crashed = Overlay::in_memory(self.device.clone(), OVERLAY_BYTES);
        for (event, fate) in open {
            event.replay(&crashed, whole(superblock, event, fate))?;
        }
        Ok(Arc::new(crashed))
    }
}
