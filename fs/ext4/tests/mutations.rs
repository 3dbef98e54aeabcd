//! Small filesystems with randomly changed bytes: every operation ends soon and without a panic.

mod common;

use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use common::{debugfs, make_holes, make_tree, mke2fs};
use diskfs_block::Memory;
use diskfs_ext4::{Ext4, Options};
use diskfs_fixtures::have;
use diskfs_vfs::{FsRead, InodeNumber, Metadata};
use proptest::prelude::*;

/// The maximum number of files that a walk visits; the filesystems have fewer, but a changed one
/// has loops.
const FILES_MAX: usize = 2000;
/// The maximum duration of one walk, in a debug build on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Filesystems without checksums, so that changed bytes are parsed.
const KINDS: [(&str, &str); 4] = [
    (
        "-t ext4 -b 1024 -O ^metadata_csum,^has_journal,inline_data,ea_inode,large_dir -N 400",
        "4M",
    ),
    ("-t ext2 -b 1024 -N 400", "4M"),
    (
        "-t ext4 -b 2048 -O ^metadata_csum,^has_journal,bigalloc -N 400",
        "16M",
    ),
    (
        "-t ext4 -b 1024 -O ^metadata_csum,^flex_bg,meta_bg,^resize_inode -J size=1 -N 400",
        "6M",
    ),
];

/// Returns the filesystems, each with the places of its bytes that are not zero.
fn images() -> &'static [(Vec<u8>, Vec<usize>)] {
    static IMAGES: OnceLock<Vec<(Vec<u8>, Vec<usize>)>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        make_tree(&tree, 120);
        make_holes(&tree);
        let make = |(args, size): &(&str, &str)| {
            let image = mke2fs(dir.path(), &tree, size, args);
            debugfs(
                &image,
                &[&format!("ea_set /a user.long {}", "v".repeat(300))],
            );
            let bytes = fs::read(image).unwrap();
            let used = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
            // Bytes of file contents belong to no structure; few bytes have one of those values.
            let places = used
                .map(|(at, _)| at)
                .filter(|at| *at < 600 << 10)
                .collect();
            (bytes, places)
        };
        KINDS.iter().map(make).collect()
    })
}

fn visit(fs: &Ext4, m: &Metadata) {
    let mut buf = vec![0; 64 << 10];
    for offset in [0, 100, m.size_bytes.saturating_sub(1000), m.size_bytes / 2] {
        let _ = fs.read_at(m.inode, offset, &mut buf);
    }
    let _ = fs.read_link(m.inode);
    if let Ok(extents) = fs.extents_of(m.inode, 0) {
        let mut end = 0;
        for extent in extents.take(1000).map_while(Result::ok) {
            assert_eq!(extent.offset, end);
            assert_ne!(extent.len_bytes, 0);
            end += extent.len_bytes;
        }
        assert!(end <= m.size_bytes);
    }
    for name in fs.list_xattrs(m.inode).unwrap_or_default() {
        let _ = fs.xattr(m.inode, &name);
    }
    fs.will_need(m.inode, 0, m.size_bytes.min(1 << 20));
}

fn walk(fs: &Ext4) {
    let mut left = FILES_MAX;
    let mut directories = vec![fs.root()];
    while let Some(directory) = directories.pop() {
        let _ = fs.lookup(directory, b"17-and-more");
        let Ok(entries) = fs.read_dir(directory, 0) else {
            continue;
        };
        let mut inodes: Vec<InodeNumber> = Vec::new();
        for entry in entries.take(left).map_while(Result::ok) {
            left -= 1;
            let Ok(m) = fs.metadata(entry.inode) else {
                continue;
            };
            visit(fs, &m);
            inodes.push(entry.inode);
            if m.is_dir() && entry.name != b"." && entry.name != b".." {
                directories.push(entry.inode);
            }
        }
        fs.will_need_metadata(&inodes);
    }
    let _ = fs.statistics();
}

/// Returns the number of damaged filesystems; `DISKFS_MUTATIONS` sets another number.
fn cases() -> u32 {
    let set = std::env::var("DISKFS_MUTATIONS").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(150)
}

fn open_and_walk(bytes: Vec<u8>) {
    let start = Instant::now();
    let device = Arc::new(Memory::new(bytes));
    let options = Options {
        cache_bytes: 1 << 20,
    };
    if let Ok(fs) = Ext4::open(device, &options) {
        walk(&fs);
    }
    assert!(start.elapsed() < TIME_MAX, "it took {:?}", start.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 50, ..ProptestConfig::default() })]
    #[test]
    fn changed_bytes_do_no_harm(
        kind in 0..KINDS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4usize), 1..40),
    ) {
        if !have(&["mke2fs", "debugfs"]) {
            return Ok(());
        }
        let (image, places) = &images()[kind];
        let mut bytes = image.clone();
        for (place, value, past) in changes {
            // The byte next to a byte in use belongs to the same structure.
            bytes[places[place.index(places.len())] + past] = value;
        }
        open_and_walk(bytes);
    }

    #[test]
    fn a_cut_device_does_no_harm(kind in 0..KINDS.len(), len in 0..4usize << 20) {
        if !have(&["mke2fs", "debugfs"]) {
            return Ok(());
        }
        let (image, _) = &images()[kind];
        open_and_walk(image[..len.min(image.len())].to_vec());
    }
}

#[test]
fn the_unchanged_ones_are_walked_to_the_end() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    for (image, _) in images() {
        let device = Arc::new(Memory::new(image.clone()));
        let fs = Ext4::open(device, &Options::default()).unwrap();
        let many = fs.lookup(fs.root(), b"many").unwrap();
        assert_eq!(
            fs.read_dir(many, 0).unwrap().map(Result::unwrap).count(),
            122
        );
        walk(&fs);
    }
}
