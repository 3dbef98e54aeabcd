//! The `PX` entry: POSIX file attributes (RRIP, 4.1.1).

use crate::error::{Result, corrupt};
use crate::numbers::Both32;
use crate::susp::SystemUse;

/// The POSIX attributes of a file. The serial number of later versions is ignored, because few
/// writers record it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PosixAttributes {
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl PosixAttributes {
    /// Returns the attributes of the record at `place`; `None` if there are none.
    pub(crate) fn find(system_use: &SystemUse, place: u64) -> Result<Option<Self>> {
        let Some(data) = system_use.first(b"PX") else {
            return Ok(None);
        };
        let numbers = [0, 8, 16, 24].map(|at| Both32::at(data, at));
        let [Some(mode), Some(links), Some(uid), Some(gid)] = numbers else {
            return Err(corrupt("invalid PX entry: it is too short", place));
        };
        Ok(Some(Self {
            mode,
            links,
            uid,
            gid,
        }))
    }
}
