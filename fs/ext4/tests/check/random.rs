//! Random filesystems, which are healthy, and random damage, which e2fsck judges, too.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use diskfs_ext4::{CheckReport, FindingKind};
use diskfs_fixtures::have;
use diskfs_vfs::{
    Fallocate, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode, SetXattr,
};

use crate::common::{Random, e2fsck, mke2fs_empty, open_for_writing};
use crate::image::{check_bytes, check_file, e2fsck_verdict, lines, make};

/// The options of mke2fs that are combined.
const FEATURES: [&str; 14] = [
    "metadata_csum",
    "64bit",
    "extent",
    "has_journal",
    "flex_bg",
    "dir_index",
    "sparse_super2",
    "large_dir",
    "ea_inode",
    "inline_data",
    "orphan_file",
    "metadata_csum_seed",
    "uninit_bg",
    "casefold",
];

/// Returns a number of cases; the environment sets another one.
fn cases(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(default)
}

/// Returns random arguments of mke2fs that exclude each other nowhere.
fn arguments(random: &mut Random) -> String {
    let mut args = format!(
        "-t ext4 -b {} -I {} -N 2000 -g {}",
        [1024, 2048, 4096][random.below(3)],
        [128, 256, 512][random.below(3)],
        [2048, 8192][random.below(2)],
    );
    let mut features: BTreeMap<&str, bool> = FEATURES
        .iter()
        .map(|&feature| (feature, random.below(2) == 0))
        .collect();
    if features["metadata_csum"] {
        features.insert("uninit_bg", false);
    } else {
        features.insert("metadata_csum_seed", false);
    }
    if !features["extent"] {
        features.insert("64bit", false);
    }
    if !features["has_journal"] {
        features.insert("orphan_file", false);
    }
    if args.contains("-I 128") {
        features.insert("inline_data", false);
    }
    let list: Vec<String> = features
        .iter()
        .map(|(feature, set)| format!("{}{feature}", if *set { "" } else { "^" }))
        .collect();
    args.push_str(" -O ^resize_inode,");
    args.push_str(&list.join(","));
    args
}

/// Random operations on a filesystem, of which some fail.
struct Operations<'a> {
    fs: &'a dyn FsWrite,
    random: Random,
    directories: Vec<InodeNumber>,
    files: Vec<InodeNumber>,
}

impl Operations<'_> {
    fn name(&mut self) -> Vec<u8> {
        let number = self.random.below(150);
        let tail = "-long-name".repeat(number % 20);
        format!("n{number}{tail}").into_bytes()
    }

    fn step(&mut self) {
        let attributes = NewAttributes::for_root(0o755);
        let dir = self.directories[self.random.below(self.directories.len())];
        let other = self.directories[self.random.below(self.directories.len())];
        let file = self.files[self.random.below(self.files.len())];
        let (name, other_name) = (self.name(), self.name());
        let offset = u64::try_from(self.random.below(1 << 20)).unwrap();
        let data = vec![7; self.random.below(20_000)];
        let fs = self.fs;
        let len = u64::try_from(data.len()).unwrap() + 1;
        // Many of these fail, because a name exists or does not.
        match self.random.below(16) {
            0..4 => {
                if let Ok(inode) = fs.create(dir, &name, NewKind::Regular, &attributes) {
                    self.files.push(inode);
                    let _ = fs.write_at(inode, 0, &data[..data.len() / 20]);
                }
            }
            4 => {
                if let Ok(inode) = fs.create(dir, &name, NewKind::Directory, &attributes) {
                    self.directories.push(inode);
                }
            }
            5 => {
                let target = vec![b't'; 1 + data.len() % 900];
                let _ = fs.create(dir, &name, NewKind::Symlink(&target), &attributes);
            }
            6 => drop(fs.create(dir, &name, NewKind::Fifo, &attributes)),
            7 => drop(fs.link(file, dir, &name)),
            8 => drop(fs.unlink(dir, &name)),
            9 => drop(fs.rmdir(dir, &name)),
            10 | 11 => drop(fs.rename(dir, &name, other, &other_name, RenameMode::Replace)),
            12 => drop(fs.write_at(file, offset, &data)),
            13 => drop(fs.set_len(file, offset)),
            14 => {
                let kinds = [Fallocate::AllocateKeepSize, Fallocate::PunchHole];
                let what = kinds[self.random.below(2)];
                let _ = fs.fallocate(file, offset, len, what);
            }
            _ => {
                let value = &data[..data.len() / 10];
                let _ = fs.set_xattr(file, b"user.x", value, SetXattr::Any);
            }
        }
    }
}

