//! `CL`, `PL`, `RE`: directories that lie deeper than the eight levels of the standard are recorded
//! elsewhere (RRIP, 4.1.5).

use crate::error::{Result, corrupt};
use crate::numbers::Both32;
use crate::susp::SystemUse;

/// The block of the directory that the record at `place` stands for.
pub(crate) fn child_link(system_use: &SystemUse, place: u64) -> Result<Option<u32>> {
    link(system_use.first(b"CL"), place)
}

/// The block of the directory above one that is recorded elsewhere, told in its record of the parent.
pub(crate) fn parent_link(system_use: &SystemUse, place: u64) -> Result<Option<u32>> {
    link(system_use.first(b"PL"), place)
}

/// Whether the directory belongs elsewhere, and is not shown where it is recorded.
pub(crate) fn is_relocated(system_use: &SystemUse) -> bool {
    system_use.first(b"RE").is_some()
}

fn link(data: Option<&[u8]>, place: u64) -> Result<Option<u32>> {
    let Some(data) = data else {
        return Ok(None);
    };
    let block = Both32::at(data, 0);
    let too_short = || corrupt("CL or PL entry is too short", place);
    block.map(Some).ok_or_else(too_short)
}
