//! Compares filesystems that `format` and mke2fs create with the same options.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use diskfs_block::{BlockRead, File};
use diskfs_fixtures::have;

use crate::common::{e2fsck, run};
use crate::options::{HASH_SEED, TIME, UUID, parse};

/// The configuration of mke2fs 1.47.4. Debian 12 leaves out `metadata_csum_seed` and `orphan_file`.
const CONFIGURATION: &str = "
[defaults]
    base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
    default_mntopts = acl,user_xattr
    enable_periodic_fsck = 0
    blocksize = 4096
    inode_size = 256
    inode_ratio = 16384
[fs_types]
    ext3 = {
        features = has_journal
    }
    ext4 = {
        features = has_journal,extent,huge_file,flex_bg,metadata_csum,metadata_csum_seed,64bit,dir_nlink,extra_isize,orphan_file
    }
    small = {
        blocksize = 1024
        inode_ratio = 4096
    }
    floppy = {
        blocksize = 1024
        inode_ratio = 8192
    }
    big = {
        inode_ratio = 32768
    }
    huge = {
        inode_ratio = 65536
    }
    news = {
        inode_ratio = 4096
    }
    largefile = {
        inode_ratio = 1048576
        blocksize = -1
    }
    largefile4 = {
        inode_ratio = 4194304
        blocksize = -1
    }
";

/// The options and the size of each filesystem.
const MATRIX: &[(&str, &str)] = &[
    ("-t ext4", "24M"),
    ("-t ext2", "24M"),
    ("-t ext3", "24M"),
    ("-t ext4", "1440K"),
    ("-t ext4", "2M"),
    ("-t ext4", "3M"),
    ("-t ext4", "511M"),
    ("-t ext4", "600M"),
    ("-t ext4", "5001M"),
    ("-t ext3", "5001M"),
    ("-t ext2", "700M"),
    ("-t ext4 -T news", "20M"),
    ("-t ext4 -T floppy", "200M"),
    ("-t ext4 -b 1024", "300M"),
    ("-t ext4 -b 2048", "300M"),
    ("-t ext4 -b 8192", "300M"),
    ("-t ext4 -b 65536", "300M"),
    ("-t ext4 -b 65536", "900M"),
    ("-t ext4 -I 128", "24M"),
    ("-t ext4 -I 512 -b 1024", "24M"),
    ("-t ext4 -I 4096 -b 4096 -i 16384", "124M"),
    ("-t ext4 -i 1024 -b 1024", "64M"),
    ("-t ext4 -i 65536", "64M"),
    ("-t ext4 -N 12", "64M"),
    ("-t ext4 -N 30000", "64M"),
    ("-t ext2 -N 200000 -b 1024", "512M"),
    ("-t ext4 -m 0", "24M"),
    ("-t ext4 -m 12.5 -L root", "24M"),
    ("-t ext4 -g 256 -b 1024", "24M"),
    ("-t ext4 -g 1024 -b 4096", "200M"),
    ("-t ext4 -G 1", "700M"),
    ("-t ext4 -G 64", "2000M"),
    ("-t ext4 -G 4 -b 1024", "100M"),
    ("-t ext4 -O bigalloc", "240M"),
    ("-t ext4 -O bigalloc -C 16384", "5000M"),
    ("-t ext4 -O bigalloc -C 2048 -b 1024", "100M"),
    ("-t ext4 -O bigalloc -b 1024 -g 1024", "100M"),
    ("-t ext4 -O bigalloc -C 1048576", "20G"),
    ("-t ext4 -O meta_bg,^resize_inode -b 1024", "100M"),
    (
        "-t ext4 -O meta_bg,^resize_inode,^64bit -b 1024 -g 256",
        "24M",
    ),
    ("-t ext4 -O ^metadata_csum", "300M"),
    ("-t ext4 -O ^metadata_csum,uninit_bg", "300M"),
    ("-t ext4 -O ^metadata_csum,^64bit,^flex_bg", "300M"),
    ("-t ext4 -O ^64bit", "300M"),
    ("-t ext4 -O ^flex_bg -b 1024", "300M"),
    ("-t ext4 -O ^flex_bg", "1000M"),
    ("-t ext4 -O ^resize_inode", "300M"),
    ("-t ext4 -O ^sparse_super,^resize_inode -b 1024", "100M"),
    ("-t ext4 -O sparse_super2", "1000M"),
    (
        "-t ext4 -O sparse_super2,^resize_inode -b 1024 -E num_backup_sb=1",
        "100M",
    ),
    ("-t ext4 -O sparse_super2 -E num_backup_sb=0", "300M"),
    ("-t ext4 -O ^has_journal", "300M"),
    ("-t ext4 -O ^extent,^64bit", "300M"),
    ("-t ext4 -O ^orphan_file,^metadata_csum_seed", "300M"),
    ("-t ext4 -O inline_data", "300M"),
    ("-t ext4 -O inline_data -b 65536", "300M"),
    (
        "-t ext4 -O ea_inode,large_dir,encrypt,verity,project,stable_inodes",
        "100M",
    ),
    ("-t ext4 -O casefold -E encoding_flags=strict", "100M"),
    ("-t ext4 -O fast_commit", "300M"),
    ("-t ext4 -O fast_commit -J fast_commit_size=512", "300M"),
    ("-t ext2 -O none", "30M"),
    ("-t ext2 -O none -I 128 -b 4096", "300M"),
    ("-t ext3 -J size=16", "300M"),
    ("-t ext4 -J size=32,location=40m", "300M"),
    ("-t ext4 -J size=100,location=1000", "2G"),
    ("-t ext3 -b 1024 -J size=100", "1G"),
    ("-t ext4 -E packed_meta_blocks=1", "1G"),
    ("-t ext4 -E packed_meta_blocks=1 -b 1024", "100M"),
    ("-t ext4 -E stride=4,stripe_width=16", "100M"),
    ("-t ext2 -E stride=4,stripe_width=16 -b 1024", "100M"),
    ("-t ext4 -E resize=2g", "100M"),
    ("-t ext4 -E resize=8t", "1G"),
    ("-t ext4 -E desc_size=128", "100M"),
    ("-t ext4 -E lazy_itable_init=0,lazy_journal_init=1", "100M"),
    ("-t ext4 -E root_owner=1000:70000", "24M"),
    ("-t ext4 -E orphan_file_size=300k,test_fs", "100M"),
];