#[test]
fn random_filesystems_are_healthy() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for seed in 1..=cases("DISKFS_CHECKS", 6) {
        let mut random = Random(seed * 77);
        let args = arguments(&mut random);
        let image = mke2fs_empty(dir.path(), &args, "16M");
        let fs = open_for_writing(&image);
        let root = fs.root();
        let attributes = NewAttributes::for_root(0o755);
        let first = fs.create(root, b"first", NewKind::Regular, &attributes);
        let mut operations = Operations {
            fs: &fs,
            random,
            directories: vec![root],
            files: vec![first.unwrap()],
        };
        for _ in 0..400 {
            operations.step();
        }
        fs.sync().unwrap();
        if args.contains(",has_journal") {
            // The journal is not empty now, as after a crash.
            let report = check_bytes(fs::read(&image).unwrap(), 1);
            assert!(report.is_clean(), "{args}:\n{}", lines(&report));
        }
        fs.close().unwrap();
        let report = check_file(&image);
        assert!(report.is_clean(), "{args}:\n{}", lines(&report));
        e2fsck(&image);
    }
}

/// Damage that e2fsck does not report, with the reason.
const STRICTER: &[(FindingKind, &str)] = &[
    // The kernel refuses such a block.
    (FindingKind::ExtentTree, "eh_depth"),
    // e2fsck compares the first quarter of the entries.
    (FindingKind::ResizeInode, "entry"),
    // The kernel refuses such an inode.
    (FindingKind::InlineData, ""),
    // e2fsck replaces a block bitmap with a wrong checksum, and says nothing.
    (FindingKind::BitmapChecksum, "block bitmap"),
    (FindingKind::BlockBitmap, "block bitmap"),
];

/// Output of e2fsck about damage that is not reported here, with the reason.
const LAXER: [&str; 1] = [
    // The time of the last mount or write does not matter.
    "is in the future",
];

fn is_only_stricter(report: &CheckReport) -> bool {
    report.findings.iter().all(|finding| {
        let known = |(kind, text): &(FindingKind, &str)| {
            finding.kind == *kind && finding.detail.contains(text)
        };
        STRICTER.iter().any(known)
    })
}

#[test]
fn random_damage_is_judged_as_by_e2fsck() {
    /// The maximum duration of a check, in a debug build on a busy machine.
    const TIME_MAX: Duration = Duration::from_secs(20);
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let kinds = [
        "-t ext4 -b 1024 -O ^metadata_csum,^metadata_csum_seed,^64bit -N 1000",
        "-t ext2 -b 1024 -N 1000",
        "-t ext4 -b 1024 -N 1000",
        "-t ext4 -b 2048 -I 256 -O ^metadata_csum,^metadata_csum_seed,bigalloc,inline_data -N 1000",
    ];
    let mut random = Random(cases("DISKFS_CHECK_SEED", 4711));
    let count = cases("DISKFS_CHECKS", 6);
    let damaged = dir.path().join("damaged");
    let mut disagreements = Vec::new();
    for args in kinds {
        let image = make(dir.path(), args);
        let bytes = fs::read(&image).unwrap();
        let used: Vec<usize> = bytes
            .iter()
            .enumerate()
            .filter(|(at, byte)| **byte != 0 && *at < 600 << 10)
            .map(|(at, _)| at)
            .collect();
        for _ in 0..count {
            let mut changed = bytes.clone();
            let mut what = Vec::new();
            for _ in 0..=random.below(3) {
                let at = used[random.below(used.len())] + random.below(4);
                changed[at] = u8::try_from(random.below(256)).unwrap();
                what.push((at, bytes[at], changed[at]));
            }
            fs::write(&damaged, &changed).unwrap();
            let start = Instant::now();
            let report = check_bytes(changed, 1);
            assert!(start.elapsed() < TIME_MAX, "{args} {what:?}");
            let (finds, text) = e2fsck_verdict(&damaged);
            let is_known = if finds {
                LAXER.iter().any(|known| text.contains(known))
            } else {
                is_only_stricter(&report)
            };
            if finds == report.is_clean() && !is_known {
                let ours = lines(&report);
                disagreements.push(format!("{args} {what:?}\n{ours}\ne2fsck: {text}"));
            }
        }
    }
    assert!(
        disagreements.is_empty(),
        "{}",
        disagreements.join("\n---\n")
    );
}
