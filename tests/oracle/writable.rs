//! Each filesystem among the fixtures, opened for writing and closed: its journal is replayed into the
//! image as the kernel would, and e2fsck finds nothing wrong then.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use diskfs_block::{Event, Fate, Faulty, File, Memory, Overlay};
use diskfs_ext4::{Ext4, Options, WritableExt4, WriteOptions};
use diskfs_fixtures::{Fixture, Mount, Reference, Tree, image, require, require_root};

use super::{differences, filesystem, summary};

/// What is not written, and what the refusal says.
const REFUSED: [(&str, &str); 3] = [
    ("ext4-quota", "quota"),
    ("ext4-mmp", "mmp"),
    ("ext2-rev0", "revision"),
];

/// e2fsck finds something in it from the start: its recipe gives a directory the link count of one
/// with too many subdirectories to be counted.
const NOT_RIGHT: &str = "ext4-directories";

/// The fixtures that are a filesystem, and nothing around it.
fn filesystems() -> impl Iterator<Item = &'static Fixture> {
    let fixtures = diskfs_fixtures::all().iter();
    fixtures.filter(|fixture| fixture.reference != Reference::None && !fixture.name.contains('.'))
}

fn open_and_close(path: &Path) -> Result<(), String> {
    let device = File::open_read_write(path).map_err(|e| e.to_string())?;
    let opened = WritableExt4::open(Arc::new(device), &WriteOptions::default());
    opened.map(drop).map_err(|e| e.to_string())
}

fn e2fsck(path: &Path) -> Vec<String> {
    let output = Command::new("e2fsck").args(["-f", "-n"]).arg(path).output();
    let output = output.expect("e2fsck runs");
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Vec::new();
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn each_filesystem_is_the_same_after_it_was_open_for_writing() {
    if require("e2fsck").is_none() {
        return;
    }
    let root = require_root().is_some();
    let mut failed = Vec::new();
    for fixture in filesystems() {
        let name = fixture.name.as_str();
        let image = image(name);
        let path = image.path();
        let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
        let mut found = match (open_and_close(&path), refused) {
            (Ok(()), None) if name == NOT_RIGHT => Vec::new(),
            (Ok(()), None) => e2fsck(&path),
            (Err(e), Some((_, says))) if e.contains(says) => {
                let bytes = std::fs::read(&path).expect("the image is readable");
                assert_eq!(
                    diskfs_fixtures::sha256_hex(&bytes),
                    fixture.sha256,
                    "{name}"
                );
                continue;
            }
            (opened, _) => vec![format!("{opened:?}")],
        };
        let expected = diskfs_fixtures::expected_tree(name);
        found.extend(differences(&expected, &filesystem(&path)));
        if root && fixture.reference == Reference::Kernel {
            let mounted = Mount::of_image(&path, "ro")
                .and_then(|mount| Tree::of_directory(mount.path()))
                .unwrap_or_else(|error| panic!("{name}: {error:#}"));
            found.extend(expected.differences(&mounted));
        }
        if !found.is_empty() {
            failed.push(format!("{name}: {}", summary(&found)));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// By chance; but the superblock, two sectors under one checksum, is not torn. Nobody could open it.
fn by_chance(seed: u64) -> impl FnMut(usize, &Event) -> Fate {
    const SUPERBLOCK: u64 = 1024;
    let mut chance = Fate::by_chance(seed);
    move |nth, event| match (chance(nth, event), event) {
        (Fate::Torn { .. }, Event::Write { offset, .. }) if *offset <= SUPERBLOCK => Fate::Lost,
        (fate, _) => fate,
    }
}

/// A crash while a journal is replayed into the image: whoever opens it next sees the same.
#[test]
fn a_replay_can_be_done_over() {
    for fixture in filesystems().filter(|fixture| fixture.name.starts_with("journal-")) {
        let name = fixture.name.as_str();
        let bytes = std::fs::read(image(name).path()).expect("the image is readable");
        let expected = diskfs_fixtures::expected_tree(name);
        let device = Arc::new(Faulty::new(Arc::new(Memory::new(bytes.clone())), []));
        let opened = WritableExt4::open(device.clone(), &WriteOptions::default());
        drop(opened.unwrap_or_else(|e| panic!("{name}: {e}")));
        let log = device.take_log();
        let before = Arc::new(Memory::new(bytes));
        for (seed, crash) in (0..).zip(log.crashes()) {
            let image = Arc::new(Overlay::in_memory(before.clone(), 64 << 20));
            let replayed = crash.replay(&*image, by_chance(seed));
            replayed.unwrap_or_else(|e| panic!("{name}: {e}"));
            let fs = Ext4::open(image, &Options::default());
            let fs = fs.unwrap_or_else(|e| panic!("{name}, {seed}: {e}"));
            let found = Tree::of_filesystem(&fs).unwrap_or_else(|e| panic!("{name}, {seed}: {e}"));
            let found = expected.differences(&found);
            assert!(
                found.is_empty(),
                "{name}, after {seed}: {}",
                summary(&found)
            );
        }
    }
}
