//! The output of diskfs, compared with other programs on the same image: the kernel's mount
//! (recorded with the fixtures, and live as root) and `qemu-img`.

mod debian;
mod filesystems;
mod guest;
mod images;
mod volumes;
mod writable;

use std::path::Path;

use diskfs::vfs::{Driver, MountTree};
use diskfs::{Disk, Filesystem};
use diskfs_fixtures::Tree;

/// The maximum number of differences of one tree that are shown.
const SHOWN: usize = 12;

/// Opens the filesystem that is meant in the image.
fn filesystem(image: &Path) -> Filesystem {
    disk(image)
        .filesystem()
        .unwrap_or_else(|error| panic!("{}: {error}", image.display()))
}

fn disk(image: &Path) -> Disk {
    Disk::open(image).unwrap_or_else(|error| panic!("{}: {error}", image.display()))
}

/// Returns the differences of the filesystem from the expected tree; empty if there are none.
fn differences(expected: &Tree, filesystem: &Filesystem) -> Vec<String> {
    let fs = filesystem.as_fs();
    // A kernel mounts the default subvolume of btrfs; diskfs shows the one that contains all, in
    // which the numbers of others are different.
    let default = fs.subvolume(None).unwrap_or_default();
    let compared = if default.is_empty() {
        Tree::of_filesystem(fs).map(|found| expected.differences(&found))
    } else {
        let below = MountTree::below(Driver::ReadOnly(filesystem.driver()), default);
        let found = below
            .map_err(Into::into)
            .and_then(|below| Tree::of_filesystem(&below));
        let expected = expected.clone().without_inode_numbers();
        found.map(|found| expected.differences(&found.without_inode_numbers()))
    };
    compared.unwrap_or_else(|error: anyhow::Error| vec![format!("{error:#}")])
}

/// # Panics
/// Panics if there is any difference, with the first of them.
fn assert_same(what: &str, expected: &Tree, filesystem: &Filesystem) {
    let differences = differences(expected, filesystem);
    assert!(differences.is_empty(), "{what}: {}", summary(&differences));
}

fn summary(differences: &[String]) -> String {
    let shown = &differences[..differences.len().min(SHOWN)];
    format!(
        "{} differences\n  {}",
        differences.len(),
        shown.join("\n  ")
    )
}
