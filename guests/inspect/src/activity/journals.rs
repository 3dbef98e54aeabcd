//! The last boot according to systemd's journals, for guests that keep no wtmp.

use std::sync::Arc;

use diskfs_journal::{Boot, Journal};

use super::super::files::Files;
use super::JOURNALS;

/// The limit on journal files in which the start of the last boot is searched: a boot that logs
/// much fills several.
const MAX_FILES: usize = 64;

/// Returns the start of the last recorded boot, in seconds since 1970, and the journal file.
pub(super) fn last_boot(files: &Files<'_>) -> Option<(i64, String)> {
    let mut last: Option<(Boot, String)> = None;
    for path in newest_first(files).into_iter().take(MAX_FILES) {
        let Some(boots) = boots(files, &path) else {
            continue;
        };
        let same = |boot: &&Boot| last.as_ref().is_none_or(|(last, _)| boot.id == last.id);
        let Some(boot) = boots.last().filter(same) else {
            break;
        };
        last = Some((*boot, path));
        // If the file has an earlier boot, the last boot starts in this file.
        if boots.len() > 1 {
            break;
        }
    }
    let (boot, path) = last?;
    let seconds = i64::try_from(boot.first_us / 1_000_000).ok()?;
    Some((seconds, path))
}

/// Returns the files of the system journal, of all machine IDs, newest first.
fn newest_first(files: &Files<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for machine in files.names(JOURNALS) {
        for name in files.names(&format!("{JOURNALS}/{machine}")) {
            let is_system = name.starts_with("system") && name.contains(".journal");
            let path = format!("{JOURNALS}/{machine}/{name}");
            let changed = files.changed_seconds(&path).filter(|_| is_system);
            found.extend(changed.map(|seconds| (seconds, path)));
        }
    }
    // Of files with the same second, `system.journal` is the one that is being written.
    found.sort_by(|(seconds, path), (other_seconds, other)| {
        let key = |path: &str| !path.ends_with("/system.journal");
        (other_seconds, key(path), other).cmp(&(seconds, key(other), path))
    });
    found.into_iter().map(|(_, path)| path).collect()
}

fn boots(files: &Files<'_>, path: &str) -> Option<Vec<Boot>> {
    let device = files.open(path)?;
    let journal = Journal::open(Arc::new(device));
    let boots = journal.and_then(|journal| journal.boots());
    boots
        .map_err(|error| files.add_problem(path, error.to_string()))
        .ok()
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::MemoryFs;

    use super::super::super::testing::of as filesystem;
    use super::*;

    const THREE_BOOTS: &[u8] =
        include_bytes!("../../../../files/journal/tests/fixtures/three-boots.journal.zst");

    #[test]
    fn the_third_of_three() {
        let mut tree = MemoryFs::new();
        let dir = format!("{JOURNALS}/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        tree.dir(&dir);
        let journal = zstd::decode_all(THREE_BOOTS).unwrap();
        tree.file(&format!("{dir}/system.journal"), &journal);
        tree.file(&format!("{dir}/system@1.journal"), b"broken");
        tree.file(&format!("{dir}/user-1000.journal"), b"not looked at");
        let tree = filesystem(tree);
        let files = Files::new(&tree);
        let (seconds, path) = last_boot(&files).unwrap();
        assert_eq!(seconds, 1_700_184_800, "as journalctl --list-boots says");
        assert!(path.ends_with("/system.journal"));
        assert_eq!(files.finish().1, []);
    }
}
