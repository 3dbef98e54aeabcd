//! Growing filesystems of mke2fs, judged by e2fsck, dumpe2fs and the kernel's mount, and compared
//! with resize2fs.

mod common;

use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use common::populated::listing;
use common::resized::{e2fsck_finds_nothing, field, set_len};
use common::{Mounted, Random, make_tree, run};
use diskfs_block::{BlockRead, BlockWrite, Faulty, File, Memory};
use diskfs_ext4::{NewSpace, ResizeOptions, Resized, resize};
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind, Result};

const MIB: u64 = 1 << 20;

/// The forms of filesystems, as arguments of mke2fs. The number is the size of a block group in
/// MiB, rounded up.
const FORMS: &[(&str, u64)] = &[
    ("-t ext4 -b 4096", 128),
    ("-t ext4 -b 1024", 8),
    ("-t ext4 -b 2048 -g 4096", 8),
    ("-t ext4 -b 4096 -g 1024 -G 8", 4),
    ("-t ext4 -b 4096 -g 1024 -O ^resize_inode", 4),
    ("-t ext4 -b 1024 -g 512 -O ^resize_inode,meta_bg", 1),
    (
        "-t ext4 -b 1024 -g 512 -O ^resize_inode,meta_bg,^flex_bg,^64bit",
        1,
    ),
    ("-t ext4 -b 1024 -g 512 -O ^resize_inode", 1),
    ("-t ext4 -b 1024 -g 512 -O ^64bit -E resize=100000", 1),
    ("-t ext4 -b 1024 -g 1024 -O ^metadata_csum,uninit_bg", 1),
    ("-t ext4 -b 1024 -g 1024 -O ^flex_bg", 1),
    ("-t ext4 -b 4096 -g 1024 -O sparse_super2", 4),
    ("-t ext4 -b 4096 -g 1024 -O sparse_super2,^resize_inode", 4),
    ("-t ext4 -b 4096 -O bigalloc -C 16384 -g 4096", 64),
    ("-t ext4 -b 1024 -O bigalloc -C 8192 -g 1024", 8),
    (
        "-t ext4 -b 1024 -O bigalloc,^resize_inode -C 8192 -g 512",
        4,
    ),
    ("-t ext4 -b 1024 -g 1024 -i 1024", 1),
    ("-t ext4 -b 1024 -g 2048 -I 128 -O ^has_journal", 2),
    ("-t ext3 -b 1024 -g 1024", 1),
    ("-t ext3 -b 4096 -g 2048 -O ^sparse_super,^resize_inode", 8),
    ("-t ext2 -b 1024 -g 512", 1),
    ("-t ext2 -b 4096", 128),
    ("-t ext2 -b 1024 -g 1024 -O ^resize_inode", 1),
    (
        "-t ext4 -b 2048 -g 1024 -O metadata_csum_seed,fast_commit,large_dir",
        2,
    ),
    (
        "-t ext4 -b 1024 -g 1024 -i 1024 -I 512 -O meta_bg,^resize_inode",
        1,
    ),
    (
        "-t ext4 -b 1024 -g 512 -O orphan_file,inline_data,casefold",
        1,
    ),
];

/// A file that is not flushed, to save time.
#[derive(Debug)]
struct Unflushed(File);

impl BlockRead for Unflushed {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> diskfs_block::Result<()> {
        self.0.read_at(offset, buf)
    }
}

