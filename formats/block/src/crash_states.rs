//! The states that a crash can leave, systematically: which writes between two flushes are done,
//! lost or torn.

use std::fmt;

use crate::write_log::split_mix;
use crate::{BlockWrite, Event, Fate, Result, WriteLog};

/// The number of open writes up to which each subset of them is tried.
const ALL_SUBSETS_UP_TO: usize = 6;

/// The number of random subsets of more writes.
const RANDOM_SUBSETS: usize = 48;

/// The number of places at which a long write is torn.
const TEARS: u64 = 3;

/// The size of what a device writes completely or not at all.
const SECTOR_BYTES: u64 = 512;

/// A state that a crash can leave: everything before a flush, and a part of the writes after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashState<'a> {
    durable: &'a [Event],
    open: &'a [Event],
    fates: Vec<Fate>,
}

impl WriteLog {
    /// Returns the states that a crash at any moment can leave. Between two flushes, these are all
    /// subsets of the writes if there are at most six; else each prefix, each without one write,
    /// each write alone, and random ones, repeatably for the same `seed`. The last write of each is
    /// also torn between sectors.
    ///
    /// The state before the first event is not among them.
    pub fn states(&self, seed: u64) -> impl Iterator<Item = CrashState<'_>> {
        let mut random = seed;
        let mut start = 0;
        self.epochs().flat_map(move |epoch| {
            let durable = self.events().get(..start).unwrap_or_default();
            start = start.saturating_add(epoch.len()).saturating_add(1);
            states_of(durable, epoch, &mut random)
        })
    }

    /// Returns such states for a device that reports flushes as done and keeps writes in its cache:
    /// to test that a test notices.
    pub fn states_without_flushes(&self, seed: u64) -> impl Iterator<Item = CrashState<'_>> {
        states_of(&[], self.events(), &mut { seed })
    }
}

fn states_of<'a>(
    durable: &'a [Event],
    open: &'a [Event],
    random: &mut u64,
) -> impl Iterator<Item = CrashState<'a>> + use<'a> {
    fates(open, random).map(move |fates| CrashState {
        durable,
        open,
        fates,
    })
}

impl<'a> CrashState<'a> {
    /// Returns the events before the last flush.
    pub fn durable(&self) -> &'a [Event] {
        self.durable
    }

    /// Returns the writes after the last flush up to the last one that is at least partly there,
    /// each with its fate.
    pub fn open(&self) -> impl Iterator<Item = (&'a Event, Fate)> {
        self.open.iter().zip(self.fates.iter().copied())
    }

    /// Returns the number of events that the device must have got before the crash.
    pub fn seen(&self) -> usize {
        self.durable.len().saturating_add(self.fates.len())
    }

    /// Builds the state on `device`, which must have the contents from before the first event.
    ///
    /// # Errors
    /// Errors of `device`.
    pub fn replay(&self, device: &dyn BlockWrite) -> Result<()> {
        let durable = self.durable.iter().map(|event| (event, Fate::Kept));
        let mut events = durable.chain(self.open());
        events.try_for_each(|(event, fate)| event.replay(device, fate))
    }
}

/// Displays the number of durable events, and the fate of each further one: 1 for kept, 0 for lost.
impl fmt::Display for CrashState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after event {}: ", self.durable.len())?;
        self.fates.iter().try_for_each(|fate| match fate {
            Fate::Kept => f.write_str("1"),
            Fate::Lost => f.write_str("0"),
            Fate::Torn { keep_bytes } => write!(f, "({keep_bytes} bytes)"),
        })
    }
}

/// Returns the fates of the open writes in each state, each up to the last write that is there.
/// Only one state's fates are in memory at a time: a thousand writes have thousands of states.
fn fates<'a>(open: &'a [Event], random: &mut u64) -> impl Iterator<Item = Vec<Fate>> + use<'a> {
    subsets(open.len(), random)
        .into_iter()
        .flat_map(|mut kept| {
            while kept.pop_if(|is_kept| !*is_kept).is_some() {}
            // The last write that is there has several fates.
            let last = kept.pop().and_then(|_| open.get(kept.len()));
            let last = last.map(last_fates).unwrap_or_default();
            last.into_iter().map(move |last| {
                let fate = |is_kept: &bool| if *is_kept { Fate::Kept } else { Fate::Lost };
                kept.iter().map(fate).chain([last]).collect()
            })
        })
}

