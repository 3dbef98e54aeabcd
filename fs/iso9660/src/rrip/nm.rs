//! The `NM` entry: a file's name (RRIP, 4.1.4).

use crate::error::{Result, corrupt};
use crate::rrip::MAX_NAME_BYTES;
use crate::susp::SystemUse;

/// The flag of an entry whose name continues in the next entry.
const CONTINUE: u8 = 0x01;
/// The flags for `.`, `..` and the name of the host: entries without a name.
const NO_NAME: u8 = 0x02 | 0x04 | 0x20;

/// Joins the name of the record at `place` from its `NM` entries; `None` if there are none.
pub(crate) fn name(system_use: &SystemUse, place: u64) -> Result<Option<Vec<u8>>> {
    let mut name = None;
    for data in system_use.all(b"NM") {
        let Some((flags, text)) = data.split_first() else {
            return Err(corrupt("invalid NM entry: it is too short", place));
        };
        if flags & NO_NAME != 0 {
            break;
        }
        // Some writers terminate the name with NUL.
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = name.get_or_insert_with(Vec::new);
        name.extend_from_slice(text);
        if name.len() > MAX_NAME_BYTES {
            return Err(corrupt("invalid name: it is longer than 255 bytes", place));
        }
        if flags & CONTINUE == 0 {
            break;
        }
    }
    Ok(name)
}
