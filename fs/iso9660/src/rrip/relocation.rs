//! The entries `CL`, `PL` and `RE`: relocated directories (RRIP, 4.1.5). Directories deeper than
//! the eight levels of the standard are recorded elsewhere.

use crate::error::{Result, corrupt};
use crate::numbers::Both32;
use crate::susp::SystemUse;

/// Returns the block of the relocated directory for which the record at `place` is a placeholder.
pub(crate) fn child_link(system_use: &SystemUse, place: u64) -> Result<Option<u32>> {
    link(system_use.first(b"CL"), place)
}

/// Returns the block of the real parent of a relocated directory, from its record of the parent.
pub(crate) fn parent_link(system_use: &SystemUse, place: u64) -> Result<Option<u32>> {
    link(system_use.first(b"PL"), place)
}

/// Returns true if the directory was relocated to here, where it is not shown.
pub(crate) fn is_relocated(system_use: &SystemUse) -> bool {
    system_use.first(b"RE").is_some()
}

fn link(data: Option<&[u8]>, place: u64) -> Result<Option<u32>> {
    let Some(data) = data else {
        return Ok(None);
    };
    let block = Both32::at(data, 0);
    let too_short = || corrupt("invalid CL or PL entry: it is too short", place);
    block.map(Some).ok_or_else(too_short)
}
