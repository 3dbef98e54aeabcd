//! Shrinking filesystems of mke2fs, judged by e2fsck and the kernel's mount, and compared with
//! resize2fs.

#![allow(clippy::print_stderr, reason = "figures are printed on request")]

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use common::populated::{listing, populate, with_late_journal};
use common::resized::{e2fsck_finds_nothing, field, set_len};
use common::{Mounted, Random, make_tree, run};
use diskfs_block::{BlockRead, BlockWrite, Faulty, File, Memory};
use diskfs_ext4::{NewSpace, ResizeOptions, Resized, ShrinkOptions, minimum_size, resize, shrink};
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, Result};

const MIB: u64 = 1 << 20;

/// The forms of filesystems, as arguments of mke2fs, with their size in KiB.
const FORMS: &[(&str, u64)] = &[
    ("-t ext4 -b 1024 -g 1024", 24_000),
    ("-t ext4 -b 4096 -g 1024 -G 4", 70_000),
    ("-t ext4 -b 1024", 40_000),
    ("-t ext4 -b 4096 -g 1024 -O ^resize_inode", 64_000),
    ("-t ext4 -b 1024 -g 512 -O ^resize_inode,meta_bg", 30_000),
    (
        "-t ext4 -b 1024 -g 512 -O ^resize_inode,meta_bg,^flex_bg,^64bit",
        30_000,
    ),
    ("-t ext4 -b 1024 -g 512 -O ^64bit -E resize=100000", 30_000),
    (
        "-t ext4 -b 1024 -g 1024 -O ^metadata_csum,uninit_bg",
        24_000,
    ),
    ("-t ext4 -b 1024 -g 1024 -O ^flex_bg", 24_000),
    ("-t ext4 -b 4096 -g 1024 -O sparse_super2", 60_000),
    (
        "-t ext4 -b 4096 -g 1024 -O sparse_super2,^resize_inode",
        60_000,
    ),
    ("-t ext4 -b 1024 -O bigalloc -C 8192 -g 1024", 90_000),
    (
        "-t ext4 -b 1024 -O bigalloc,^resize_inode -C 4096 -g 1024",
        70_000,
    ),
    ("-t ext4 -b 1024 -g 1024 -i 1024", 24_000),
    ("-t ext4 -b 1024 -g 1024 -I 128 -O ^has_journal", 20_000),
    ("-t ext3 -b 1024 -g 1024", 24_000),
    (
        "-t ext3 -b 4096 -g 1024 -O ^sparse_super,^resize_inode",
        60_000,
    ),
    ("-t ext2 -b 1024 -g 512", 20_000),
    ("-t ext2 -b 4096 -g 1024", 60_000),
    ("-t ext2 -b 1024 -g 1024 -O ^resize_inode", 20_000),
    (
        "-t ext4 -b 2048 -g 1024 -O metadata_csum_seed,fast_commit,large_dir",
        40_000,
    ),
    (
        "-t ext4 -b 1024 -g 1024 -i 1024 -I 512 -O meta_bg,^resize_inode",
        24_000,
    ),
    (
        "-t ext4 -b 1024 -g 512 -O orphan_file,inline_data,casefold",
        24_000,
    ),
    (
        "-t ext4 -b 1024 -g 1024 -O inline_data,^metadata_csum",
        24_000,
    ),
    ("-t ext4 -b 1024 -g 1024 -O ea_inode", 24_000),
    (
        "-t ext4 -b 1024 -g 512 -O ea_inode,inline_data,^metadata_csum -I 256",
        20_000,
    ),
];

fn try_shrink(image: &Path, size_bytes: u64) -> Result<Resized> {
    let device: Arc<dyn BlockWrite> = Arc::new(File::open_read_write(image).unwrap());
    let options = ShrinkOptions::new(size_bytes);
    shrink(&device, &options, &mut |_| ControlFlow::Continue(()))
}

fn minimum(image: &Path) -> u64 {
    let device: Arc<dyn BlockRead> = Arc::new(File::open(image).unwrap());
    minimum_size(&device).unwrap()
}

fn size(image: &Path) -> u64 {
    field(image, "Block count:") * field(image, "Block size:")
}

fn below(random: &mut Random, limit: u64) -> u64 {
    u64::try_from(random.below(usize::try_from(limit).unwrap())).unwrap()
}

/// Returns true for the refusal of a size of a filesystem without a journal.
fn lacks_record(args: &str, error: &diskfs_vfs::Error) -> bool {
    let has_journal =
        args.contains("ext3") || args.contains("ext4") && !args.contains("^has_journal");
    !has_journal
        && error.kind() == ErrorKind::NoSpace
        && error.to_string().contains("choose another size")
}

