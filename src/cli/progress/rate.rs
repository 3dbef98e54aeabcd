//! The rate of an operation, in bytes per second.

use std::time::{Duration, Instant};

/// The approximate time span of the average.
const WINDOW: Duration = Duration::from_secs(5);

/// The average rate since it was created, with recent data weighted more.
#[derive(Debug, Clone)]
pub(super) struct Rate {
    at: Instant,
    bytes: u64,
    per_second: Option<f64>,
}

impl Rate {
    /// Starts measuring, when `bytes` are already done.
    pub(super) fn begin(now: Instant, bytes: u64) -> Self {
        Self {
            at: now,
            bytes,
            per_second: None,
        }
    }

    /// Updates the rate when `bytes` are done.
    pub(super) fn update(&mut self, now: Instant, bytes: u64) {
        let seconds = (now - self.at).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "the rate is only shown to users"
        )]
        let latest = bytes.saturating_sub(self.bytes) as f64 / seconds;
        // The weight of older data decreases exponentially.
        let weight = 1.0 - (-seconds / WINDOW.as_secs_f64()).exp();
        self.per_second = Some(match self.per_second {
            Some(before) => before + weight * (latest - before),
            None => latest,
        });
        (self.at, self.bytes) = (now, bytes);
    }

    /// Returns the bytes per second, or `None` before the first update.
    pub(super) fn per_second(&self) -> Option<u64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "never negative, and a cast saturates"
        )]
        self.per_second.map(|rate| rate as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_does_not_count() {
        let start = Instant::now();
        let mut rate = Rate::begin(start, 8 << 30);
        assert_eq!(rate.per_second(), None);
        for second in 1..=20_u64 {
            let now = start + Duration::from_secs(second);
            rate.update(now, (8 << 30) + second * 1000);
            assert_eq!(rate.per_second(), Some(1000));
        }
        rate.update(start + Duration::from_secs(40), (8 << 30) + 20_000);
        assert!(rate.per_second().unwrap() < 30, "a standstill shows");
    }
}
