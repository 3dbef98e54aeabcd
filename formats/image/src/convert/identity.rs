//! The identifiers of a new image.

use diskfs_block::Result;
use rustix::rand::{GetRandomFlags, getrandom};
use uuid::{Builder, Uuid};

/// The source of the identifiers of a new image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity(Uuid);

impl Identity {
    /// Returns the identity with the given first identifier, or with a random one.
    pub(super) fn new(given: Option<Uuid>) -> Result<Self> {
        if let Some(given) = given {
            return Ok(Self(given));
        }
        let mut bytes = [0; 16];
        // getrandom(2) returns this few bytes completely or not at all.
        getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
        Ok(Self(Builder::from_random_bytes(bytes).into_uuid()))
    }

    /// Returns a number of 32 bits, for VMDK's content identifier. `0xffffffff` and `0xfffffffe`
    /// have a meaning there.
    pub(super) fn number(self) -> u32 {
        let [a, b, c, d, ..] = self.0.into_bytes();
        u32::from_be_bytes([a, b, c, d]).min(0xffff_fffd)
    }
}
