//! The output of diskfs, compared with other programs on the same image: the kernel's mount
//! (recorded with the fixtures, and live as root) and `qemu-img`.

mod debian;
mod filesystems;
mod guest;
mod images;
mod volumes;
mod writable;

use std::path::Path;

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
    match Tree::of_filesystem(filesystem.as_fs()) {
        Ok(found) => expected.differences(&found),
        Err(error) => vec![format!("{error:#}")],
    }
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
