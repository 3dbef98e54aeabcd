//! The `TF` entry: timestamps (RRIP, 4.1.6).

use diskfs_vfs::Timestamp;

use crate::date_time::{self, LONG_BYTES, SHORT_BYTES};
use crate::susp::SystemUse;

/// The flag for timestamps of the long format.
const LONG_FORM: u8 = 0x80;

/// The recorded timestamps of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Timestamps {
    pub(crate) created: Option<Timestamp>,
    pub(crate) modified: Option<Timestamp>,
    pub(crate) accessed: Option<Timestamp>,
    pub(crate) changed: Option<Timestamp>,
}

impl Timestamps {
    /// Collects the timestamps of all `TF` entries. Truncated timestamps count as missing.
    pub(crate) fn find(system_use: &SystemUse) -> Self {
        let mut found = Self::default();
        for data in system_use.all(b"TF") {
            found.take(data);
        }
        found
    }

    /// Parses one entry: a byte with a flag for each timestamp, then the timestamps in that order.
    /// The last ones (backup, expiration, effective) are ignored.
    fn take(&mut self, data: &[u8]) {
        let Some((flags, mut stamps)) = data.split_first() else {
            return;
        };
        let wanted = [
            &mut self.created,
            &mut self.modified,
            &mut self.accessed,
            &mut self.changed,
        ];
        for (bit, stamp) in wanted.into_iter().enumerate() {
            if flags & (1 << bit) == 0 {
                continue;
            }
            let Some((time, after)) = next(stamps, flags & LONG_FORM != 0) else {
                return;
            };
            *stamp = time;
            stamps = after;
        }
    }
}

fn next(stamps: &[u8], long: bool) -> Option<(Option<Timestamp>, &[u8])> {
    if long {
        let (stamp, after) = stamps.split_first_chunk::<LONG_BYTES>()?;
        Some((date_time::long(stamp), after))
    } else {
        let (stamp, after) = stamps.split_first_chunk::<SHORT_BYTES>()?;
        Some((Some(date_time::short(*stamp)), after))
    }
}
