//! The `PN` entry: a device number (RRIP, 4.1.2).

use diskfs_vfs::Device;

use crate::error::{Result, corrupt};
use crate::numbers::Both32;
use crate::susp::SystemUse;

/// Returns the device number of the node whose record is at `place`; `None` if none is recorded.
///
/// If the upper half is zero, the lower half can contain both numbers in the 16-bit format. Linux
/// has 12 bits for the major and 20 for the minor number; further bits are dropped, because some
/// writers put the same number into both halves.
pub(crate) fn device(system_use: &SystemUse, place: u64) -> Result<Option<Device>> {
    let Some(data) = system_use.first(b"PN") else {
        return Ok(None);
    };
    let (Some(high), Some(low)) = (Both32::at(data, 0), Both32::at(data, 8)) else {
        return Err(corrupt("invalid PN entry: it is too short", place));
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
