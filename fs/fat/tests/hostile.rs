//! Damaged filesystems: an answer, no panic, no loop.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs_block::{BlockWrite, Memory};
use diskfs_fat::{Fat, WritableFat, WriteOptions};
use diskfs_fixtures::image;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind, RenameMode};

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(image(name).path()).unwrap()
}

/// Reads everything that is found, and changes what can be changed.
fn try_all(bytes: Vec<u8>) {
    let device = Arc::new(Memory::new(bytes));
    if let Ok(fs) = Fat::open(device.clone()) {
        let _ = (fs.identity(), fs.statistics());
        for entry in diskfs_vfs::walk(&fs, fs.root()).take(600).flatten() {
            let _ = fs.read_at(entry.inode, 0, &mut [0; 9000]);
            let _ = fs.extents_of(entry.inode, 0).map(Iterator::count);
            let _ = fs.lookup(entry.inode, b"..");
        }
        for number in [0, 1, 2, 1000, 123_456, u64::MAX / 32, u64::MAX] {
            let _ = fs.metadata(diskfs_vfs::InodeNumber(number));
        }
    }
    let options = WriteOptions {
        commit_interval: None,
        ..WriteOptions::default()
    };
    let Ok(fs) = WritableFat::open(device, &options) else {
        return;
    };
    let any = NewAttributes::for_root(0o644);
    let root = fs.root();
    let entries: Vec<_> = diskfs_vfs::walk(&fs, root).take(60).flatten().collect();
    for entry in &entries {
        let _ = fs.write_at(entry.inode, entry.metadata.size_bytes + 700, &[1; 3000]);
        let _ = fs.set_len(entry.inode, 100);
        let _ = fs.create(entry.inode, b"a new name in here", NewKind::Directory, &any);
    }
    if let Ok(listed) = fs.read_dir(root, 0) {
        for entry in listed.flatten().take(40).collect::<Vec<_>>() {
            let _ = fs.rename(
                root,
                &entry.name,
                root,
                b"renamed to another name",
                RenameMode::Replace,
            );
            let _ = fs.unlink(root, b"renamed to another name");
            let _ = fs.rmdir(root, &entry.name);
        }
    }
    let _ = fs.sync();
    let _ = fs.close();
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
    // Of a cluster's offset, back to its number: mkfs.vfat's geometry for this fixture.
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

#[test]
fn nothing_to_read_is_refused() {
    for len in [0, 1, 511, 512, 513, 4096] {
        let e = Fat::open(Arc::new(Memory::new(vec![0; len]))).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
    }
}

#[test]
fn random_damage() {
    let rounds: u64 = std::env::var("DISKFS_MUTATIONS").map_or(150, |n| n.parse().unwrap());
    let seeds = ["fat12", "fat12-one-table", "fat16", "fat32-small"].map(bytes);
    let mut state = 1_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..rounds {
        let mut bytes = seeds[usize::try_from(round % 4).unwrap()].clone();
        for _ in 0..=next() % 12 {
            // Most of the structures stand at the beginning.
            let limit =
                [512, 4096, 65_536, bytes.len() as u64][usize::try_from(next() % 4).unwrap()];
            let at = usize::try_from(next() % limit).unwrap();
            let value =
                [0, 0xff, 0xe5, 0x0f, (next() & 0xff) as u8][usize::try_from(next() % 5).unwrap()];
            bytes[at] = value;
        }
        let began = Instant::now();
        try_all(bytes);
        assert!(began.elapsed() < Duration::from_secs(10), "round {round}");
    }
}
