//! From when to when records are wanted.

use super::{DAY_US, Order};

/// From when to when records are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// None that is older, in microseconds since 1970.
    pub since_us: Option<u64>,
    /// None that is newer, in microseconds since 1970.
    pub until_us: Option<u64>,
}

impl Window {
    /// Returns true if a record of this time is wanted.
    pub(super) fn holds(&self, time_us: u64) -> bool {
        self.since_us.is_none_or(|since| since <= time_us)
            && self.until_us.is_none_or(|until| time_us <= until)
    }

    /// Whether nothing in the window comes after a record of this time in the same file, which may be a day out of order
    /// (a clock that was set).
    pub(super) fn is_over(&self, time_us: u64, order: Order) -> bool {
        match order {
            Order::OldestFirst => self
                .until_us
                .is_some_and(|until| time_us > until.saturating_add(DAY_US)),
            Order::NewestFirst => self
                .since_us
                .is_some_and(|since| time_us.saturating_add(DAY_US) < since),
        }
    }
}
