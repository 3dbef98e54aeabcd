//! `TF`: time stamps (RRIP, 4.1.6).

use diskfs_vfs::Timestamp;

use crate::date_time::{self, LONG_BYTES, SHORT_BYTES};
use crate::susp::SystemUse;

/// The time stamps are of the long form.
const LONG_FORM: u8 = 0x80;

/// Those of a file that are recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Timestamps {
    pub(crate) created: Option<Timestamp>,
    pub(crate) modified: Option<Timestamp>,
    pub(crate) accessed: Option<Timestamp>,
    pub(crate) changed: Option<Timestamp>,
}

impl Timestamps {
    /// Of all entries; what is cut off is not there.
    pub(crate) fn find(system_use: &SystemUse) -> Self {
        let mut found = Self::default();
        for data in system_use.all(b"TF") {
            found.take(data);
        }
        found
    }

    /// A bit of the flags for each, and in their order the stamps. Those of backup, expiration and
    /// effect come last and are nobody's.
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
