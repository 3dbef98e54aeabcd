//! Large sparse devices: the number of requests, and sizes from 16 TiB on. With
//! `DISKFS_FORMAT_LARGE=1` e2fsck checks them, too, which takes minutes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use diskfs_block::{Counting, File};
use diskfs_ext4::format;
use diskfs_fixtures::have;
use diskfs_vfs::FsWrite;

use crate::common::{e2fsck, open, open_for_writing, run};
use crate::options::parse;

/// The maximum number of writes for 1 TiB.
const WRITES_MAX: u64 = 1200;

/// Creates a sparse file. Returns `None` if the host's filesystem has no files of that size.
fn sparse(path: &Path, tebibytes: u64) -> Option<File> {
    let file = fs::File::create(path).unwrap();
    file.set_len(tebibytes << 40).ok()?;
    Some(File::open_read_write(path).unwrap())
}

#[test]
fn a_tebibyte_takes_few_requests() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let Some(device) = sparse(&path, 1) else {
        return;
    };
    let device = Counting::new(Arc::new(device));
    format(&device, &parse("-t ext4")).unwrap();
    assert!(
        device.counts().writes <= WRITES_MAX,
        "{:?}",
        device.counts()
    );
    open_for_writing(&path).close().unwrap();
}

#[test]
fn sizes_from_16_tib_on() {
    if !have(&["dumpe2fs"]) || !Path::new("/dev/shm").is_dir() {
        return;
    }
    // Files of ext4 end at 16 TiB, those of tmpfs do not.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("image");
    let large = std::env::var_os("DISKFS_FORMAT_LARGE").is_some();
    let cases = [
        (20, "-t ext4 -O bigalloc"),
        (16, "-t ext4"),
        (20, "-t ext4"),
        (20, "-t ext2 -b 8192"),
    ];
    for (tebibytes, args) in cases.into_iter().take(if large { 4 } else { 2 }) {
        let Some(device) = sparse(&path, tebibytes) else {
            return;
        };
        format(&device, &parse(args)).unwrap();
        let header = run("dumpe2fs", &["-h", path.to_str().unwrap()]);
        assert!(header.contains("clean"), "{header}");
        open(&path);
        if large {
            e2fsck(&path);
        }
    }
}
