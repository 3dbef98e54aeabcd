//! Listings that continue at a cookie, and look-ups that ignore case.

use std::sync::Arc;

use diskfs_block::File;
use diskfs_fixtures::{TempImage, image};
use diskfs_vfs::{DirEntry, ErrorKind, Follow, FsRead, InodeNumber, resolve};
use diskfs_xfs::Xfs;

fn open(image: &TempImage) -> Xfs {
    Xfs::open(Arc::new(File::open(image.path()).unwrap())).unwrap()
}

fn list(fs: &Xfs, directory: InodeNumber, cookie: u64) -> Vec<DirEntry> {
    let entries = fs.read_dir(directory, cookie).unwrap();
    entries.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_listing_continues_at_each_cookie() {
    for name in [
        "xfs-directories",
        "xfs-v4-directories",
        "xfs-directory-65536",
    ] {
        let image = image(name);
        let fs = open(&image);
        for directory in list(&fs, fs.root(), 0) {
            if !fs.metadata(directory.inode).unwrap().is_dir() {
                continue;
            }
            let all = list(&fs, directory.inode, 0);
            assert_eq!(
                (&all[0].name[..], &all[1].name[..]),
                (&b"."[..], &b".."[..])
            );
            for nth in (0..all.len()).step_by(1 + all.len() / 40) {
                let rest = list(&fs, directory.inode, all[nth].cookie);
                assert_eq!(rest, all[nth + 1..], "{name}, after {nth}");
            }
            assert!(list(&fs, directory.inode, u64::MAX).is_empty());
        }
    }
}

#[test]
fn names_are_found_in_any_case_if_the_filesystem_ignores_it() {
    for (name, ignores_case) in [("xfs-ascii-ci", true), ("xfs-v4-directories", false)] {
        let image = image(name);
        let fs = open(&image);
        // Directories of the short form, a block, and with nodes.
        for directory in ["names-1", "names-20", "names-900"] {
            let inode = resolve(&fs, directory, Follow::All).unwrap();
            let stored = fs.lookup(inode, b"name-number-0").unwrap();
            match fs.lookup(inode, b"Name-NUMBER-0") {
                Ok(found) => assert!(ignores_case && found == stored),
                Err(e) => assert!(!ignores_case && e.kind() == ErrorKind::NotFound, "{e}"),
            }
        }
        assert_eq!(fs.metadata(fs.root()).unwrap().flags.casefold, ignores_case);
    }
}

#[test]
fn only_free_blocks_are_free() {
    let image = image("xfs-directories");
    let fs = open(&image);
    let free: Vec<_> = fs.free_ranges().unwrap().map(Result::unwrap).collect();
    let bytes: u64 = free.iter().map(|range| range.end - range.start).sum();
    let statistics = fs.statistics().unwrap();
    let counted = statistics.blocks_free * u64::from(statistics.block_size);
    // The counter also has the lists of free blocks, and lacks what is set aside.
    assert!(bytes.abs_diff(counted) < 200_000, "{bytes}, {counted}");
    for entry in diskfs_vfs::walk(&fs, fs.root()).map(Result::unwrap) {
        let Ok(extents) = fs.extents_of(entry.inode, 0) else {
            continue;
        };
        for extent in extents.map(Result::unwrap) {
            if let diskfs_vfs::FileExtentKind::Stored { device_offset } = extent.kind {
                assert!(!free.iter().any(|range| range.contains(&device_offset)));
            }
        }
    }
}
