//! Reading a header of either version.

use diskfs_block::{BlockRead, Error, Result};

use crate::header::{Header, MAGIC};
use crate::{luks1, luks2};

impl Header {
    /// Reads the header at the start of `device`; returns `None` if there is none. A LUKS2 header
    /// whose first copy is lost is found by its second.
    ///
    /// # Errors
    /// * `Corrupt` if neither copy can be used.
    /// * `Unsupported` for an unknown version.
    /// * Read errors of `device`.
    pub fn read(device: &dyn BlockRead) -> Result<Option<Self>> {
        let left = usize::try_from(device.size_bytes()).unwrap_or(usize::MAX);
        let mut start = vec![0; left.min(luks1::PHDR_BYTES)];
        device.read_at(0, &mut start)?;
        let version = match (start.get(..6), start.get(6..8)) {
            (Some(magic), Some(&[high, low])) if magic == MAGIC => {
                Some(u16::from_be_bytes([high, low]))
            }
            _ => None,
        };
        match version {
            Some(1) => luks1::from_bytes(&start).map(Some),
            Some(2) | None => luks2::read(device),
            Some(other) => {
                let reason = format!("unsupported LUKS version {other}");
                Err(Error::unsupported(reason).at(0))
            }
        }
    }
}
