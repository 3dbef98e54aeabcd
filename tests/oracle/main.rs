//! What diskfs shows, beside what others show of the same image: the kernel's mount (recorded with
//! the fixtures, and live as root) and `qemu-img`.

mod debian;
mod filesystems;
mod guest;
mod images;
mod volumes;
mod writable;

use std::path::Path;

use diskfs::{Disk, Filesystem};
use diskfs_fixtures::Tree;

/// At most so many differences of one tree are shown.
const SHOWN: usize = 12;

/// The filesystem that is meant in the image.
fn filesystem(image: &Path) -> Filesystem {
    disk(image)
        .filesystem()
        .unwrap_or_else(|error| panic!("{}: {error}", image.display()))
}

fn disk(image: &Path) -> Disk {
    Disk::open(image).unwrap_or_else(|error| panic!("{}: {error}", image.display()))
}

/// How the filesystem differs from what is expected; empty when it doesn't.
fn differences(expected: &Tree, filesystem: &Filesystem) -> Vec<String> {
    match Tree::of_filesystem(filesystem.as_fs()) {
        Ok(found) => expected.differences(&found),
        Err(error) => vec![format!("{error:#}")],
    }
}

/// # Panics
/// When there is any difference; with the first of them.
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
