//! The states that a crash can leave between two flushes: which writes are done, lost or torn.

use diskfs_block::{Event, Fate};

use crate::random::Random;

/// The number of open writes up to which each subset of them is tried.
const ALL_UP_TO: usize = 6;

/// The number of random subsets of more writes.
const RANDOM: usize = 48;

/// The number of places at which a long write is torn.
const TEARS: u64 = 3;

const SECTOR_BYTES: u64 = 512;

/// A crash between two flushes: the fate of each write, and the number of writes that the device
/// had seen at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subset {
    /// The fate of the first writes; all others are lost.
    pub fates: Vec<Fate>,
}

impl Subset {
    /// Returns the number of writes that the device must have seen.
    pub fn seen(&self) -> usize {
        self.fates.len()
    }
}

/// Returns the subsets of the open writes: all of them if there are few; else each prefix, each
/// without one write, each write alone, and random ones. The last write of each is also torn
/// between sectors.
pub fn subsets(open: &[Event], random: &mut Random) -> Vec<Subset> {
    let mut subsets = Vec::new();
    for kept in kept_writes(open.len(), random) {
        let Some(last) = kept.iter().rposition(|is_kept| *is_kept) else {
            continue;
        };
        let fate = |is_kept: &bool| if *is_kept { Fate::Kept } else { Fate::Lost };
        let fates: Vec<_> = kept[..=last].iter().map(fate).collect();
        for keep_bytes in tears(&open[last]) {
            let mut fates = fates.clone();
            fates[last] = Fate::Torn { keep_bytes };
            subsets.push(Subset { fates });
        }
        subsets.push(Subset { fates });
    }
    subsets
}

/// Returns choices of the writes that are done, each once.
fn kept_writes(count: usize, random: &mut Random) -> Vec<Vec<bool>> {
    if count <= ALL_UP_TO {
        let masks = 1..1_u32 << count;
        let bits = |mask: u32| (0..count).map(move |bit| mask >> bit & 1 == 1).collect();
        return masks.map(bits).collect();
    }
    let choose = |is_kept: &dyn Fn(usize) -> bool| (0..count).map(is_kept).collect::<Vec<_>>();
    let mut chosen = Vec::new();
    for one in 0..count {
        chosen.push(choose(&|at| at <= one));
        chosen.push(choose(&|at| at != one));
        chosen.push(choose(&|at| at == one));
    }
    for _ in 0..RANDOM {
        chosen.push((0..count).map(|_| random.one_in(2)).collect());
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Returns the lengths in bytes to which a write is torn.
fn tears(event: &Event) -> Vec<u64> {
    let inner = event.len_bytes().div_ceil(SECTOR_BYTES).saturating_sub(1);
    let mut sectors: Vec<_> = match inner {
        0..=TEARS => (1..=inner).collect(),
        _ => vec![1, inner.div_ceil(2), inner],
    };
    sectors.dedup();
    let bytes = sectors.into_iter().map(|sector| sector * SECTOR_BYTES);
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(count: usize) -> Vec<Event> {
        let write = |at: usize| Event::Write {
            offset: at as u64 * 4096,
            bytes: vec![1; 1024].into(),
        };
        (0..count).map(write).collect()
    }

    #[test]
    fn each_subset_of_few_writes_is_tried_whole_and_torn() {
        let found = subsets(&writes(3), &mut Random::new(1));
        // Seven subsets that are not empty, each whole and torn once.
        assert_eq!(found.len(), 14);
        let whole = |subset: &&Subset| !subset.fates.contains(&Fate::Torn { keep_bytes: 512 });
        let whole: Vec<_> = found.iter().filter(whole).collect();
        assert_eq!(whole.len(), 7);
        assert!(whole.iter().all(|s| s.fates.last() == Some(&Fate::Kept)));
        assert_eq!(subsets(&[], &mut Random::new(1)), []);
    }

    #[test]
    fn of_many_writes_each_is_lost_alone_and_kept_alone() {
        let found = subsets(&writes(20), &mut Random::new(1));
        for at in 0..20 {
            let mut alone = vec![Fate::Lost; at];
            alone.push(Fate::Kept);
            assert!(found.iter().any(|subset| subset.fates == alone));
            let mut without = vec![Fate::Kept; 20];
            without[at] = Fate::Lost;
            without.truncate(if at == 19 { 19 } else { 20 });
            assert!(found.iter().any(|subset| subset.fates == without));
        }
        assert!(found.len() < 500, "{}", found.len());
    }
}
