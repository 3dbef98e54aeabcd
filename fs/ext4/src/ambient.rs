//! The time and the random numbers that changes record.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

use diskfs_vfs::Timestamp;

use crate::bytes::split64;

/// The multiplier of Fibonacci hashing: 2^32 divided by the golden ratio.
const GOLDEN: u32 = 0x9e37_79b9;

/// The source of times and random numbers. With a fixed time it always gives the same values, so
/// that the same changes write the same bytes.
#[derive(Debug, Default)]
pub(crate) struct Ambient {
    fixed_time: Option<Timestamp>,
    drawn: AtomicU32,
}

impl Ambient {
    pub(crate) fn new(fixed_time: Option<Timestamp>) -> Self {
        Self {
            fixed_time,
            drawn: AtomicU32::new(0),
        }
    }

    /// Returns the present time, or the fixed one.
    pub(crate) fn now(&self) -> Timestamp {
        self.fixed_time.unwrap_or_else(Timestamp::now)
    }

    /// Returns a random number, or with a fixed time the next one of a sequence without order.
    pub(crate) fn random(&self) -> u32 {
        if self.fixed_time.is_none() {
            return split64(RandomState::new().hash_one(0)).1;
        }
        let nth = self.drawn.fetch_add(1, Ordering::Relaxed);
        nth.wrapping_add(1).wrapping_mul(GOLDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_values_are_the_same_in_every_run() {
        let time = Timestamp {
            seconds: 1_000_000_000,
            nanoseconds: 0,
        };
        let run = || {
            let ambient = Ambient::new(Some(time));
            let numbers = (0..3).map(|_| ambient.random()).collect::<Vec<_>>();
            (ambient.now(), numbers)
        };
        assert_eq!(run(), run());
        assert_eq!(run().0, time);
        let [first, second, third] = run().1[..] else {
            panic!("three numbers");
        };
        assert!(first != second && second != third);
        assert_ne!(Ambient::default().random(), Ambient::default().random());
    }
}
