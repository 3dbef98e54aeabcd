//! The memory budget of a check.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::bytes::len_u64;
use crate::error::{Error, ErrorKind, Result};

/// The memory that a check may still use.
#[derive(Debug)]
pub(super) struct Budget {
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

impl Budget {
    pub(super) const fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            used_bytes: AtomicU64::new(0),
        }
    }

    /// Takes memory for `count` values of type `T`.
    ///
    /// # Errors
    /// `Invalid` if the budget is exceeded.
    pub(super) fn take<T>(&self, count: usize) -> Result<()> {
        self.take_bytes(len_u64(count.saturating_mul(size_of::<T>())))
    }

    /// Takes memory.
    ///
    /// # Errors
    /// `Invalid` if the budget is exceeded.
    pub(super) fn take_bytes(&self, bytes: u64) -> Result<()> {
        let before = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.limit_bytes {
            return Ok(());
        }
        Err(self.exceeded())
    }

    /// Gives memory back.
    pub(super) fn give_back(&self, bytes: u64) {
        // What was taken is at least as much.
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the limit.
    pub(super) const fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Returns the error of a check that needs more memory.
    pub(super) fn exceeded(&self) -> Error {
        let limit_mib = self.limit_bytes.wrapping_shr(20);
        let reason = format!("the check needs more memory than its limit of {limit_mib} MiB");
        Error::new(ErrorKind::Invalid, reason).with_hint("raise the limit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exact() {
        let budget = Budget::new(16);
        assert!(budget.take::<u64>(2).is_ok());
        let e = budget.take::<u8>(1).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid);
    }
}
