//! Checks of filesystems whose size was changed, and crashes meanwhile.

use std::fs;
use std::path::Path;

use diskfs_block::{CrashState, Event, Fate, Memory, WriteLog};

use super::run;

pub(crate) fn set_len(image: &Path, len: u64) {
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    file.set_len(len).unwrap();
}

/// Checks that e2fsck finds nothing, and would change nothing.
pub(crate) fn e2fsck_finds_nothing(image: &Path, what: &str) {
    let output = diskfs_fixtures::command("e2fsck")
        .args(["-f", "-n"])
        .arg(image)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{what}:\n{text}");
    // Some repairs don't change the result.
    let words = ["ixed", "ix?", "rror", "rong", "nvalid", "orrupt"];
    let told = words.iter().find(|&&word| text.contains(word));
    assert_eq!(told, None, "{what}:\n{text}");
}

/// Returns a number from the output of `dumpe2fs -h`.
pub(crate) fn field(image: &Path, name: &str) -> u64 {
    let text = run("dumpe2fs", &["-h", image.to_str().unwrap()]);
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.unwrap_or_else(|| panic!("{name} in {text}"));
    value.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// Returns true if a filesystem without a journal is marked as clean.
pub(crate) fn is_clean(bytes: &[u8]) -> bool {
    bytes[0x43a] & 1 == 1
}

/// Returns `count` of the states that a crash can leave, or all if `DISKFS_CRASHES` is set, each with
/// the contents that it makes of those `before`. Contents that follow themselves are left out.
pub(crate) fn states<'a>(
    log: &'a WriteLog,
    count: usize,
    before: &'a [u8],
) -> impl Iterator<Item = (CrashState<'a>, Vec<u8>)> {
    // No disk tears a superblock.
    let tears_superblock = |state: &CrashState<'_>| {
        let tears = |(event, fate): (&Event, Fate)| {
            matches!(event, Event::Write { offset, .. } if *offset <= 1024)
                && matches!(fate, Fate::Torn { .. })
        };
        state.open().any(tears)
    };
    let states = log.states(1).filter(|state| !tears_superblock(state));
    let states: Vec<_> = states.collect();
    let step = match std::env::var("DISKFS_CRASHES") {
        Ok(_) => 1,
        Err(_) => states.len().div_ceil(count).max(1),
    };
    let mut last = Vec::new();
    // The last ones are complete.
    states
        .into_iter()
        .rev()
        .step_by(step)
        .filter_map(move |state| {
            let memory = Memory::new(before);
            state.replay(&memory).unwrap();
            let crashed = memory.to_vec();
            let is_new = crashed != last;
            last.clone_from(&crashed);
            is_new.then_some((state, crashed))
        })
}

/// Lets e2fsck repair an unclean image. Returns it.
pub(crate) fn repair(dir: &Path, bytes: &[u8], what: &str) -> Vec<u8> {
    let path = dir.join("repaired");
    fs::write(&path, bytes).unwrap();
    let repaired = diskfs_fixtures::command("e2fsck")
        .args(["-fy", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(
        matches!(repaired.status.code(), Some(0 | 1)),
        "{what}: {repaired:?}"
    );
    fs::read(&path).unwrap()
}
