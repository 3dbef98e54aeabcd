//! What deriving keys may cost.

use diskfs_block::{Error, ErrorKind, Result};

/// What deriving keys may cost in all for one call of [`Header::unlock`](crate::Header::unlock): a
/// header sets its own costs, and one that somebody made to hurt sets them as high as it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory that Argon2 may take. By default 1 GiB, the most that `cryptsetup` uses unless it is
    /// told otherwise; never more than 4 GiB, its limit for any header.
    pub argon2_memory_bytes: u64,
    /// Memory times passes, over all key slots that are tried. By default 256 GiB: all 32 slots of
    /// LUKS2 with 1 GiB and 8 passes (`cryptsetup` takes 4 on usual machines).
    pub argon2_work_bytes: u64,
    /// Rounds of PBKDF2, over all key slots and digests that are tried. By default 2^28: the 8 slots
    /// of LUKS1 with 2 seconds each on a machine that does 16 million a second.
    pub pbkdf2_rounds: u64,
}

/// More memory for Argon2 than any header may ask for (`LUKS2_MAX_ARGON2_MEMORY` of `cryptsetup`).
const MAX_ARGON2_MEMORY_BYTES: u64 = 4 << 30;

impl Default for Limits {
    fn default() -> Self {
        Self {
            argon2_memory_bytes: 1 << 30,
            argon2_work_bytes: 256 << 30,
            pbkdf2_rounds: 1 << 28,
        }
    }
}

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Budget(Limits);

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(*limits)
    }

    /// Takes what Argon2 costs, or says what it is too much of.
    pub(crate) fn take_argon2(&mut self, memory_bytes: u64, passes: u32) -> Result<()> {
        let allowed = self.0.argon2_memory_bytes.min(MAX_ARGON2_MEMORY_BYTES);
        if memory_bytes > allowed {
            let reason = format!(
                "Argon2 takes {} MiB of memory, more than the limit of {} MiB",
                memory_bytes >> 20,
                allowed >> 20
            );
            return Err(Error::new(ErrorKind::Denied, reason));
        }
        let work = memory_bytes.saturating_mul(u64::from(passes));
        let left = self.0.argon2_work_bytes.checked_sub(work);
        self.0.argon2_work_bytes = left.ok_or_else(|| {
            let reason = format!(
                "Argon2 goes through {} MiB of memory {passes} times, more than the limit for all \
                 key slots together",
                memory_bytes >> 20
            );
            Error::new(ErrorKind::Denied, reason)
        })?;
        Ok(())
    }

    /// The same for PBKDF2.
    pub(crate) fn take_pbkdf2(&mut self, rounds: u64) -> Result<()> {
        let left = self.0.pbkdf2_rounds.checked_sub(rounds);
        self.0.pbkdf2_rounds = left.ok_or_else(|| {
            let reason = format!(
                "PBKDF2 takes {rounds} rounds, more than the limit for all key slots together"
            );
            Error::new(ErrorKind::Denied, reason)
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up() {
        let mut budget = Budget::new(&Limits {
            argon2_memory_bytes: u64::MAX,
            argon2_work_bytes: 10 << 30,
            pbkdf2_rounds: 10,
        });
        budget.take_argon2(4 << 30, 1).unwrap();
        assert!(budget.take_argon2(4 << 30, u32::MAX).is_err());
        budget.take_argon2(3 << 30, 2).unwrap();
        assert!(budget.take_argon2(1, 1).is_err());
        budget.take_pbkdf2(9).unwrap();
        assert!(budget.take_pbkdf2(2).is_err());
        let mut budget = Budget::new(&Limits {
            argon2_memory_bytes: u64::MAX,
            ..Limits::default()
        });
        let e = budget.take_argon2((4 << 30) + 1, 1).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Denied);
    }
}
