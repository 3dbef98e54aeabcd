//! The functions that the tests have in common.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::PathBuf;
use std::sync::Arc;

use diskfs_block::{BlockRead, File};
use diskfs_btrfs::{Btrfs, Options};
use diskfs_fixtures::Tree;

/// Opens the filesystem on these images.
pub(crate) fn open(images: &[PathBuf], options: &Options) -> diskfs_vfs::Result<Btrfs> {
    let devices = images.iter().map(|image| {
        let file = File::open(image).expect("open the image");
        Arc::new(file) as Arc<dyn BlockRead>
    });
    Btrfs::open(devices.collect(), options)
}

/// Returns the differences of the driver's tree from the expected one.
pub(crate) fn differences(expected: &Tree, images: &[PathBuf], options: &Options) -> Vec<String> {
    let found = open(images, options)
        .map_err(anyhow::Error::from)
        .and_then(|fs| Tree::of_filesystem(&fs));
    match found {
        Ok(found) => expected.differences(&found),
        Err(error) => vec![format!("{error:#}")],
    }
}
