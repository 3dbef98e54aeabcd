//! The identifiers of a new image.

use std::time::{SystemTime, UNIX_EPOCH};

use diskfs_block::Result;
use rustix::rand::{GetRandomFlags, getrandom};
use uuid::{Builder, Uuid};

/// Seconds from 1970-01-01 to 2000-01-01, where the times of VHD begin.
const EPOCH: u64 = 946_684_800;

/// The source of the identifiers of a new image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    first: Uuid,
    is_given: bool,
}

impl Identity {
    /// Returns the identity with the given first identifier, or with a random one.
    pub(super) fn new(given: Option<Uuid>) -> Result<Self> {
        if let Some(given) = given {
            return Ok(Self {
                first: given,
                is_given: true,
            });
        }
        let mut bytes = [0; 16];
        // getrandom(2) returns this few bytes completely or not at all.
        getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
        Ok(Self {
            first: Builder::from_random_bytes(bytes).into_uuid(),
            is_given: false,
        })
    }

    /// Returns a number of 32 bits, for VMDK's content identifier. `0xffffffff` and `0xfffffffe`
    /// have a meaning there.
    pub(super) fn number(self) -> u32 {
        let [a, b, c, d, ..] = self.first.into_bytes();
        u32::from_be_bytes([a, b, c, d]).min(0xffff_fffd)
    }

    /// Returns the identifier with this number, of which the first is 0.
    pub(super) fn id(self, number: u8) -> Uuid {
        let mut bytes = self.first.into_bytes();
        if let Some(last) = bytes.last_mut() {
            *last ^= number;
        }
        Uuid::from_bytes(bytes)
    }

    /// Returns the time of creation in seconds since 2000-01-01. It is 0 for a given identity, so
    /// that the same disk makes the same file.
    pub(super) fn created(self) -> u32 {
        if self.is_given {
            return 0;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        u32::try_from(seconds.saturating_sub(EPOCH)).unwrap_or(u32::MAX)
    }
}
