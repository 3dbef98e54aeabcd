//! Tests of writing features that only FAT has, checked with `fsck.vfat` and mtools.

#[path = "../../clusters/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use diskfs_block::File;
use diskfs_fat::{WritableFat, WriteOptions};
use diskfs_fixtures::{image, require};
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind};

use common::{fsck, mtools_tree, tree};

const ANY: NewAttributes = NewAttributes::for_root(0o644);

#[test]
fn the_root_of_fat12_has_only_so_many_entries() {
    let image = image("fat12");
    let device = Arc::new(File::open_read_write(image.path()).unwrap());
    let fs = WritableFat::open(device, &WriteOptions::default()).unwrap();
    let e = fs
        .create(fs.root(), b"a long name", NewKind::Regular, &ANY)
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NoSpace);
    fs.unlink(fs.root(), b"F5").unwrap();
    fs.unlink(fs.root(), b"F6").unwrap();
    fs.create(fs.root(), b"a long name", NewKind::Regular, &ANY)
        .unwrap();
    fs.close().unwrap();
    if require("fsck.vfat").is_some() {
        fsck("fsck.vfat", &image.path());
    }
    if require("mcopy").is_some() {
        assert_eq!(mtools_tree(&image.path()), tree(&fs));
    }
}
