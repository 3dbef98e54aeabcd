//! `PX`: POSIX file attributes (RRIP, 4.1.1).

use crate::error::{Result, corrupt};
use crate::numbers::Both32;
use crate::susp::SystemUse;

/// What `stat` has of a file. The serial number that later versions add is not used: few write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PosixAttributes {
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl PosixAttributes {
    /// Those of the record at `place`; `None` when it has none.
    pub(crate) fn find(system_use: &SystemUse, place: u64) -> Result<Option<Self>> {
        let Some(data) = system_use.first(b"PX") else {
            return Ok(None);
        };
        let numbers = [0, 8, 16, 24].map(|at| Both32::at(data, at));
        let [Some(mode), Some(links), Some(uid), Some(gid)] = numbers else {
            return Err(corrupt("PX entry is too short", place));
        };
        Ok(Some(Self {
            mode,
            links,
            uid,
            gid,
        }))
    }
}
