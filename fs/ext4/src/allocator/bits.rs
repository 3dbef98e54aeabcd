//! A group's bitmap, searched and changed a word at a time.

use crate::bytes::index;

const WORD_BITS: u32 = u64::BITS;

/// A group's bits, where a set bit is in use or held: the bitmap combined with the bits that are
/// held in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits<'a> {
    words: &'a [[u8; 8]],
    held: &'a [u64],
    /// The number of valid bits; all bits after them count as set.
    len: u32,
}

impl<'a> Bits<'a> {
    pub(crate) fn new(bitmap: &'a [u8], held: Option<&'a [u64]>, len: u32) -> Self {
        Self {
            words: bitmap.as_chunks().0,
            held: held.unwrap_or_default(),
            len,
        }
    }

    fn word(&self, nth: usize) -> u64 {
        let word = self
            .words
            .get(nth)
            .map_or(u64::MAX, |&bytes| u64::from_le_bytes(bytes));
        word | self.held.get(nth).copied().unwrap_or(0)
    }

    /// Returns the first clear bit at or after `from`.
    pub(crate) fn next_clear(&self, from: u32) -> Option<u32> {
        let end = self.next(from, self.len, |word| !word);
        (end < self.len).then_some(end)
    }

    /// Returns the first set bit from `from` on, or `until` if there is none before that.
    pub(crate) fn next_set(&self, from: u32, until: u32) -> u32 {
        self.next(from, until.min(self.len), |word| word)
    }

    /// Returns the first bit in `from..until` that is set after `wanted` has transformed its word,
    /// or `until`.
    fn next(&self, from: u32, until: u32, wanted: impl Fn(u64) -> u64) -> u32 {
        if from >= until {
            return until;
        }
        let mut base = from & !(WORD_BITS.wrapping_sub(1));
        let mut word = wanted(self.word(word_of(from))) & above(from);
        while word == 0 {
            base = base.saturating_add(WORD_BITS);
            if base >= until {
                return until;
            }
            word = wanted(self.word(word_of(base)));
        }
        base.saturating_add(word.trailing_zeros()).min(until)
    }

    /// Returns the start of the run of clear bits that ends at `before`: the last set bit before
    /// it, plus 1.
    pub(super) fn clear_from(&self, before: u32) -> u32 {
        let mut end = before.min(self.len);
        while let Some(last) = end.checked_sub(1) {
            let word = self.word(word_of(last)) & !above(last).wrapping_shl(1);
            let base = last & !(WORD_BITS.wrapping_sub(1));
            if word != 0 {
                let highest = word.leading_zeros();
                return base.saturating_add(WORD_BITS.saturating_sub(highest));
            }
            end = base;
        }
        0
    }

    /// Returns the number of clear bits.
    pub(crate) fn count_clear(&self) -> u32 {
        let mut count = 0u32;
        let mut base = 0u32;
        while base < self.len {
            let left = self.len.saturating_sub(base);
            let within = if left < WORD_BITS {
                !above(left)
            } else {
                u64::MAX
            };
            let clear = !self.word(word_of(base)) & within;
            count = count.saturating_add(clear.count_ones());
            base = base.saturating_add(WORD_BITS);
        }
        count
    }

    /// Returns the first run of `wanted` clear bits in `range`, or the longest run if all are
    /// shorter. The returned run has at most `wanted` bits.
    pub(super) fn find_run(&self, range: std::ops::Range<u32>, wanted: u32) -> Option<Run> {
        let mut best: Option<Run> = None;
        let mut at = range.start;
        while let Some(start) = self.next_clear(at).filter(|&start| start < range.end) {
            let end = self.next_set(start, start.saturating_add(wanted));
            let len = end.saturating_sub(start);
            if best.is_none_or(|best| len > best.len) {
                best = Some(Run { start, len });
            }
            if len >= wanted {
                return best;
            }
            at = end;
        }
        best
    }
}

/// A run of consecutive bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Run {
    pub(crate) const fn end(self) -> u32 {
        self.start.saturating_add(self.len)
    }
}

fn word_of(bit: u32) -> usize {
    index(bit.wrapping_div(WORD_BITS))
}

/// Returns a mask of the bit's position in its word and all positions above it.
fn above(bit: u32) -> u64 {
    u64::MAX.wrapping_shl(bit & WORD_BITS.wrapping_sub(1))
}