/// Shrinks one filesystem to a random size and to its minimum, and grows it again.
fn case(random: &mut Random, (args, kib): (&str, u64)) {
    let dir = common::fast_dir();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    make_tree(&tree, 60);
    let kib = kib + below(random, kib / 3);
    let image = common::mke2fs(dir.path(), &tree, &format!("{kib}k"), args);
    let keep_one_in = 2 + random.below(4);
    populate(&image, random, keep_one_in);
    e2fsck_finds_nothing(&image, args);
    let before = listing(&image);
    let old = size(&image);
    let theirs = dir.path().join("theirs");
    let _ = fs::copy(&image, &theirs).unwrap();
    let smallest = minimum(&image);
    assert!(smallest <= old, "{args}: {smallest} of {old}");
    let wanted = smallest + below(random, old - smallest + 1);
    let what = format!("mke2fs {args} {kib}k, to {wanted} bytes of {old}, at least {smallest}");
    for to_minimum in [false, true] {
        // The first time, files become fragmented, which can cost some blocks.
        let wanted = if to_minimum { minimum(&image) } else { wanted };
        assert!(wanted < smallest + MIB || !to_minimum, "{what}: {wanted}");
        let bytes = fs::read(&image).unwrap();
        let resized = match try_shrink(&image, wanted) {
            Ok(resized) => resized,
            // Without a journal, a size may leave no place for a record of the change; the
            // smallest size must have one.
            Err(error) if lacks_record(args, &error) && !to_minimum => {
                assert!(fs::read(&image).unwrap() == bytes, "{what}: changed");
                continue;
            }
            Err(error) => panic!("{what}: {error}"),
        };
        assert!(resized.new_bytes <= wanted, "{what}: {resized:?}");
        assert_eq!(size(&image), resized.new_bytes, "{what}");
        set_len(&image, resized.new_bytes);
        e2fsck_finds_nothing(&image, &what);
        assert!(listing(&image) == before, "{what}");
        let again = try_shrink(&image, resized.new_bytes).unwrap();
        assert_eq!(again.new_bytes, resized.new_bytes, "{what}");
    }
    compare(&theirs, size(&image), &what);
    set_len(&image, old + 3 * MIB);
    let device: Arc<dyn BlockWrite> = Arc::new(File::open_read_write(&image).unwrap());
    let options = ResizeOptions {
        new_space: NewSpace::Zeroes,
        ..ResizeOptions::default()
    };
    resize(&device, &options, &mut |_| ControlFlow::Continue(()))
        .unwrap_or_else(|e| panic!("{what}: growing: {e}"));
    e2fsck_finds_nothing(&image, &what);
    assert!(listing(&image) == before, "{what}");
}

/// Compares the size with the smallest one of resize2fs.
fn compare(theirs: &Path, ours: u64, what: &str) {
    let output = diskfs_fixtures::command("resize2fs")
        .args(["-f", "-M"])
        .arg(theirs)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if std::env::var_os("DISKFS_SHRINKS").is_some() {
        eprintln!(
            "{what}: {ours}, resize2fs: {} {}",
            size(theirs),
            output.status
        );
    }
    if output.status.success() {
        let theirs = size(theirs);
        assert!(
            ours <= theirs + theirs / 4 + 2 * MIB,
            "{what}: {ours}, {theirs}"
        );
    } else {
        assert!(!text.is_empty());
    }
}

/// Shrinks filesystems of some forms; of all forms, and as many as it says, if `DISKFS_SHRINKS` is
/// set.
fn random_sizes(seed: u64, forms: &[(&str, u64)]) {
    if !have(&["mke2fs", "e2fsck", "dumpe2fs", "resize2fs"]) {
        return;
    }
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|n| n.parse::<usize>().unwrap())
    };
    let cases = number("DISKFS_SHRINKS");
    let forms = if cases.is_some() { FORMS } else { forms };
    let first = number("DISKFS_SHRINK_FORM").unwrap_or(0);
    let mut random = Random(seed + u64::try_from(first).unwrap());
    for nth in first..first + cases.unwrap_or(forms.len()) {
        case(&mut random, forms[nth % forms.len()]);
    }
}

#[test]
fn random_sizes_of_the_first_forms() {
    random_sizes(0x5eed_0025, &FORMS[..12]);
}

#[test]
fn random_sizes_of_the_other_forms() {
    random_sizes(0x5eed_1025, &FORMS[12..]);
}

