//! The time at which the guest last ran, from its logs.

mod journals;

use std::io::{Read, Seek, SeekFrom};

use serde::Serialize;

use super::files::Files;
use diskfs_disk::time;
use diskfs_vfs::Timestamp;

/// The record of boots and logins (utmp(5)).
const WTMP: &str = "/var/log/wtmp";

/// The size of the end of the file that is searched: 10,000 entries.
const WTMP_BYTES: u64 = 10_000 * ENTRY_BYTES;

/// The size of an entry of Linux, on all architectures with 32-bit times in it.
const ENTRY_BYTES: u64 = 384;

/// The offsets of the type and of the seconds in an entry (`struct utmp` of glibc's `<utmp.h>`).
const TYPE_OFFSET: usize = 0;
const SECONDS_OFFSET: usize = 340;

/// The entry type of a boot.
const BOOT_TIME: u16 = 2;

/// The directory of logs. Its subdirectories belong to single services and are not searched, except
/// for systemd's journals.
const LOGS: &str = "/var/log";
const JOURNALS: &str = "/var/log/journal";

/// The times at which the guest last ran, in UTC (RFC 3339).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Activity {
    /// The time of the last boot, if the guest records it.
    pub last_boot: Option<String>,
    /// The time of the last write to a log.
    pub last_log: Option<String>,
}

/// Reads the times of the last boot and the last log.
pub(super) fn of(files: &Files<'_>) -> Activity {
    let shown = |seconds| {
        time::rfc3339_seconds(Timestamp {
            seconds,
            nanoseconds: 0,
        })
    };
    Activity {
        last_boot: last_boot(files).map(shown),
        last_log: last_log(files).map(shown),
    }
}

/// Returns the later of the two known boot times. If a guest has stopped keeping one of the two
/// records, that one is older.
fn last_boot(files: &Files<'_>) -> Option<i64> {
    let by_wtmp = last_boot_by_wtmp(files).map(|seconds| (seconds, WTMP.to_owned()));
    let known = [by_wtmp, journals::last_boot(files)];
    let (seconds, path) = known.into_iter().flatten().max()?;
    files.add_source("activity", &path, None);
    Some(seconds)
}

fn last_boot_by_wtmp(files: &Files<'_>) -> Option<i64> {
    let mut file = files.filesystem().open(WTMP).ok()?;
    // The size is rounded down to whole entries, because the last entry may be cut.
    let size_bytes = file.size_bytes() / ENTRY_BYTES * ENTRY_BYTES;
    let from = size_bytes.saturating_sub(WTMP_BYTES);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut entries = Vec::new();
    file.take(size_bytes - from)
        .read_to_end(&mut entries)
        .ok()?;
    let entry_bytes = usize::try_from(ENTRY_BYTES).ok()?;
    let mut newest_first = entries.chunks_exact(entry_bytes).rev();
    newest_first.find_map(boot_seconds)
}

/// Returns the time of an entry that records a boot. Both byte orders are tried; in the wrong one
/// the type is invalid.
fn boot_seconds(entry: &[u8]) -> Option<i64> {
    let kind = entry.get(TYPE_OFFSET..TYPE_OFFSET + 2)?.try_into().ok()?;
    let seconds = entry
        .get(SECONDS_OFFSET..SECONDS_OFFSET + 4)?
        .try_into()
        .ok()?;
    match (u16::from_le_bytes(kind), u16::from_be_bytes(kind)) {
        (BOOT_TIME, _) => Some(u32::from_le_bytes(seconds).into()),
        (_, BOOT_TIME) => Some(u32::from_be_bytes(seconds).into()),
        _ => None,
    }
}

/// Returns the newest modification time of a log.
fn last_log(files: &Files<'_>) -> Option<i64> {
    let machines = files.names(JOURNALS);
    let machines = machines
        .iter()
        .map(|machine| format!("{JOURNALS}/{machine}"));
    let mut newest: Option<(i64, String)> = None;
    for dir in std::iter::once(LOGS.to_owned()).chain(machines) {
        for name in files.names(&dir) {
            let path = format!("{dir}/{name}");
            let Some(seconds) = files.changed_seconds(&path) else {
                continue;
            };
            if newest.as_ref().is_none_or(|(known, _)| *known < seconds) {
                newest = Some((seconds, path));
            }
        }
    }
    let (seconds, path) = newest?;
    files.add_source("activity", &path, None);
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::MemoryFs;

    use super::super::testing::of as filesystem;
    use super::*;

    fn entry(kind: u16, seconds: u32) -> Vec<u8> {
        let mut entry = vec![0; usize::try_from(ENTRY_BYTES).unwrap()];
        entry[..2].copy_from_slice(&kind.to_le_bytes());
        entry[SECONDS_OFFSET..SECONDS_OFFSET + 4].copy_from_slice(&seconds.to_le_bytes());
        entry
    }

    #[test]
    fn the_last_start_of_many_entries() {
        let mut tree = MemoryFs::new();
        tree.dir(LOGS);
        let mut wtmp = [
            entry(BOOT_TIME, 1),
            entry(BOOT_TIME, 1_700_000_000),
            entry(7, 9),
        ]
        .concat();
        wtmp.extend([1; 100]);
        tree.file(WTMP, &wtmp);
        let tree = filesystem(tree);
        let found = of(&Files::new(&tree));
        let expected = "2023-11-14T22:13:20Z";
        assert_eq!(found.last_boot.as_deref(), Some(expected));
        assert!(found.last_log.is_some());
    }
}