/// The options and sizes of larger filesystems.
const LARGE: &[(&str, &str)] = &[
    ("-t ext4", "100G"),
    ("-t ext3", "40G"),
    ("-t ext4", "1T"),
    ("-t ext4", "5T"),
    ("-t ext4 -T largefile4", "1T"),
    ("-t ext4 -O meta_bg,^resize_inode", "40G"),
];

/// Creates a sparse file.
fn sparse(path: &Path, size: &str) {
    let _ = fs::remove_file(path);
    run("truncate", &["-s", size, path.to_str().unwrap()]);
}

/// Creates the filesystem by `format`.
fn ours(dir: &Path, args: &str, size: &str) -> PathBuf {
    let image = dir.join("ours");
    sparse(&image, size);
    let device = File::open_read_write(&image).unwrap();
    let made = diskfs_ext4::format(&device, &parse(args));
    made.unwrap_or_else(|e| panic!("{args}, {size}: {e}"));
    image
}

/// Adds the hash seed to the extended options, which mke2fs before 1.47.1 accepts only once.
fn with_hash_seed(args: &str) -> String {
    let seed = format!("-E hash_seed={HASH_SEED}");
    match args.split_once("-E ") {
        Some((before, after)) => format!("{before}{seed},{after}"),
        None => format!("{args} {seed}"),
    }
}