impl BlockWrite for Unflushed {
    fn write_at(&self, offset: u64, buf: &[u8]) -> diskfs_block::Result<()> {
        self.0.write_at(offset, buf)
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> diskfs_block::Result<()> {
        self.0.write_zeroes(offset, len_bytes)
    }

    fn flush(&self) -> diskfs_block::Result<()> {
        Ok(())
    }
}

/// Grows a filesystem without a callback.
fn try_grow(image: &Path, options: &ResizeOptions) -> Result<Resized> {
    let file = File::open_read_write(image).unwrap();
    let device: Arc<dyn BlockWrite> = Arc::new(Unflushed(file));
    resize(&device, options, &mut |_| ControlFlow::Continue(()))
}

fn path(image: &Path) -> &str {
    image.to_str().unwrap()
}

/// Fills the space after the filesystem with bytes that look like nothing.
fn lengthen(image: &Path, len: u64, space: NewSpace) {
    let old = image.metadata().unwrap().len();
    if space == NewSpace::Zeroes {
        return set_len(image, len);
    }
    let mut file = fs::OpenOptions::new().append(true).open(image).unwrap();
    let piece = vec![0xa7; 1 << 20];
    let mut left = len - old;
    while left > 0 {
        let n = left.min(1 << 20);
        file.write_all(&piece[..usize::try_from(n).unwrap()])
            .unwrap();
        left -= n;
    }
}

/// Compares the result with that of resize2fs, where both have the same layout.
fn compare(ours: &Path, theirs: &Path, old_bytes: u64, what: &str) {
    let len = ours.metadata().unwrap().len();
    set_len(theirs, len);
    let output = diskfs_fixtures::command("resize2fs")
        .arg("-f")
        .arg(theirs)
        .output();
    let output = output.unwrap();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        panic!("{what}: resize2fs from {old_bytes}: {error}");
    }
    for name in ["Block count", "Inode count", "Reserved block count"] {
        let (ours, theirs) = (field(ours, name), field(theirs, name));
        // resize2fs computes the reserve with floating point numbers.
        assert!(
            ours.abs_diff(theirs) <= 1,
            "{what}: {name}: {ours}, {theirs}"
        );
    }
}

/// Grows one random filesystem twice.
fn case(random: &mut Random, form: (&str, u64)) {
    let (args, group_mib) = form;
    let below = |random: &mut Random, limit: u64| {
        u64::try_from(random.below(usize::try_from(limit).unwrap())).unwrap()
    };
    let dir = common::fast_dir();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    make_tree(&tree, 60);
    let groups = 1 + below(random, if group_mib > 8 { 5 } else { 20 });
    let old = (9 * MIB).max(groups * group_mib * MIB + below(random, group_mib << 10) * 1024);
    let image = common::mke2fs(dir.path(), &tree, &format!("{}k", old >> 10), args);
    let before = listing(&image);
    assert!(before.len() > 60);
    let theirs = dir.path().join("theirs");
    let space = if random.below(2) == 0 && group_mib < 64 {
        NewSpace::Unknown
    } else {
        NewSpace::Zeroes
    };
    let mut len = old;
    for nth in 0..2 {
        run("cp", &["--sparse=always", path(&image), path(&theirs)]);
        let image_bytes = field(&image, "Block count:") * field(&image, "Block size:");
        let factor = [1, 3, 20, 120][random.below(4)];
        let more = (group_mib * factor).min(group_mib.max(60) * 2);
        len += below(random, more << 10) * 1024;
        // resize2fs rounds sizes to pages.
        if random.below(3) > 0 {
            len = len.next_multiple_of(4096);
        }
        lengthen(&image, len, space);
        let what = format!(
            "mke2fs {args} {}k, {nth}: to {}k, {space:?}",
            old >> 10,
            len >> 10
        );
        let options = ResizeOptions {
            new_space: space,
            ..ResizeOptions::default()
        };
        let resized = match try_grow(&image, &options) {
            Ok(resized) => resized,
            Err(e) => {
                // There is no room for the record of the change.
                let small = len - image_bytes < 3 * group_mib * MIB;
                assert!(e.kind() == ErrorKind::NoSpace && small, "{what}: {e}");
                e2fsck_finds_nothing(&image, &what);
                continue;
            }
        };
        assert!(resized.new_bytes >= resized.old_bytes, "{what}");
        e2fsck_finds_nothing(&image, &what);
        assert_eq!(listing(&image), before, "{what}");
        let block_bytes = field(&image, "Block size:");
        assert_eq!(
            field(&image, "Block count:") * block_bytes,
            resized.new_bytes
        );
        let moves = args.contains("^resize_inode");
        if !moves && len.is_multiple_of(4096) {
            compare(&image, &theirs, resized.old_bytes, &what);
        }
        write_again(&image, &what, nth);
        let again = try_grow(&image, &options).unwrap();
        assert_eq!(again.new_bytes, resized.new_bytes, "{what}");
        assert_eq!(again.old_bytes, resized.new_bytes, "{what}");
    }
}

