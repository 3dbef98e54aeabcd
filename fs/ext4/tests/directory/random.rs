//! Random names in every form of directory.

use std::path::Path;

use diskfs_fixtures::have;
use diskfs_vfs::FsWrite;

use crate::common::{e2fsck, mke2fs_empty, open, open_for_writing};
use crate::model::Model;

const MATRIX: [(&str, &str, &str); 10] = [
    ("1 KiB", "-t ext4 -b 1024", "64M"),
    ("4 KiB", "-t ext4 -b 4096", "64M"),
    ("64 KiB", "-t ext4 -b 65536", "96M"),
    ("no index", "-t ext4 -b 1024 -O ^dir_index", "64M"),
    ("no types", "-t ext4 -b 1024 -O ^filetype", "64M"),
    ("no checksums", "-t ext4 -b 1024 -O ^metadata_csum", "64M"),
    ("large_dir", "-t ext4 -b 1024 -O large_dir", "64M"),
    ("inline", "-t ext4 -b 1024 -O inline_data -I 256", "64M"),
    (
        "inline, large",
        "-t ext4 -b 1024 -O inline_data -I 1024",
        "64M",
    ),
    ("ext2", "-t ext2 -b 1024", "64M"),
];

#[test]
fn random_names_in_every_form_of_directory() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let steps: usize = std::env::var("DISKFS_STEPS").map_or(400, |steps| steps.parse().unwrap());
    let only = std::env::var("DISKFS_ONLY").ok();
    let dir = tempfile::tempdir().unwrap();
    for (nth, (what, args, size)) in (1..).zip(MATRIX) {
        if only.as_ref().is_some_and(|only| only != what) {
            continue;
        }
        let image = mke2fs_empty(dir.path(), args, size);
        let fs = open_for_writing(&image);
        let mut model = Model::new(&fs, nth);
        model.steps(&fs, steps, what);
        fs.close().unwrap();
        drop(fs);
        e2fsck(&image);
        model.compare(&open(&image), what);
        // A block is larger than a page, so the kernel cannot mount it.
        if what != "64 KiB" {
            model.take_turns(&image, steps / 8, what);
        }
        optimised(&image);
        model.compare(&open(&image), what);
    }
}

/// Lets e2fsck rebuild the directories.
fn optimised(image: &Path) {
    let done = diskfs_fixtures::command("e2fsck")
        .args(["-f", "-y", "-D"])
        .arg(image)
        .output()
        .unwrap();
    // Exit status 1: e2fsck has changed something, and there are no errors.
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(matches!(done.status.code(), Some(0 | 1)), "{told}");
}
