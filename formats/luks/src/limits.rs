//! Limits on the cost of key derivation.

use diskfs_block::{Error, ErrorKind, Result};

/// The limits on key derivation for one call of [`Header::unlock`](crate::Header::unlock). A header
/// sets its own costs, and a malicious one sets them as high as it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The memory for Argon2 in bytes. The default is 1 GiB, the most that `cryptsetup` uses by
    /// default. It is never more than 4 GiB, the limit of `cryptsetup` for any header.
    pub argon2_memory_bytes: u64,
    /// Memory times passes, summed over all key slots that are tried. The default is 256 GiB: all
    /// 32 slots of LUKS2 with 1 GiB and 8 passes (`cryptsetup` takes 4 on usual machines).
    pub argon2_work_bytes: u64,
    /// The rounds of PBKDF2, summed over all key slots and digests that are tried. The default is
    /// 2^28: the 8 slots of LUKS1 with 2 seconds each on a machine that does 16 million a second.
    pub pbkdf2_rounds: u64,
}

/// The most memory that Argon2 may use for any header (`LUKS2_MAX_ARGON2_MEMORY` of `cryptsetup`).
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

/// The unused part of the limits.
#[derive(Debug)]
pub(crate) struct Budget(Limits);

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(*limits)
    }

    /// Subtracts the cost of one Argon2 run, or fails with the limit that it exceeds.
    pub(crate) fn take_argon2(&mut self, memory_bytes: u64, passes: u32) -> Result<()> {
        let allowed = self.0.argon2_memory_bytes.min(MAX_ARGON2_MEMORY_BYTES);
        if memory_bytes > allowed {
            let reason = format!(
                "Argon2 needs {} MiB of memory, more than the limit of {} MiB",
                memory_bytes >> 20,
                allowed >> 20
            );
            return Err(Error::new(ErrorKind::Denied, reason));
        }
        let work = memory_bytes.saturating_mul(u64::from(passes));
        let left = self.0.argon2_work_bytes.checked_sub(work);
        self.0.argon2_work_bytes = left.ok_or_else(|| {
            let reason = format!(
                "Argon2 needs {passes} passes over {} MiB of memory, more than the limit for all \
                 key slots together",
                memory_bytes >> 20
            );
            Error::new(ErrorKind::Denied, reason)
        })?;
        Ok(())
    }

    /// Subtracts the cost of one PBKDF2 run, or fails with the limit that it exceeds.
    pub(crate) fn take_pbkdf2(&mut self, rounds: u64) -> Result<()> {
        let left = self.0.pbkdf2_rounds.checked_sub(rounds);
        self.0.pbkdf2_rounds = left.ok_or_else(|| {
            let reason = format!(
                "PBKDF2 needs {rounds} rounds, more than the limit for all key slots together"
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