/// Lets the kernel use grown filesystems until the new groups are full.
#[test]
fn the_kernel_writes_to_grown_filesystems() {
    if !have(&["mke2fs", "e2fsck", "dumpe2fs"]) {
        return;
    }
    for args in [
        "-t ext4 -b 1024 -g 512 -E resize=13000 -O ^64bit",
        "-t ext4 -b 4096 -g 1024 -G 4",
        "-t ext4 -b 1024 -O bigalloc -C 8192 -g 2048",
        "-t ext3 -b 1024 -g 1024",
        "-t ext2 -b 1024 -g 1024 -O ^resize_inode",
    ] {
        let dir = common::fast_dir();
        let image = common::mke2fs_empty(dir.path(), args, "9M");
        for (nth, len) in [20 * MIB, 45 * MIB].into_iter().enumerate() {
            lengthen(&image, len, NewSpace::Unknown);
            try_grow(&image, &ResizeOptions::default()).unwrap();
            let name = "the_kernel_writes_to_grown_filesystems";
            let Some(mounted) = Mounted::new(name, &image) else {
                return;
            };
            fill(mounted.path(), nth);
            drop(mounted);
            e2fsck_finds_nothing(&image, args);
        }
    }
}

/// Creates directories and files until the filesystem is full, and deletes some of them.
fn fill(root: &Path, round: usize) {
    let contents = vec![b'x'; 100_000];
    for n in 0.. {
        let dir = root.join(format!("{round}-{n}"));
        if fs::create_dir(&dir).is_err() {
            break;
        }
        let names = ["a", "b", "c"].map(|name| dir.join(name));
        if names.iter().any(|name| fs::write(name, &contents).is_err()) {
            break;
        }
        if n % 3 == 0 {
            fs::remove_file(&names[0]).unwrap();
        }
    }
}

/// Creates files with this driver, and deletes them. The allocator compares all bitmaps that it
/// uses with their descriptors.
fn write_again(image: &Path, what: &str, round: usize) {
    let fs = common::open_for_writing(image);
    let attributes = NewAttributes::for_root(0o755);
    for n in 0..12 {
        let name = format!("again-{round}-{n}");
        let dir = fs.create(fs.root(), name.as_bytes(), NewKind::Directory, &attributes);
        let Ok(dir) = dir else { break };
        let file = fs.create(dir, b"file", NewKind::Regular, &attributes);
        let Ok(file) = file else { break };
        let written = fs.write_at(file, 0, &vec![1; 50_000]);
        if written.is_err() {
            break;
        }
        fs.unlink(dir, b"file").unwrap();
        fs.rmdir(fs.root(), name.as_bytes()).unwrap();
    }
    fs.close().unwrap();
    drop(fs);
    e2fsck_finds_nothing(image, what);
}

/// Checks that a filesystem that must be repaired is refused.
#[test]
fn what_needs_a_repair_is_refused() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let dir = common::fast_dir();
    for (args, state, message) in [
        ("-t ext2", "0", "was not unmounted cleanly"),
        ("-t ext2", "3", "is marked as having errors"),
        ("-t ext4", "3", "is marked as having errors"),
    ] {
        let image = common::mke2fs_empty(dir.path(), args, "9M");
        common::debugfs(&image, &[&format!("ssv state {state}")]);
        set_len(&image, 20 * MIB);
        let before = fs::read(&image).unwrap();
        let e = try_grow(&image, &ResizeOptions::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{args} {state}");
        assert!(e.to_string().contains(message), "{e}");
        assert!(fs::read(&image).unwrap() == before);
    }
}

