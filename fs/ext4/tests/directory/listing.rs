//! Listings of directories that change meanwhile.

use std::collections::BTreeMap;

use diskfs_fixtures::have;
use diskfs_vfs::{FsRead, FsWrite, InodeNumber};

use crate::common::{mke2fs_empty, open_for_writing};
use crate::model::Model;

const MATRIX: [&str; 5] = [
    "-t ext4 -b 1024",
    "-t ext4 -b 4096",
    "-t ext4 -b 1024 -O ^dir_index",
    "-t ext4 -b 1024 -O ^dir_index,^metadata_csum",
    "-t ext4 -b 1024 -O inline_data -I 1024",
];

/// Returns all names and how often each was listed; `room` entries are taken from each listing, as
/// FUSE does.
fn list(fs: &dyn FsRead, dir: InodeNumber, room: usize) -> BTreeMap<Vec<u8>, usize> {
    let mut names = BTreeMap::new();
    let mut cookie = 0;
    loop {
        let mut taken = 0;
        for entry in fs.read_dir(dir, cookie).unwrap().take(room) {
            let entry = entry.unwrap();
            assert!(entry.cookie > cookie, "cookies rise");
            cookie = entry.cookie;
            *names.entry(entry.name).or_default() += 1;
            taken += 1;
        }
        if taken == 0 {
            return names;
        }
    }
}

#[test]
fn what_stays_is_seen_once_whatever_comes_and_goes() {
    if !have(&["mke2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (args, seed) in MATRIX.into_iter().zip(1..) {
        let image = mke2fs_empty(dir.path(), args, "48M");
        let fs = open_for_writing(&image);
        let mut model = Model::new(&fs, seed);
        let mut stay = Vec::new();
        // Few names if the directory should be inline at first.
        let count = if args.contains("inline") { 3 } else { 100 };
        for n in 0..count {
            let name = format!("stays-{n}").into_bytes();
            fs.link(model.files[0], model.dir, &name).unwrap();
            stay.push(name);
        }
        let directory = model.dir;
        std::thread::scope(|scope| {
            let lists = scope.spawn(|| {
                for listing in 0..40 {
                    let names = list(&fs, directory, 7 + listing * 20);
                    for name in stay.iter().map(Vec::as_slice).chain([&b"."[..], b".."]) {
                        assert_eq!(names.get(name), Some(&1), "{args}: {}", name.escape_ascii());
                    }
                }
            });
            while !lists.is_finished() {
                // With more and more names the listings would never end.
                if model.names.len() > 800 || model.random.below(3) == 0 {
                    model.remove(&fs);
                } else {
                    model.add(&fs);
                }
            }
        });
        for room in [13, 100, 5000] {
            let names = list(&fs, directory, room);
            assert!(names.values().all(|&times| times == 1));
            assert_eq!(names.len(), model.names.len() + stay.len() + 2, "{args}");
        }
    }
}
