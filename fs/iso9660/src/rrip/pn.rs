//! `PN`: a device's number (RRIP, 4.1.2).

use diskfs_vfs::Device;

use crate::error::{Result, corrupt};
use crate::numbers::Both32;
use crate::susp::SystemUse;

/// The number of the device node that the record at `place` is of; `None` when none is recorded.
///
/// With an upper half of zero, the lower one may hold both in the way of 16 bits. Of either number
/// Linux has room for 12 and 20 bits; more are what a writer took for a part of it.
pub(crate) fn device(system_use: &SystemUse, place: u64) -> Result<Option<Device>> {
    let Some(data) = system_use.first(b"PN") else {
        return Ok(None);
    };
    let (Some(high), Some(low)) = (Both32::at(data, 0), Both32::at(data, 8)) else {
        return Err(corrupt("PN entry is too short", place));
    };
    let (major, minor) = match (high, low) {
        (0, 256..) => (low >> 8, low & 0xff),
        numbers => numbers,
    };
    Ok(Some(Device {
        major: major & 0xfff,
        minor: minor & 0xf_ffff,
    }))
}