#[test]
fn random_sizes() {
    if !have(&["mke2fs", "e2fsck", "dumpe2fs", "resize2fs"]) {
        return;
    }
    let cases = std::env::var("DISKFS_RESIZES").map_or(FORMS.len(), |n| n.parse().unwrap());
    let mut random = Random(0x5eed_0023);
    for nth in 0..cases {
        case(&mut random, FORMS[nth % FORMS.len()]);
    }
}

/// Checks that a damaged filesystem leads to an error or a result, never to a panic.
#[test]
fn damage_is_no_panic() {
    if !have(&["mke2fs"]) {
        return;
    }
    let cases = std::env::var("DISKFS_RESIZES").map_or(300, |n| n.parse().unwrap());
    let mut random = Random(0x5eed_0024);
    for args in [
        "-t ext4 -b 1024 -g 512 -O ^metadata_csum",
        "-t ext2 -b 1024 -g 512",
        "-t ext4 -b 1024 -g 512 -O ^metadata_csum,^resize_inode,meta_bg",
    ] {
        let dir = common::fast_dir();
        let image = common::mke2fs_empty(dir.path(), args, "6M");
        let mut bytes = fs::read(&image).unwrap();
        bytes.resize(8 << 20, 0);
        let mut grown = 0;
        for _ in 0..cases {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(3) {
                // The superblock and the first descriptors.
                let at = 1024 + random.below(3 * 1024);
                damaged[at] = u8::try_from(random.below(256)).unwrap();
            }
            let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(damaged));
            let options = ResizeOptions::default();
            let resized = resize(&device, &options, &mut |_| ControlFlow::Continue(()));
            grown += usize::from(resized.is_ok());
        }
        assert!(grown > 0, "{args}");
    }
}

/// Checks the sizes that are refused, before anything is written.
#[test]
fn impossible_sizes_are_refused() {
    if !have(&["mke2fs"]) {
        return;
    }
    let dir = common::fast_dir();
    let image = common::mke2fs_empty(dir.path(), "-t ext4 -b 1024", "9M");
    set_len(&image, 20 * MIB);
    let before = fs::read(&image).unwrap();
    for (size_bytes, message) in [
        (30 * MIB, "its device has 20971520 bytes"),
        (5 * MIB, "cannot shrink"),
    ] {
        let options = ResizeOptions {
            size_bytes: Some(size_bytes),
            ..ResizeOptions::default()
        };
        let e = try_grow(&image, &options).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid);
        assert!(e.to_string().contains(message), "{e}");
    }
    let device: Arc<dyn BlockWrite> = Arc::new(File::open_read_write(&image).unwrap());
    let stopped = resize(&device, &ResizeOptions::default(), &mut |_| {
        ControlFlow::Break(())
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    let after = fs::read(&image).unwrap();
    assert_eq!(after[..9 << 20], before[..9 << 20]);
    // Without a larger size nothing is written.
    let bytes = fs::read(&image).unwrap()[..9 << 20].to_vec();
    let faulty = Arc::new(Faulty::new(Arc::new(Memory::new(bytes)), []));
    let device: Arc<dyn BlockWrite> = faulty.clone();
    let resized = resize(&device, &ResizeOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    });
    assert_eq!(resized.unwrap().new_bytes, 9 * MIB);
    assert_eq!(faulty.logged(), 0);
    // A filesystem without 64bit ends at 2^32 blocks.
    let image = common::mke2fs_empty(dir.path(), "-t ext2 -b 1024 -O ^resize_inode", "9M");
    set_len(&image, 5 << 40);
    let e = try_grow(&image, &ResizeOptions::default()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("at most 4294967295"), "{e}");
}