/// Returns everything that the kernel shows of a filesystem: metadata and contents.
fn seen_by_kernel(mounted: &Mounted) -> String {
    let script = "find . -printf '%P %y %m %n %s %T@ %l\\n' | sort; \
                  find . -type f -print0 | sort -z | xargs -0 cksum; \
                  getfattr -R -d -m - . 2>/dev/null || true";
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(mounted.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Lets the kernel read shrunk filesystems, and write to them until they are full.
#[test]
fn the_kernel_uses_shrunk_filesystems() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    for (nth, args) in [
        "-t ext4 -b 1024 -g 1024",
        "-t ext4 -b 4096 -g 1024 -G 4 -O inline_data",
        "-t ext4 -b 1024 -O bigalloc -C 8192 -g 2048",
        "-t ext4 -b 1024 -g 512 -O ^resize_inode,meta_bg",
        "-t ext3 -b 1024 -g 1024",
        "-t ext2 -b 1024 -g 1024",
    ]
    .into_iter()
    .enumerate()
    {
        let dir = common::fast_dir();
        let image = common::mke2fs_empty(dir.path(), args, "40M");
        populate(&image, &mut Random(0x5eed_0027 + nth as u64), 4);
        let name = "the_kernel_uses_shrunk_filesystems";
        let Some(mounted) = Mounted::new(name, &image) else {
            return;
        };
        let before = seen_by_kernel(&mounted);
        drop(mounted);
        let wanted = minimum(&image) + 2 * MIB;
        let resized = try_shrink(&image, wanted).unwrap_or_else(|e| panic!("{args}: {e}"));
        set_len(&image, resized.new_bytes);
        e2fsck_finds_nothing(&image, args);
        let mounted = Mounted::new(name, &image).unwrap();
        assert!(seen_by_kernel(&mounted) == before, "{args}");
        let contents = vec![b'x'; 50_000];
        let full = (0..10_000)
            .find(|n| fs::write(mounted.path().join(format!("new-{n}")), &contents).is_err());
        assert!(full > Some(5), "{args}: {full:?}");
        drop(mounted);
        e2fsck_finds_nothing(&image, args);
    }
}

/// Checks what is refused, and that nothing is written then.
#[test]
fn impossible_sizes_are_refused() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let dir = common::fast_dir();
    let image = common::mke2fs_empty(dir.path(), "-t ext4 -b 1024", "40M");
    let bytes = fs::read(&image).unwrap();
    let attempt = |bytes: &[u8], size_bytes| {
        let faulty = Arc::new(Faulty::new(Arc::new(Memory::new(bytes.to_vec())), []));
        let device: Arc<dyn BlockWrite> = faulty.clone();
        let options = ShrinkOptions::new(size_bytes);
        let result = shrink(&device, &options, &mut |_| ControlFlow::Continue(()));
        assert_eq!(faulty.logged(), 0);
        result
    };
    let e = attempt(&bytes, 60 * MIB).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Invalid);
    assert_eq!(attempt(&bytes, 40 * MIB).unwrap().new_bytes, 40 * MIB);
    let smallest = minimum(&image);
    let e = attempt(&bytes, smallest - MIB).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NoSpace);
    let told = e.next_step().unwrap().to_owned();
    assert!(told.contains(&smallest.to_string()), "{told}");
    assert!(attempt(&bytes, 10_000).is_err());
    // A damaged filesystem: a block in use is marked as free.
    common::debugfs(&image, &["freeb 2000 100"]);
    let e = attempt(&fs::read(&image).unwrap(), 30 * MIB).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
    assert!(e.to_string().contains("damaged"), "{e}");
    let image = common::mke2fs_empty(dir.path(), "-t ext4 -O quota", "40M");
    let e = attempt(&fs::read(&image).unwrap(), 30 * MIB).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
    // Nothing is changed when the caller stops the work at its beginning.
    let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(bytes.clone()));
    let stopped = shrink(&device, &ShrinkOptions::new(30 * MIB), &mut |_| {
        ControlFlow::Break(())
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
}

/// Checks that a journal at the end moves, and is used by the kernel afterwards.
#[test]
fn a_journal_at_the_end_moves() {
    if !have(&["mke2fs", "e2fsck", "debugfs", "tune2fs"]) {
        return;
    }
    for args in [
        "-t ext4 -b 1024 -g 1024",
        "-t ext3 -b 1024 -g 1024",
        "-t ext4 -b 4096 -O bigalloc -C 16384",
    ] {
        let dir = common::fast_dir();
        let image = with_late_journal(dir.path(), args, 60 * MIB, 5);
        populate(&image, &mut Random(0x5eed_0028), 3);
        let blocks = |image: &Path| {
            let text = run("debugfs", &["-R", "blocks <8>", image.to_str().unwrap()]);
            let numbers = text
                .split_whitespace()
                .filter_map(|word| word.parse::<u64>().ok());
            numbers.max().unwrap()
        };
        let last = blocks(&image);
        let wanted = minimum(&image) + MIB;
        let before = listing(&image);
        let resized = try_shrink(&image, wanted).unwrap_or_else(|e| panic!("{args}: {e}"));
        let end = size(&image) / field(&image, "Block size:");
        assert!(blocks(&image) < end && last >= end, "{args}: {last}, {end}");
        set_len(&image, resized.new_bytes);
        e2fsck_finds_nothing(&image, args);
        assert!(listing(&image) == before, "{args}");
        let Some(mounted) = Mounted::new("a_journal_at_the_end_moves", &image) else {
            return;
        };
        fs::write(mounted.path().join("new"), "contents").unwrap();
        drop(mounted);
        e2fsck_finds_nothing(&image, args);
    }
}

/// Checks that a damaged filesystem leads to an error or a result, never to a panic.
#[test]
fn damage_is_no_panic() {
    if !have(&["mke2fs"]) {
        return;
    }
    let cases = std::env::var("DISKFS_SHRINKS").map_or(100, |n| n.parse().unwrap());
    let mut random = Random(0x5eed_0029);
    for args in [
        "-t ext4 -b 1024 -g 512 -O ^metadata_csum",
        "-t ext2 -b 1024 -g 512",
        "-t ext4 -b 1024 -g 512 -O ^metadata_csum,^resize_inode,meta_bg",
    ] {
        let dir = common::fast_dir();
        let image = common::mke2fs_empty(dir.path(), args, "6M");
        let bytes = fs::read(&image).unwrap();
        let mut shrunk = 0;
        for case in 0..cases {
            let mut damaged = bytes.clone();
            // The superblock, descriptors and bitmaps, or also inodes and blocks of which many are
            // unused, so that some damage has no effect.
            let range = if case % 2 == 0 { 120 } else { 2048 } * 1024;
            for _ in 0..=random.below(3) {
                let at = 1024 + random.below(range);
                damaged[at] = u8::try_from(random.below(256)).unwrap();
            }
            let device: Arc<dyn BlockRead> = Arc::new(Memory::new(damaged.clone()));
            let _ = minimum_size(&device);
            let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(damaged));
            let options = ShrinkOptions::new(5 * MIB);
            let result = shrink(&device, &options, &mut |_| ControlFlow::Continue(()));
            shrunk += usize::from(result.is_ok());
        }
        assert!(shrunk > 0, "{args}");
    }
}

