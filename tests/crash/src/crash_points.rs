//! Moments at which the power fails, and the image that each leaves.

use std::ops::Range;
use std::sync::Arc;

use anyhow::Result;
use diskfs_block::{BlockRead, BlockWrite, Event, Fate, Memory, Overlay, WriteLog};

use crate::chance::Chance;
use crate::image;

/// What the open writes of one epoch may come to, at most.
const OVERLAY_BYTES: u64 = 1 << 30;

/// Which moments.
#[derive(Debug, Clone, Copy)]
pub struct Points {
    /// How many, about.
    pub count: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// One moment, and what becomes of the writes that were open then.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// How many events the device saw.
    pub events: usize,
    /// Which of the open ones it did.
    pub open: Open,
}

/// What becomes of open writes.
#[derive(Debug, Clone, Copy)]
pub enum Open {
    /// All are done.
    All,
    /// None is done.
    None,
    /// Each is done, left out or torn, by chance from this seed.
    Chance(u64),
    /// All but one.
    Without(usize),
    /// One alone.
    Only(usize),
    /// All until one, which is torn.
    TornAt(usize, u64),
}

/// What tells the fate of each open write.
trait FateOf: FnMut(usize, &Event) -> Fate {}

impl<T: FnMut(usize, &Event) -> Fate> FateOf for T {}

impl Open {
    fn random(chance: &mut Chance, open: &[Event]) -> Self {
        let one = chance.index(open.len());
        match chance.weighted(&[3, 1, 6, 3, 2, 3]) {
            0 => Self::All,
            1 => Self::None,
            2 => Self::Chance(chance.any()),
            3 => Self::Without(one),
            4 => Self::Only(one),
            _ => {
                let sectors = open.get(one).map_or(0, |event| event.len_bytes() / 512);
                Self::TornAt(one, chance.below(sectors) * 512)
            }
        }
    }

    /// The fate of the open write of that number.
    fn fate(self) -> Box<dyn FateOf> {
        let kept = |is_kept| if is_kept { Fate::Kept } else { Fate::Lost };
        match self {
            Self::All => Box::new(|_, _| Fate::Kept),
            Self::None => Box::new(|_, _| Fate::Lost),
            Self::Chance(seed) => Box::new(Fate::by_chance(seed)),
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

/// Does not tear a write within the superblock, but before it: two sectors under one checksum, that
/// are written in place to say that there is a journal to replay. Nobody can open what is left of
/// them when they are torn apart (the kernel can't, e2fsck takes a backup), and so all rely on a
/// disk that does not do that.
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

/// Calls `look` with each moment and the image that it leaves of `fresh`, on whose device the
/// filesystem's superblock lies at `superblock`.
///
/// # Errors
/// The first that `look` answers.
pub fn each(
    fresh: &[u8],
    superblock: &Range<u64>,
    log: &WriteLog,
    points: Points,
    mut look: impl FnMut(Point, &Arc<dyn BlockRead>) -> Result<()>,
) -> Result<()> {
    let mut chance = Chance::new(points.seed ^ 0xdead);
    let mut base = Base {
        device: image::in_memory(fresh),
        done: 0,
    };
    for events in moments(log, points.count, &mut chance) {
        let crash = log.crash_after(events);
        let open = crash.open();
        let choice = Open::random(&mut chance, open);
        base.advance(log, crash.durable().len())?;
        let below: Arc<dyn BlockRead> = base.device.clone();
        let crashed = Overlay::in_memory(below, OVERLAY_BYTES);
        let mut fate = choice.fate();
        for (index, event) in open.iter().enumerate() {
            event.replay(&crashed, whole(superblock, event, fate(index, event)))?;
        }
        let point = Point {
            events,
            open: choice,
        };
        let crashed: Arc<dyn BlockRead> = Arc::new(crashed);
        look(point, &crashed)?;
    }
    Ok(())
}

/// The moments in order: some of every stretch of the log; those with most open writes and those
/// right at a flush are as likely as others.
fn moments(log: &WriteLog, count: usize, chance: &mut Chance) -> Vec<usize> {
    let events = log.events().len();
    let mut moments: Vec<_> = (0..count)
        .map(|number| {
            let start = number * events / count.max(1);
            let end = (number + 1) * events / count.max(1);
            start + chance.index(end - start + 1)
        })
        .collect();
    moments.sort_unstable();
    moments
}

/// The image as it is when everything before a flush is done.
struct Base {
    device: Arc<Memory>,
    done: usize,
}

impl Base {
    fn advance(&mut self, log: &WriteLog, durable: usize) -> Result<()> {
        let device: &dyn BlockWrite = &*self.device;
        for event in &log.events()[self.done..durable] {
            event.replay(device, Fate::Kept)?;
        }
        self.done = durable;
        Ok(())
    }
}