/// Returns the bits of a run word by word: the index of each word, and the mask of the run in it.
fn words_of(run: Run) -> impl Iterator<Item = (usize, u64)> {
    let first = word_of(run.start);
    let last = word_of(run.end().saturating_sub(1));
    let behind = if run.len == 0 {
        first
    } else {
        last.saturating_add(1)
    };
    let words = first..behind;
    words.map(move |nth| {
        let low = if nth == first {
            above(run.start)
        } else {
            u64::MAX
        };
        // The bits of this word after the end of the run; none if the run ends with the word.
        let high = match run.end() & WORD_BITS.wrapping_sub(1) {
            0 => 0,
            _ if nth == last => above(run.end()),
            _ => 0,
        };
        (nth, low & !high)
    })
}

/// Sets the bits of a run in a bitmap.
pub(crate) fn set(bitmap: &mut [u8], run: Run) {
    change(bitmap, run, |word, mask| word | mask);
}

/// Clears the bits of a run in a bitmap.
pub(crate) fn clear(bitmap: &mut [u8], run: Run) {
    change(bitmap, run, |word, mask| word & !mask);
}

fn change(bitmap: &mut [u8], run: Run, apply: impl Fn(u64, u64) -> u64) {
    let (words, _) = bitmap.as_chunks_mut();
    for (nth, mask) in words_of(run) {
        if let Some(bytes) = words.get_mut(nth) {
            *bytes = apply(u64::from_le_bytes(*bytes), mask).to_le_bytes();
        }
    }
}

/// Sets the bits of a run in an array of words.
pub(super) fn hold(words: &mut [u64], run: Run) {
    for (nth, mask) in words_of(run) {
        if let Some(word) = words.get_mut(nth) {
            *word |= mask;
        }
    }
}

/// Clears the bits of a run in an array of words. Returns how many of them were set.
pub(super) fn release(words: &mut [u64], run: Run) -> u32 {
    let mut count = 0u32;
    for (nth, mask) in words_of(run) {
        if let Some(word) = words.get_mut(nth) {
            count = count.saturating_add((*word & mask).count_ones());
            *word &= !mask;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(start: u32, len: u32) -> Run {
        Run { start, len }
    }

    proptest! {
        /// Compares the results with those of a plain list of booleans.
        #[test]
        fn as_a_list_has_it(
            runs in prop::collection::vec((0u32..260, 0u32..100), 0..12),
            held in prop::collection::vec((0u32..260, 0u32..20), 0..4),
            len in 1u32..256,
            from in 0u32..260,
            wanted in 1u32..80,
        ) {
            let mut bytes = [0; 32];
            let mut words = [0; 4];
            let mut list = [false; 256];
            for (at, &(start, len)) in runs.iter().enumerate() {
                let clears = at % 3 == 2;
                if clears {
                    clear(&mut bytes, run(start, len));
                } else {
                    set(&mut bytes, run(start, len));
                }
                for bit in start..(start + len).min(256) {
                    list[bit as usize] = !clears;
                }
            }
            for &(start, len) in &held {
                hold(&mut words, run(start, len));
                for bit in start..(start + len).min(256) {
                    list[bit as usize] = true;
                }
            }
            list[len as usize..].fill(true);
            let bits = Bits::new(&bytes, Some(&words), len);
            let is_set = |bit: u32| list[bit as usize];
            prop_assert_eq!(bits.next_clear(from), (from..len).find(|&bit| !is_set(bit)));
            let expected = (from..len).find(|&bit| is_set(bit)).unwrap_or(len.max(from.min(len)));
            prop_assert_eq!(bits.next_set(from, u32::MAX), expected);
            prop_assert_eq!(bits.count_clear() as usize, list.iter().filter(|&&bit| !bit).count());
            let start = from.min(len);
            let before = (0..start).rev().find(|&bit| is_set(bit)).map_or(0, |bit| bit + 1);
            prop_assert_eq!(bits.clear_from(from), before);
            let mut longest = None::<Run>;
            let mut at = from;
            while let Some(start) = (at..len).find(|&bit| !is_set(bit)) {
                let end = (start..len).find(|&bit| is_set(bit)).unwrap_or(len);
                let found = run(start, (end - start).min(wanted));
                if longest.is_none_or(|longest| found.len > longest.len) {
                    longest = Some(found);
                }
                at = end;
            }
            prop_assert_eq!(bits.find_run(from..len, wanted), longest);
        }
    }

    #[test]
    fn what_is_released_is_counted() {
        let mut words = [0; 4];
        hold(&mut words, run(60, 10));
        assert_eq!(release(&mut words, run(0, 64)), 4);
        assert_eq!(release(&mut words, run(60, 128)), 6);
        assert_eq!(words, [0; 4]);
        hold(&mut words, run(64, 64));
        assert_eq!(words, [0, u64::MAX, 0, 0]);
    }
}