/// Checks that a block of the resize inode after the new end moves, and that the files after it
/// move, too.
#[test]
fn a_block_of_the_resize_inode_moves() {
    if !have(&["mke2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = common::fast_dir();
    let args = "-t ext4 -b 1024 -g 1024 -O ^metadata_csum";
    let image = common::mke2fs_empty(dir.path(), args, "24M");
    let text = run("debugfs", &["-R", "stat <7>", image.to_str().unwrap()]);
    let (_, rest) = text.split_once("(DIND):").unwrap();
    let old: usize = rest
        .split([',', '\n'])
        .next()
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let new = 9 * 1024 + 900;
    let mut bytes = fs::read(&image).unwrap();
    bytes.copy_within(old << 10..(old + 1) << 10, new << 10);
    fs::write(&image, bytes).unwrap();
    let moves = [
        format!("sif <7> block[DIND] {new}"),
        format!("setb {new}"),
        format!("freeb {old}"),
    ];
    common::debugfs(&image, &moves.each_ref().map(String::as_str));
    // debugfs does not update the counts of free blocks.
    let repaired = diskfs_fixtures::command("e2fsck")
        .args(["-f", "-y"])
        .arg(&image)
        .output()
        .unwrap();
    assert_eq!(repaired.status.code(), Some(1), "{repaired:?}");
    let text = run("debugfs", &["-R", "stat <7>", image.to_str().unwrap()]);
    assert!(text.contains(&format!("(DIND):{new}")), "{text}");
    populate(&image, &mut Random(0x5eed_002a), 3);
    let before = listing(&image);
    // The block is the first one after the new end.
    let resized = try_shrink(&image, u64::try_from(new << 10).unwrap()).unwrap();
    assert_eq!(resized.new_bytes, u64::try_from(new << 10).unwrap());
    set_len(&image, resized.new_bytes);
    e2fsck_finds_nothing(&image, "shrunk");
    assert!(listing(&image) == before);
}
