//! Tests of writing features that only exFAT has, checked with `fsck.exfat`.

#[path = "../../clusters/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use diskfs_block::File;
use diskfs_exfat::{WritableExfat, WriteOptions};
use diskfs_fixtures::{image, require};
use diskfs_vfs::{FsRead, FsWrite, NewAttributes, NewKind};

use common::{fsck, read};

#[test]
fn room_that_was_never_written_is_zeroes() {
    let image = image("exfat.img");
    let device = Arc::new(File::open_read_write(image.path()).unwrap());
    let fs = WritableExfat::open(device, &WriteOptions::default()).unwrap();
    let file = fs
        .create(
            fs.root(),
            b"sparse",
            NewKind::Regular,
            &NewAttributes::for_root(0o644),
        )
        .unwrap();
    fs.set_len(file, 3 << 20).unwrap();
    assert_eq!(read(&fs, file), vec![0; 3 << 20]);
    assert_eq!(fs.extents_of(file, 0).unwrap().count(), 1);
    fs.write_at(file, 1 << 20, b"middle").unwrap();
    // Other implementations would take bytes after the valid data length for contents.
    let extent = fs.extents_of(file, 0).unwrap().next().unwrap().unwrap();
    assert_eq!(extent.len_bytes, 3 << 20);
    fs.set_len(file, (1 << 20) + 3).unwrap();
    fs.set_len(file, 2 << 20).unwrap();
    let mut expected = vec![0; 2 << 20];
    expected[1 << 20..(1 << 20) + 3].copy_from_slice(b"mid");
    assert_eq!(read(&fs, file), expected);
    fs.close().unwrap();
    if require("fsck.exfat").is_some() {
        fsck("fsck.exfat", &image.path());
    }
}