/// Creates the filesystem by mke2fs.
fn theirs(dir: &Path, args: &str, size: &str) -> Result<PathBuf, String> {
    let image = dir.join("theirs");
    sparse(&image, size);
    let configuration = dir.join("mke2fs.conf");
    fs::write(&configuration, CONFIGURATION).unwrap();
    let output = diskfs_fixtures::command("mke2fs")
        .env("MKE2FS_CONFIG", &configuration)
        .env("E2FSPROGS_FAKE_TIME", TIME.to_string())
        .args(["-q", "-F", "-U", UUID])
        .args(with_hash_seed(args).split_whitespace())
        .arg(&image)
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(image);
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns what dumpe2fs prints, without the allowed differences.
fn dump(image: &Path) -> Vec<String> {
    let text = run("dumpe2fs", &[image.to_str().unwrap()]);
    let mut lines: Vec<String> = Vec::new();
    for group in text.split("\nGroup ") {
        let mut group: Vec<String> = group.lines().map(str::to_owned).collect();
        // mke2fs before 1.47.4 leaves the bitmap of a group with a copy of the superblock or of
        // descriptors to be generated; newer versions write it.
        let has_copy = group
            .iter()
            .any(|line| line.contains("roup descriptor") || line.contains("superblock at"));
        if has_copy && group[0].contains("csum 0x") {
            for line in &mut group {
                if let Some((start, _)) = line.split_once(" csum 0x")
                    && (line.starts_with(|c: char| c.is_ascii_digit())
                        || line.contains("Block bitmap"))
                {
                    *line = start.to_owned();
                }
            }
        }
        lines.append(&mut group);
    }
    lines.retain(|line| {
        // The number of bytes that were written is not the same, and the superblock's checksum
        // covers it.
        !line.starts_with("Lifetime writes:") && !line.starts_with("Checksum: ")
    });
    lines
}

/// Returns the first lines that differ.
fn differences(ours: &[String], theirs: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for nth in 0..ours.len().max(theirs.len()) {
        let (ours, theirs) = (ours.get(nth), theirs.get(nth));
        if ours != theirs && found.len() < 12 {
            found.push(format!("  ours:   {ours:?}\n  theirs: {theirs:?}"));
        }
    }
    found
}

/// Returns the blocks of 1 KiB that may differ although dumpe2fs prints the same: superblocks,
/// descriptors and block bitmaps.
fn may_differ(image: &Path) -> BTreeSet<u64> {
    let text = run("dumpe2fs", &[image.to_str().unwrap()]);
    let kib: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix("Block size:"))
        .map(|size| size.trim().parse::<u64>().unwrap() / 1024)
        .unwrap();
    let mut blocks = BTreeSet::from([1]);
    let mut add = |range: &str| {
        let range = range.trim_end_matches(',');
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
        blocks.extend(first * kib..(last + 1) * kib);
    };
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        for (nth, word) in words.iter().enumerate() {
            if *word == "at" && !line.contains("Reserved GDT") && !line.contains("node") {
                add(words[nth + 1]);
            }
        }
    }
    blocks
}

/// Compares all bytes of two images except for the blocks that may differ.
fn compare_bytes(ours: &Path, theirs: &Path) -> Result<(), String> {
    let allowed = may_differ(theirs);
    let images = [ours, theirs].map(|path| File::open(path).unwrap());
    let len = images[0].size_bytes();
    let mut start = 0;
    while start < len {
        let extents = [0, 1].map(|nth| images[nth].extent_at(start).unwrap());
        let mut n = extents[0].len_bytes.min(extents[1].len_bytes);
        if extents.iter().any(|extent| !extent.kind.reads_as_zeroes()) {
            n = n.min(1 << 20);
            let [ours, theirs] = [0, 1].map(|nth| {
                let mut bytes = vec![0; usize::try_from(n).unwrap()];
                images[nth].read_at(start, &mut bytes).unwrap();
                bytes
            });
            let pairs = ours.chunks(1024).zip(theirs.chunks(1024));
            for (block, (ours, theirs)) in (start / 1024..).zip(pairs) {
                if ours != theirs && !allowed.contains(&block) {
                    return Err(format!("the {block}th KiB differs"));
                }
            }
        }
        start += n;
    }
    Ok(())
}

/// Creates a filesystem by both programs. Returns what is wrong with ours.
fn compare(dir: &Path, args: &str, size: &str) -> Result<(), String> {
    let ours = ours(dir, args, size);
    let theirs = theirs(dir, args, size)?;
    let found = differences(&dump(&ours), &dump(&theirs));
    if !found.is_empty() {
        return Err(found.join("\n"));
    }
    // With inline data, mke2fs leaves the header of an empty list of attributes in the inode of
    // `lost+found`.
    // From 1 TiB on, the journal's tree has two levels, and mke2fs leaves old entries in its root,
    // after those in use.
    if !args.contains("inline_data") && !size.ends_with('T') {
        compare_bytes(&ours, &theirs)?;
    }
    e2fsck(&ours);
    Ok(())
}

/// Creates the filesystems of a matrix by both programs.
fn compare_all(matrix: &[(&str, &str)]) {
    if !have(&["mke2fs", "dumpe2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut failed = Vec::new();
    for &(args, size) in matrix {
        if let Err(e) = compare(dir.path(), args, size) {
            failed.push(format!("{args}, {size}:\n{e}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn filesystems_are_those_of_mke2fs() {
    compare_all(MATRIX);
}

/// With `DISKFS_FORMAT_LARGE=1`, also large filesystems: dumpe2fs and e2fsck take a minute.
#[test]
fn large_filesystems_are_those_of_mke2fs() {
    if std::env::var_os("DISKFS_FORMAT_LARGE").is_some() {
        compare_all(LARGE);
    }
}
