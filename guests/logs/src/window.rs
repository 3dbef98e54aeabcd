//! The range of time of the wanted records.

use super::{DAY_US, Order};

/// The range of time of the wanted records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// The time of the earliest wanted record, in microseconds since 1970.
    pub since_us: Option<u64>,
    /// The time of the latest wanted record, in microseconds since 1970.
    pub until_us: Option<u64>,
}

impl Window {
    /// Returns true if a record of this time is wanted.
    pub(super) fn contains(&self, time_us: u64) -> bool {
        self.since_us.is_none_or(|since| since <= time_us)
            && self.until_us.is_none_or(|until| time_us <= until)
    }

    /// Returns true if no wanted record follows a record of this time in the same file. Records may
    /// be out of order by a day, because a clock was set.
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
