//! Each filesystem among the fixtures, opened for writing and closed: its journal is replayed into
//! the image as by the kernel, and e2fsck then finds no errors.

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{CrashState, Event, Fate, Faulty, File, Memory, Overlay};
use diskfs_ext4::{Ext4, Options, WritableExt4, WriteOptions};
use diskfs_fixtures::{Fixture, Mount, Reference, Tree, image, require, require_root};
use diskfs_vfs::{FsRead, FsWrite, NewAttributes, NewKind};

use super::{differences, filesystem, summary};

/// The fixtures that can't be written, with the words of the refusal.
const REFUSED: [(&str, &str); 3] = [
    ("ext4-quota", "quota"),
    ("ext4-mmp", "mmp"),
    ("ext2-rev0", "revision"),
];

/// A fixture in which e2fsck always finds an error: its recipe gives a directory the link count of
/// one with too many subdirectories to be counted.
const NOT_RIGHT: &str = "ext4-directories";

/// Returns the fixtures that are an ext2, ext3 or ext4 without a container.
fn filesystems() -> impl Iterator<Item = &'static Fixture> {
    let fixtures = diskfs_fixtures::all().iter();
    let is_ext = |name: &str| name.starts_with("ext") || name.starts_with("journal");
    fixtures.filter(move |fixture| {
        fixture.reference != Reference::None && is_ext(&fixture.name) && !fixture.name.contains('.')
    })
}

fn open_and_close(path: &Path) -> Result<(), String> {
    let device = File::open_read_write(path).map_err(|e| e.to_string())?;
    let opened = WritableExt4::open(Arc::new(device), &WriteOptions::default());
    opened.map(drop).map_err(|e| e.to_string())
}

fn e2fsck(path: &Path) -> Vec<String> {
    let output = diskfs_fixtures::command("e2fsck")
        .args(["-f", "-n"])
        .arg(path)
        .output();
    let output = output.expect("start e2fsck");
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
                let bytes = std::fs::read(&path).expect("read the image");
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

/// Returns true if a crash tears the superblock, two sectors under one checksum: then no driver could
/// open the image.
fn tears_superblock(state: &CrashState<'_>) -> bool {
    const SUPERBLOCK: u64 = 1024;
    state.open().any(|(event, fate)| {
        matches!(event, Event::Write { offset, .. } if *offset <= SUPERBLOCK)
            && matches!(fate, Fate::Torn { .. })
    })
}

/// After a crash during the replay of a journal into the image, the next program that opens it sees
/// the same tree.
#[test]
fn a_replay_can_be_done_over() {
    for fixture in filesystems().filter(|fixture| fixture.name.starts_with("journal-")) {
        let name = fixture.name.as_str();
        let bytes = std::fs::read(image(name).path()).expect("read the image");
        let expected = diskfs_fixtures::expected_tree(name);
        let device = Arc::new(Faulty::new(Arc::new(Memory::new(bytes.clone())), []));
        let opened = WritableExt4::open(device.clone(), &WriteOptions::default());
        drop(opened.unwrap_or_else(|e| panic!("{name}: {e}")));
        let log = device.take_log();
        let before = Arc::new(Memory::new(bytes));
        for state in log.states(1).filter(|state| !tears_superblock(state)) {
            let image = Arc::new(Overlay::in_memory(before.clone(), 64 << 20));
            let replayed = state.replay(&*image);
            replayed.unwrap_or_else(|e| panic!("{name}: {e}"));
            let fs = Ext4::open(image, &Options::default());
            let fs = fs.unwrap_or_else(|e| panic!("{name}, {state}: {e}"));
            let found = Tree::of_filesystem(&fs).unwrap_or_else(|e| panic!("{name}, {state}: {e}"));
            let found = expected.differences(&found);
            assert!(found.is_empty(), "{name}, {state}: {}", summary(&found));
        }
    }
}

/// The fixtures with different forms of the journal and of its contents.
const CRASHED: [&str; 7] = [
    "ext3",
    "ext4-32bit",
    "ext4-block-1k",
    "ext4-default",
    "ext4-inline-data",
    "ext4-no-csum",
    "ext4-orphan-file",
];

/// Creates and removes files, most of it durably.
fn write_something(fs: &WritableExt4) -> diskfs_vfs::Result<()> {
    let attributes = NewAttributes {
        permissions: 0o644,
        umask: 0o022,
        uid: 1000,
        gid: 1000,
    };
    let dir = fs.create(fs.root(), b"made", NewKind::Directory, &attributes)?;
    for nth in 0..300usize {
        let name = format!("file-{nth}");
        let file = fs.create(dir, name.as_bytes(), NewKind::Regular, &attributes)?;
        fs.write_at(file, 0, &vec![b'x'; nth * 31])?;
        if nth % 3 == 0 {
            fs.unlink(dir, name.as_bytes())?;
        }
        if nth % 50 == 0 {
            fs.sync()?;
        }
    }
    fs.sync()?;
    fs.unlink(dir, b"file-1")
}

/// The kernel replays the journal that this driver wrote, and shows the same tree.
#[test]
fn the_kernel_replays_a_journal_of_ours() {
    if require_root().is_none() || require("e2fsck").is_none() {
        return;
    }
    for name in CRASHED {
        let copy = image(name);
        let path = copy.path();
        let before = Arc::new(Memory::new(std::fs::read(&path).expect("read it")));
        let written = Arc::new(Overlay::in_memory(before.clone(), 64 << 20));
        let device = Arc::new(Faulty::new(written, []));
        let options = WriteOptions {
            commit_interval: None,
            ..WriteOptions::default()
        };
        let fs = WritableExt4::open(device.clone(), &options);
        let fs = fs.unwrap_or_else(|e| panic!("{name}: {e}"));
        write_something(&fs).unwrap_or_else(|e| panic!("{name}: {e}"));
        let log = device.take_log();
        let crashed = File::open_read_write(&path).expect("open for writing");
        let replayed = log
            .crash_after(usize::MAX)
            .replay(&crashed, |_, _| Fate::Lost);
        replayed.unwrap_or_else(|e| panic!("{name}: {e}"));
        let shown = Tree::of_filesystem(filesystem(&path).as_fs());
        let shown = shown.unwrap_or_else(|e| panic!("{name}: {e}"));
        let mounted = Mount::of_image(&path, "rw,noatime")
            .and_then(|mount| Tree::of_directory(mount.path()))
            .unwrap_or_else(|e| panic!("{name}: {e:#}"));
        let mut found = mounted.differences(&shown);
        found.extend(e2fsck(&path));
        assert!(found.is_empty(), "{name}: {}", summary(&found));
        assert!(
            shown.entry("made/file-299").is_some(),
            "{name}: it was durable"
        );
        assert!(
            shown.entry("made/file-1").is_some(),
            "{name}: it was not durable"
        );
    }
}
