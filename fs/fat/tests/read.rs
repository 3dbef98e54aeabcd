//! Tests that read the fixtures and compare with mtools.

#[path = "../../clusters/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use diskfs_block::File;
use diskfs_fat::Fat;
use diskfs_fixtures::{image, require};
use diskfs_vfs::{ErrorKind, FsRead};

use common::{FAT_IMAGES, mtools_tree, tree};

#[test]
fn shows_what_mtools_shows() {
    if require("mcopy").is_none() {
        return;
    }
    for name in FAT_IMAGES.iter().filter(|name| **name != "fat32-small") {
        let image = image(name);
        let fs = Fat::open(Arc::new(File::open(image.path()).unwrap())).unwrap();
        assert_eq!(tree(&fs), mtools_tree(&image.path()), "{name}");
    }
}

#[test]
fn names_are_found_in_any_case_and_by_their_short_form() {
    let image = image("fat16");
    let fs = Fat::open(Arc::new(File::open(image.path()).unwrap())).unwrap();
    let dir = fs.lookup(fs.root(), b"LONG DIRECTORY NAME").unwrap();
    assert_eq!(fs.lookup(fs.root(), b"longdi~1").unwrap(), dir);
    assert_eq!(
        fs.lookup(fs.root(), b"Long directory name...").unwrap(),
        dir
    );
    assert_eq!(fs.lookup(dir, b"..").unwrap(), fs.root());
    let names = fs.lookup(dir, b"names").unwrap();
    assert_eq!(fs.lookup(names, b"..").unwrap(), dir);
    let umlaut = "UMLAUT-\u{c4}\u{d6}\u{dc}".as_bytes();
    assert!(fs.lookup(names, umlaut).is_ok());
    assert_eq!(
        fs.lookup(names, b"\xff").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn identifies_label_serial_and_sizes() {
    let image = image("fat32");
    let fs = Fat::open(Arc::new(File::open(image.path()).unwrap())).unwrap();
    let identity = fs.identity();
    assert_eq!(identity.label, b"ESP");
    assert_eq!(identity.uuid.as_deref(), Some("1234-ABCD"));
    assert_eq!(
        (identity.features, identity.notes),
        (vec!["FAT32".to_owned()], vec![])
    );
    let statistics = fs.statistics().unwrap();
    assert_eq!(statistics.block_size, 512);
    assert!(statistics.blocks > 65_525 && statistics.blocks_free < statistics.blocks);
    let fragment = fs.lookup(fs.root(), b"FRAGMENT").unwrap();
    let extents: Vec<_> = fs.extents_of(fragment, 0).unwrap().collect();
    assert!(extents.len() > 50, "{} extents", extents.len());
}

#[test]
fn a_listing_goes_on_at_any_cookie() {
    let image = image("fat12");
    let fs = Fat::open(Arc::new(File::open(image.path()).unwrap())).unwrap();
    let all: Vec<_> = fs
        .read_dir(fs.root(), 0)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(all.len() > 100);
    for (seen, entry) in (1..).zip(&all) {
        let rest: Vec<_> = fs
            .read_dir(fs.root(), entry.cookie)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(rest, all[seen..]);
    }
}
