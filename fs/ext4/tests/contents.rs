//! Files that are written, truncated, allocated and moved at random, compared with a model in
//! memory. Afterwards e2fsck finds nothing to repair, and the kernel's mount shows the same.

#![allow(clippy::print_stderr, reason = "a test that skips says why")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{mke2fs, open};
use diskfs_block::File;
use diskfs_ext4::{WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::{
    ErrorKind, Fallocate, FsRead, FsWrite, InodeNumber, SetMetadata, SetTime, SyncFile, Timestamp,
};

/// Filesystems with different features: a name, the arguments of mke2fs, the size.
const MATRIX: [(&str, &str, &str); 12] = [
    ("default", "-t ext4", "64M"),
    ("blocks of 1 KiB: deep trees", "-t ext4 -b 1024", "48M"),
    ("blocks of 2 KiB", "-t ext4 -b 2048", "48M"),
    ("blocks of 64 KiB", "-t ext4 -b 65536", "256M"),
    ("no journal", "-t ext4 -b 1024 -O ^has_journal", "48M"),
    (
        "no checksums, 32 bit",
        "-t ext4 -b 1024 -O ^metadata_csum,^64bit",
        "48M",
    ),
    ("bigalloc", "-t ext4 -O bigalloc -C 16384", "96M"),
    (
        "bigalloc with 1 KiB",
        "-t ext4 -b 1024 -O bigalloc -C 8192",
        "64M",
    ),
    ("ext3: block maps", "-t ext3 -b 1024", "48M"),
    ("ext2: block maps", "-t ext2", "64M"),
    ("inodes of 128 bytes", "-t ext4 -I 128 -b 1024", "48M"),
    ("small groups", "-t ext4 -b 1024 -g 1024", "48M"),
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// Returns a number below `end`: often a small one, seldom a large one.
    fn skewed(&mut self, end: u64) -> u64 {
        let bits = self.below(64 - u64::from(end.leading_zeros()) + 1);
        self.below((1 << bits).min(end))
    }
}

/// Creates a filesystem with empty files in its root, named by number.
fn image(dir: &Path, args: &str, size: &str, files: usize) -> PathBuf {
    let tree = dir.join("tree");
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir_all(&tree).unwrap();
    for n in 0..files {
        fs::write(tree.join(n.to_string()), "").unwrap();
    }
    mke2fs(dir, &tree, size, args)
}

fn open_for_writing(image: &Path) -> WritableExt4 {
    let device = Arc::new(File::open_read_write(image).unwrap());
    let options = WriteOptions {
        commit_interval: Some(Duration::from_millis(20)),
        ..WriteOptions::default()
    };
    WritableExt4::open(device, &options).unwrap()
}

/// Fails if e2fsck finds something to repair; returns its output.
fn e2fsck(what: &str, image: &Path) -> String {
    let output = diskfs_fixtures::command("e2fsck")
        .args(["-f", "-n", image.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{what}: {said}");
    said
}

fn read(fs: &dyn FsRead, inode: InodeNumber) -> Vec<u8> {
    let size = fs.metadata(inode).unwrap().size_bytes;
    let mut bytes = vec![0; usize::try_from(size).unwrap()];
    assert_eq!(fs.read_at(inode, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn usize_of(n: u64) -> usize {
    usize::try_from(n).unwrap()
}

/// A file and its expected contents.
struct Subject<'a> {
    fs: &'a WritableExt4,
    inode: InodeNumber,
    model: Vec<u8>,
    random: &'a mut Random,
    size_max: u64,
    /// The unit of collapsed and inserted ranges.
    unit: u64,
    has_extents: bool,
    /// True if the filesystem may be full.
    tight: bool,
}

impl Subject<'_> {
    fn step(&mut self) -> String {
        let offset = self.random.below(self.size_max);
        let len = self.random.skewed((self.size_max - offset).min(300_000)) + 1;
        let len = len.min(self.size_max - offset);
        match self.random.below(22) {
            0..=7 => self.write(offset, len),
            8 | 9 => {
                // After the end, or directly at it.
                let end = self.model.len() as u64;
                let len = len.min(self.size_max.saturating_sub(end));
                self.write(end, len)
            }
            10 | 11 => self.set_len(),
            12 | 13 => self.fallocate(offset, len, Fallocate::Allocate),
            14 => self.fallocate(offset, len, Fallocate::AllocateKeepSize),
            15 | 16 => self.fallocate(offset, len, Fallocate::PunchHole),
            17 => self.fallocate(offset, len, Fallocate::ZeroRange),
            18 => self.fallocate(offset, len, Fallocate::ZeroRangeKeepSize),
            19 => self.shift(Fallocate::CollapseRange),
            20 => self.shift(Fallocate::InsertRange),
            _ => self.check(),
        }
    }

    fn write(&mut self, offset: u64, len: u64) -> String {
        let seed = self.random.next();
        let data: Vec<u8> = (0..len)
            .map(|n| (seed ^ n ^ (n >> 8)).to_le_bytes()[0] | 1)
            .collect();
        let done = match self.fs.write_at(self.inode, offset, &data) {
            Ok(done) => done,
            Err(e) if self.tight && e.kind() == ErrorKind::NoSpace => 0,
            Err(e) => panic!("write {len} at {offset}: {e}"),
        };
        assert!(self.tight || done == data.len());
        if done > 0 {
            let end = usize_of(offset) + done;
            if self.model.len() < end {
                self.model.resize(end, 0);
            }
            self.model[usize_of(offset)..end].copy_from_slice(&data[..done]);
        }
        format!("write {len} at {offset}: {done}")
    }

    fn set_len(&mut self) -> String {
        let size = match self.random.below(3) {
            0 => self.random.skewed(self.size_max),
            1 => self.model.len() as u64 / 2 + self.random.skewed(self.size_max / 2),
            _ => self.random.below(self.size_max),
        };
        self.fs.set_len(self.inode, size).unwrap();
        self.model.resize(usize_of(size), 0);
        format!("set_len {size}")
    }

    fn fallocate(&mut self, offset: u64, len: u64, what: Fallocate) -> String {
        let said = format!("{what:?} {len} at {offset}");
        let result = self.fs.fallocate(self.inode, offset, len, what);
        let (start, end) = (usize_of(offset), usize_of(offset + len));
        match result {
            Ok(()) => {}
            Err(e) if !self.has_extents && e.kind() == ErrorKind::Unsupported => return said,
            Err(e) if self.tight && e.kind() == ErrorKind::NoSpace => {
                // Any part of the range may be done; the file shows which.
                let now = read(self.fs, self.inode);
                assert_eq!(now.len(), self.model.len(), "{said}");
                for (nth, (now, old)) in now.iter().zip(&self.model).enumerate() {
                    let zeroed = *now == 0 && (start..end).contains(&nth);
                    let zeroes = !matches!(what, Fallocate::Allocate | Fallocate::AllocateKeepSize);
                    assert!(now == old || (zeroed && zeroes), "{said}: byte {nth}");
                }
                self.model = now;
                return said + ": full";
            }
            Err(e) => panic!("{said}: {e}"),
        }
        if matches!(what, Fallocate::Allocate | Fallocate::ZeroRange) && self.model.len() < end {
            self.model.resize(end, 0);
        }
        if !matches!(what, Fallocate::Allocate | Fallocate::AllocateKeepSize) {
            let end = end.min(self.model.len());
            self.model[start.min(end)..end].fill(0);
        }
        said
    }

    fn shift(&mut self, what: Fallocate) -> String {
        let size = self.model.len() as u64;
        if !self.has_extents || size < 4 * self.unit {
            return String::new();
        }
        let start = self.random.below(size / self.unit - 2) * self.unit;
        let room = if what == Fallocate::CollapseRange {
            size - 1 - start
        } else {
            (self.size_max - size).min(300_000)
        };
        let len = self.random.skewed(room / self.unit + 1) * self.unit;
        if len == 0 {
            return String::new();
        }
        let said = format!("{what:?} {len} at {start}, size {size}");
        match self.fs.fallocate(self.inode, start, len, what) {
            Ok(()) => {}
            Err(e) if self.tight && e.kind() == ErrorKind::NoSpace => return said + ": full",
            Err(e) => panic!("{said}: {e}"),
        }
        let start = usize_of(start);
        if what == Fallocate::CollapseRange {
            self.model.drain(start..start + usize_of(len));
        } else {
            let zeroes = vec![0; usize_of(len)];
            self.model.splice(start..start, zeroes);
        }
        said
    }

    fn check(&mut self) -> String {
        let start = self.random.below(self.model.len() as u64 + 1);
        let len = self.random.skewed(200_000);
        let mut bytes = vec![7; usize_of(len)];
        let done = self.fs.read_at(self.inode, start, &mut bytes).unwrap();
        let start = usize_of(start);
        assert_eq!(done, (self.model.len() - start).min(bytes.len()));
        assert!(
            bytes[..done] == self.model[start..start + done],
            "at {start}"
        );
        format!("read {len} at {start}")
    }
}

fn first_difference(a: &[u8], b: &[u8]) -> String {
    let at = a.iter().zip(b).position(|(a, b)| a != b);
    format!(
        "lengths {} and {}, first difference {at:?}",
        a.len(),
        b.len()
    )
}

/// Returns the number of operations for a set of features; `DISKFS_FSX_OPS` sets another number.
fn operations() -> usize {
    let set = std::env::var("DISKFS_FSX_OPS").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(240)
}

fn seed() -> u64 {
    let set = std::env::var("DISKFS_SEED").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(1)
}

fn exercise(what: &str, args: &str, size: &str, size_max: u64, tight: bool) {
    let dir = tempfile::tempdir().unwrap();
    let image = image(dir.path(), args, size, 3);
    let mut random = Random(seed());
    let mut log = Vec::new();
    let mut models: Vec<Vec<u8>> = vec![Vec::new(); 3];
    for round in 0..4 {
        let fs = open_for_writing(&image);
        let block = u64::from(fs.metadata(fs.root()).unwrap().block_size);
        let cluster = args.split_once("-C ").map_or(block, |(_, size)| {
            size.split(' ').next().unwrap().parse().unwrap()
        });
        for nth in 0..operations() / 4 {
            let file = usize_of(random.below(3));
            let inode = fs.lookup(fs.root(), file.to_string().as_bytes()).unwrap();
            let mut subject = Subject {
                fs: &fs,
                inode,
                model: std::mem::take(&mut models[file]),
                random: &mut random,
                size_max,
                unit: cluster,
                has_extents: !args.contains("ext3") && !args.contains("ext2"),
                tight,
            };
            let said = subject.step();
            log.push(format!("{file}: {said}"));
            models[file] = subject.model;
            if nth % 16 == 0 {
                let now = read(&fs, inode);
                let last = &log[log.len().saturating_sub(17)..];
                assert!(
                    now == models[file],
                    "{what}, round {round}: {} after {last:#?}",
                    first_difference(&now, &models[file])
                );
            }
        }
        fs.close().unwrap();
        drop(fs);
        let said = e2fsck(what, &image);
        // Nor does it have a tree that could be smaller.
        assert!(!said.contains("could be"), "{what}: {said}");
        let reader = open(&image);
        for (file, model) in models.iter().enumerate() {
            let name = file.to_string();
            let inode = reader.lookup(reader.root(), name.as_bytes()).unwrap();
            let now = read(&reader, inode);
            assert!(now == *model, "{what}: {}", first_difference(&now, model));
        }
    }
    compare_with_kernel(what, dir.path(), &image, &models);
}

/// Checks that the kernel's mount of the image has these files. Skipped without root.
fn compare_with_kernel(what: &str, dir: &Path, image: &Path, models: &[Vec<u8>]) {
    let mount = dir.join("mount");
    fs::create_dir_all(&mount).unwrap();
    let mounted = Command::new("mount")
        .args([
            "-o",
            "loop,ro",
            image.to_str().unwrap(),
            mount.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    if !mounted.status.success() {
        eprintln!("SKIP: {what}: {}", String::from_utf8_lossy(&mounted.stderr));
        return;
    }
    let read: Vec<_> = (0..models.len())
        .map(|file| fs::read(mount.join(file.to_string())))
        .collect();
    diskfs_fixtures::unmount(&mount).unwrap();
    for (read, model) in read.into_iter().zip(models) {
        let read = read.unwrap();
        assert!(read == *model, "{what}: {}", first_difference(&read, model));
    }
}

#[test]
fn contents_follow_a_model() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    for (what, args, size) in MATRIX {
        exercise(what, args, size, 3 << 20, false);
    }
}

#[test]
fn a_full_filesystem_stays_whole() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    for (what, args, size) in [
        ("extents", "-t ext4 -b 1024 -m 0 -O ^has_journal", "4M"),
        (
            "with a reserve",
            "-t ext4 -b 1024 -m 5 -O ^has_journal",
            "4M",
        ),
        ("a block map", "-t ext2 -b 1024 -m 0", "4M"),
        (
            "bigalloc",
            "-t ext4 -b 1024 -O bigalloc,^has_journal -C 4096 -m 0",
            "6M",
        ),
    ] {
        exercise(what, args, size, 4 << 20, true);
    }
}

/// Returns the number of extents; `DISKFS_EXTENTS` sets another number (a million needs an image of
/// 3 GiB).
fn extents() -> u64 {
    let set = std::env::var("DISKFS_EXTENTS").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(20_000)
}

/// Writes every other block of a file in random order: leaves are split everywhere, and with 20,000
/// extents in blocks of 1 KiB the tree has three levels. The journal is so small that truncating
/// and moving take several transactions.
#[test]
fn a_file_of_many_extents() {
    const BLOCK: u64 = 1024;
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let (what, count) = ("many extents", extents());
    let dir = tempfile::tempdir().unwrap();
    let size = format!("{}M", 64 + count * 5 / 2 / 1024);
    let image = image(dir.path(), "-t ext4 -b 1024 -J size=1", &size, 1);
    let mut model = vec![0; usize_of(count * 2 * BLOCK)];
    let mut random = Random(seed());
    let mut order: Vec<u64> = (0..count).collect();
    for nth in 1..order.len() {
        order.swap(nth, usize_of(random.below(nth as u64 + 1)));
    }
    let fs = open_for_writing(&image);
    let file = fs.lookup(fs.root(), b"0").unwrap();
    fs.set_len(file, count * 2 * BLOCK).unwrap();
    for nth in order {
        let data = vec![nth.to_le_bytes()[0] | 1; usize_of(BLOCK)];
        let offset = nth * 2 * BLOCK;
        assert_eq!(fs.write_at(file, offset, &data).unwrap(), data.len());
        model[usize_of(offset)..][..data.len()].copy_from_slice(&data);
    }
    assert!(read(&fs, file) == model);
    let (start, len) = (count / 3 * 2 * BLOCK, count / 8 * 2 * BLOCK);
    let range = usize_of(start)..usize_of(start + len);
    fs.fallocate(file, start, len, Fallocate::CollapseRange)
        .unwrap();
    model.drain(range.clone());
    fs.fallocate(file, start + BLOCK, len, Fallocate::InsertRange)
        .unwrap();
    let at = range.start + usize_of(BLOCK);
    model.splice(at..at, vec![0; range.len()]);
    fs.fallocate(file, start / 2, len, Fallocate::ZeroRange)
        .unwrap();
    model[usize_of(start / 2)..usize_of(start / 2 + len)].fill(0);
    fs.fallocate(file, 4096, len, Fallocate::PunchHole).unwrap();
    model[4096..usize_of(4096 + len)].fill(0);
    assert!(read(&fs, file) == model);
    fs.close().unwrap();
    drop(fs);
    e2fsck(what, &image);
    compare_with_kernel(what, dir.path(), &image, std::slice::from_ref(&model));
    let fs = open_for_writing(&image);
    fs.set_len(file, 5000).unwrap();
    model.truncate(5000);
    assert!(read(&fs, file) == model);
    fs.close().unwrap();
    drop(fs);
    e2fsck(what, &image);
    compare_with_kernel(what, dir.path(), &image, &[model]);
}

/// Checks contents that have no blocks yet: times and sizes are reported as they will be, and a
/// file that is soon deleted has cost nothing.
#[test]
fn what_is_kept_in_memory_is_reported() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = image(dir.path(), "-t ext4 -b 4096", "32M", 2);
    let device = Arc::new(File::open_read_write(&image).unwrap());
    let options = WriteOptions {
        commit_interval: None,
        ..WriteOptions::default()
    };
    let fs = WritableExt4::open(device, &options).unwrap();
    let file = fs.lookup(fs.root(), b"0").unwrap();
    let free = fs.statistics().unwrap().blocks_free;
    for nth in 0..100 {
        assert_eq!(fs.write_at(file, nth * 50, &[5; 50]).unwrap(), 50);
    }
    let kept = fs.metadata(file).unwrap();
    assert_eq!(kept.size_bytes, 5000);
    assert!(kept.allocated_bytes >= 8192);
    assert!(fs.statistics().unwrap().blocks_free < free);
    fs.sync().unwrap();
    let synced = fs.metadata(file).unwrap();
    assert_eq!(
        (synced.modified, synced.changed),
        (kept.modified, kept.changed)
    );
    assert_eq!(fs.statistics().unwrap().blocks_free, free - 2);
    // A time that was set stays the same, whenever the contents are written back.
    fs.write_at(file, 5000, b"more").unwrap();
    let time = Timestamp {
        seconds: 1_000_000_000,
        nanoseconds: 5,
    };
    let change = SetMetadata {
        modified: Some(SetTime::At(time)),
        ..SetMetadata::default()
    };
    fs.set_metadata(file, &change).unwrap();
    assert_eq!(fs.metadata(file).unwrap().modified, time);
    fs.sync_file(file, SyncFile::All).unwrap();
    assert_eq!(fs.metadata(file).unwrap().modified, time);
    assert_eq!(fs.metadata(file).unwrap().size_bytes, 5004);
    let other = fs.lookup(fs.root(), b"1").unwrap();
    fs.write_at(other, 70_000, &vec![6; 60_000]).unwrap();
    assert_eq!(read(&fs, other)[..70_000], vec![0; 70_000]);
    fs.unlink(fs.root(), b"1").unwrap();
    assert_eq!(fs.statistics().unwrap().blocks_free, free - 2);
    fs.close().unwrap();
    drop(fs);
    e2fsck("kept", &image);
}