/// Returns choices of the writes that are done, each once.
fn subsets(count: usize, random: &mut u64) -> Vec<Vec<bool>> {
    if count <= ALL_SUBSETS_UP_TO {
        let masks = 1..1_u32 << count;
        let bits = |mask: u32| (0..count).map(move |bit| mask >> bit & 1 == 1).collect();
        return masks.map(bits).collect();
    }
    let choose = |is_kept: &mut dyn FnMut(usize) -> bool| (0..count).map(is_kept).collect();
    let mut chosen: Vec<Vec<bool>> = Vec::new();
    for one in 0..count {
        chosen.push(choose(&mut |at| at <= one));
        chosen.push(choose(&mut |at| at != one));
        chosen.push(choose(&mut |at| at == one));
    }
    for _ in 0..RANDOM_SUBSETS {
        chosen.push(choose(&mut |_| split_mix(random).is_multiple_of(2)));
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Returns the fates of the last write that is there: torn at some sectors, and kept.
fn last_fates(event: &Event) -> Vec<Fate> {
    let inner = event.len_bytes().div_ceil(SECTOR_BYTES).saturating_sub(1);
    let mut sectors: Vec<u64> = match inner {
        0..=TEARS => (1..=inner).collect(),
        _ => vec![1, inner.div_ceil(2), inner],
    };
    sectors.dedup();
    let torn = sectors.into_iter().map(|sector| Fate::Torn {
        keep_bytes: sector.saturating_mul(SECTOR_BYTES),
    });
    torn.chain([Fate::Kept]).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Faulty, Memory};

    fn writes(count: u64) -> Vec<Event> {
        let write = |at| Event::Write {
            offset: at * 4096,
            bytes: vec![1; 1024].into(),
        };
        (0..count).map(write).collect()
    }

    #[test]
    fn each_subset_of_few_writes_is_tried_whole_and_torn() {
        let open = writes(3);
        let found: Vec<_> = fates(&open, &mut 1).collect();
        // Seven subsets that are not empty, each whole and torn once.
        assert_eq!(found.len(), 14);
        let torn = Fate::Torn { keep_bytes: 512 };
        let whole: Vec<_> = found
            .iter()
            .filter(|fates| !fates.contains(&torn))
            .collect();
        assert_eq!(whole.len(), 7);
        assert!(whole.iter().all(|fates| fates.last() == Some(&Fate::Kept)));
        assert_eq!(fates(&[], &mut 1).count(), 0);
    }

    #[test]
    fn of_many_writes_each_is_lost_alone_and_kept_alone() {
        let open = writes(20);
        let found: Vec<_> = fates(&open, &mut 1).collect();
        for at in 0..20 {
            let mut alone = vec![Fate::Lost; at];
            alone.push(Fate::Kept);
            assert!(found.contains(&alone));
            let mut without = vec![Fate::Kept; 20];
            without[at] = Fate::Lost;
            without.truncate(if at == 19 { 19 } else { 20 });
            assert!(found.contains(&without));
        }
        assert!(found.len() < 500, "{}", found.len());
    }

    #[test]
    fn what_was_flushed_is_in_each_later_state() {
        let device = Faulty::new(Arc::new(Memory::new(vec![0; 4096])), []);
        device.write_at(0, &[1; 512]).unwrap();
        device.flush().unwrap();
        device.write_at(512, &[2; 1024]).unwrap();
        let log = device.log();
        let contents = |state: &CrashState<'_>| {
            let image = Memory::new(vec![0; 4096]);
            state.replay(&image).unwrap();
            [0, 512, 1024].map(|at| image.to_vec()[at])
        };
        let states: Vec<_> = log.states(1).collect();
        let found: Vec<_> = states.iter().map(contents).collect();
        assert_eq!(found, [[1, 0, 0], [1, 2, 0], [1, 2, 2]]);
        let seen: Vec<_> = states.iter().map(CrashState::seen).collect();
        assert_eq!(seen, [1, 3, 3]);
        assert_eq!(states[1].to_string(), "after event 2: (512 bytes)");
    }
}
