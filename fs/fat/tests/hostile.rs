//! Tests with damaged filesystems: every call returns, without a panic or an endless loop.

#[path = "../../clusters/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use diskfs_block::{BlockWrite, Memory};
use diskfs_fat::{Fat, WritableFat, WriteOptions};
use diskfs_fixtures::image;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind};

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(image(name).path()).unwrap()
}

fn try_all(bytes: Vec<u8>) {
    common::try_all(
        |device| Ok(Box::new(Fat::open(device)?)),
        |device| {
            let device = WritableFat::open(device, &WriteOptions::default());
            Ok(Box::new(device?))
        },
        bytes,
    );
}

#[test]
fn a_chain_that_loops_is_corrupt() {
    let bytes = bytes("fat16");
    let fs = Fat::open(Arc::new(Memory::new(bytes.clone()))).unwrap();
    let path = b"Long directory name/size-40000";
    let file = diskfs_vfs::resolve(&fs, path, diskfs_vfs::Follow::All).unwrap();
    let extent = fs.extents_of(file, 0).unwrap().next().unwrap().unwrap();
    let diskfs_vfs::FileExtentKind::Stored { device_offset } = extent.kind else {
        panic!("{extent:?}");
    };
    // Compute the cluster number from its offset, with mkfs.vfat's geometry for this fixture.
    let word = |at: usize| u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let reserved = word(14) * 512;
    let data = reserved + 2 * word(22) * 512 + word(17) * 32;
    let first = (device_offset - data) / (u64::from(bytes[13]) * 512) + 2;
    let cases: [(u64, ErrorKind); 4] = [
        (first, ErrorKind::Corrupt),
        (first + 1, ErrorKind::Corrupt),
        (0xfff0, ErrorKind::Corrupt),
        (0, ErrorKind::Corrupt),
    ];
    for (next, kind) in cases {
        let device = Arc::new(Memory::new(bytes.clone()));
        let next = u16::try_from(next).unwrap();
        device
            .write_at(reserved + (first + 3) * 2, &next.to_le_bytes())
            .unwrap();
        let fs = Fat::open(device).unwrap();
        let e = fs.read_at(file, 0, &mut vec![0; 40_000]).unwrap_err();
        assert_eq!(e.kind(), kind, "{next:#x}: {e}");
        assert_eq!(e.inode(), Some(file));
    }
}

#[test]
fn a_directory_that_holds_itself_is_walked_to_an_end() {
    let mut bytes = bytes("fat32-small");
    {
        let device = Arc::new(Memory::new(bytes));
        let options = WriteOptions {
            commit_interval: None,
            ..WriteOptions::default()
        };
        let fs = WritableFat::open(device.clone(), &options).unwrap();
        let any = NewAttributes::for_root(0o755);
        let a = fs
            .create(fs.root(), b"A", NewKind::Directory, &any)
            .unwrap();
        fs.create(a, b"B", NewKind::Directory, &any).unwrap();
        fs.close().unwrap();
        bytes = device.to_vec();
    }
    let at = |name: &[u8; 11], from: usize| {
        bytes
            .windows(11)
            .skip(from)
            .position(|window| window == name)
            .unwrap()
            + from
    };
    let (a, b) = (at(b"A          ", 512), at(b"B          ", 512));
    let cluster: [u8; 2] = bytes[a + 26..a + 28].try_into().unwrap();
    bytes[b + 26..b + 28].copy_from_slice(&cluster);
    try_all(bytes);
}
