use std::sync::Arc;

use diskfs_block::{Memory, Overlay, Zeroes};
use diskfs_vfs::{Fallocate, FileExtentKind, FsRead as _, FsWrite as _};

use super::*;

fn disk() -> DiskFile {
    let empty = Arc::new(Zeroes::new(1 << 20));
    DiskFile::writable(Arc::new(Overlay::in_memory(empty, 1 << 20)), 4096)
}

#[test]
fn the_file_is_the_disk() {
    let file = disk();
    assert_eq!(file.write_at(ROOT, 4096, b"data").unwrap(), 4);
    let mut buf = [1; 8];
    assert_eq!(file.read_at(ROOT, 4094, &mut buf).unwrap(), 8);
    assert_eq!(&buf, b"\0\0data\0\0");
    let metadata = file.metadata(ROOT).unwrap();
    assert_eq!(
        (metadata.size_bytes, metadata.allocated_bytes),
        (1 << 20, 4096)
    );
    assert_eq!(metadata.mode(), 0o100_600);
    let kinds = || {
        let extents = file.extents_of(ROOT, 0).unwrap();
        let kind = |extent: Result<diskfs_vfs::FileExtent>| extent.unwrap().kind;
        extents.map(kind).collect::<Vec<_>>()
    };
    assert!(kinds().contains(&FileExtentKind::Inline));
    file.fallocate(ROOT, 0, 2 << 20, Fallocate::PunchHole)
        .unwrap();
    file.read_at(ROOT, 4094, &mut buf).unwrap();
    assert_eq!(buf, [0; 8]);
}

#[test]
fn the_disk_does_not_grow() {
    let file = disk();
    let end = 1 << 20;
    assert_eq!(file.write_at(ROOT, end - 2, b"data").unwrap(), 2);
    let kind = |done: Result<()>| done.unwrap_err().kind();
    let past_end = file.write_at(ROOT, end, b"data").map(drop);
    assert_eq!(kind(past_end), ErrorKind::NoSpace);
    assert_eq!(file.read_at(ROOT, end, &mut [0; 8]).unwrap(), 0);
    assert_eq!(kind(file.set_len(ROOT, 0)), ErrorKind::NotPermitted);
    file.set_len(ROOT, end).unwrap();
    let zeroed = file.fallocate(ROOT, end - 1, 2, Fallocate::ZeroRange);
    assert_eq!(kind(zeroed), ErrorKind::NoSpace);
    let allocated = file.fallocate(ROOT, 0, 1, Fallocate::Allocate);
    assert_eq!(kind(allocated), ErrorKind::Unsupported);
}

#[test]
fn a_disk_that_is_only_read_refuses_all_changes() {
    let file = DiskFile::read_only(Arc::new(Memory::new(vec![7; 512])), 512);
    let kind = |done: Result<()>| done.unwrap_err().kind();
    assert_eq!(file.metadata(ROOT).unwrap().permissions, 0o400);
    assert_eq!(
        kind(file.write_at(ROOT, 0, b"x").map(drop)),
        ErrorKind::ReadOnly
    );
    let punched = file.fallocate(ROOT, 0, 1, Fallocate::PunchHole);
    assert_eq!(kind(punched), ErrorKind::ReadOnly);
    assert_eq!(kind(file.unlink(ROOT, b"x")), ErrorKind::ReadOnly);
    file.sync().unwrap();
}
