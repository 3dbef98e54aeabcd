//! Files with inline contents that outgrow their inodes, changed at random and compared with a
//! model. e2fsck finds nothing to repair, and the kernel reads them.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Mounted, Random, e2fsck, mke2fs_empty, open, open_for_writing};
use diskfs_fixtures::have;
use diskfs_vfs::{
    ErrorKind, Fallocate, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, SetXattr,
};

type Model = BTreeMap<String, Vec<u8>>;

fn create(fs: &dyn FsWrite, name: &str) -> InodeNumber {
    let attributes = NewAttributes {
        permissions: 0o644,
        umask: 0,
        uid: 0,
        gid: 0,
    };
    let kind = NewKind::Regular;
    fs.create(fs.root(), name.as_bytes(), kind, &attributes)
        .unwrap()
}

fn write(fs: &dyn FsWrite, inode: InodeNumber, random: &mut Random, contents: &mut Vec<u8>) {
    let offset = random.below(contents.len() + 20);
    let len = 1 + random.below(30);
    let byte = u8::try_from(1 + random.below(200)).unwrap();
    let data = vec![byte; len];
    assert_eq!(fs.write_at(inode, offset as u64, &data).unwrap(), len);
    contents.resize(contents.len().max(offset + len), 0);
    contents[offset..offset + len].copy_from_slice(&data);
}

fn step(fs: &dyn FsWrite, random: &mut Random, name: &str, contents: &mut Vec<u8>) {
    let inode = fs.lookup(fs.root(), name.as_bytes()).unwrap();
    match random.below(20) {
        0..12 => write(fs, inode, random, contents),
        12..15 => {
            let len = random.below(contents.len() + 40);
            fs.set_len(inode, len as u64).unwrap();
            contents.resize(len, 0);
        }
        15 => {
            fs.set_len(inode, 0).unwrap();
            contents.clear();
        }
        16 => {
            let value = vec![b'v'; random.below(60)];
            fs.set_xattr(inode, b"user.x", &value, SetXattr::Any)
                .unwrap();
        }
        17 => {
            // Without the attribute there is nothing to remove.
            let _ = fs.remove_xattr(inode, b"user.x");
        }
        18 if random.below(8) == 0 => {
            // Not supported with a block map.
            let allocated = fs.fallocate(inode, 0, 5000, Fallocate::AllocateKeepSize);
            let kind = allocated.err().map(|e| e.kind());
            assert!(matches!(kind, None | Some(ErrorKind::Unsupported)));
        }
        19 if random.below(8) == 0 && contents.len() > 4 => {
            fs.fallocate(inode, 1, 2, Fallocate::PunchHole).unwrap();
            contents[1..3].fill(0);
        }
        _ => {
            fs.unlink(fs.root(), name.as_bytes()).unwrap();
            create(fs, name);
            contents.clear();
        }
    }
}

fn compare(fs: &dyn FsRead, model: &Model, what: &str) {
    for (name, contents) in model {
        let inode = fs.lookup(fs.root(), name.as_bytes()).unwrap();
        let mut bytes = vec![0xaa; contents.len() + 1];
        let len = fs.read_at(inode, 0, &mut bytes).unwrap();
        assert!(bytes[..len] == contents[..], "{what}: {name}");
    }
}

/// Compares with the kernel's mount, and lets the kernel change the files; skipped if it cannot be
/// mounted.
fn with_the_kernel(image: &Path, model: &mut Model, what: &str) {
    let Some(mounted) = Mounted::new("random_contents", image) else {
        return;
    };
    for (nth, (name, contents)) in model.iter_mut().enumerate() {
        let path = mounted.path().join(name);
        assert!(
            std::fs::read(&path).unwrap() == *contents,
            "{what}: {name} as the kernel reads it"
        );
        if nth % 3 == 0 {
            contents.extend([b'k'; 25]);
            std::fs::write(&path, &*contents).unwrap();
        }
    }
}

#[test]
fn random_contents() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    for (nth, args) in [
        "-t ext4 -O inline_data -I 256",
        "-t ext4 -O inline_data -I 1024",
        "-t ext4 -O inline_data,^extent,^64bit -b 1024 -I 512",
        "-t ext4 -O inline_data,^has_journal,bigalloc",
    ]
    .into_iter()
    .enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let image = mke2fs_empty(dir.path(), args, "24M");
        let mut random = Random(0x1a11e + u64::try_from(nth).unwrap());
        let fs = open_for_writing(&image);
        let mut model = Model::new();
        for file in 0..10 {
            let name = format!("file-{file}");
            create(&fs, &name);
            model.insert(name, Vec::new());
        }
        drop(fs);
        for _ in 0..4 {
            let fs = open_for_writing(&image);
            for _ in 0..40 {
                for (name, contents) in &mut model {
                    step(&fs, &mut random, name, contents);
                }
            }
            compare(&fs, &model, args);
            drop(fs);
            e2fsck(&image);
            compare(&open(&image), &model, args);
            with_the_kernel(&image, &mut model, args);
            e2fsck(&image);
            compare(&open(&image), &model, args);
        }
    }
}

/// Checks that small files use no blocks.
#[test]
fn small_files_are_in_their_inodes() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -O inline_data -I 256 -b 4096", "24M");
    let fs = open_for_writing(&image);
    let names: Vec<String> = (0..20).map(|n| format!("{n}")).collect();
    let files: Vec<InodeNumber> = names.iter().map(|name| create(&fs, name)).collect();
    let free = fs.statistics().unwrap().blocks_free;
    for &file in &files {
        // 60 bytes in i_block; of the other 128 bytes: 32 of further fields, the magic, an entry of
        // 20 and the end of the list.
        fs.write_at(file, 0, &[7; 60 + 68]).unwrap();
    }
    assert_eq!(fs.statistics().unwrap().blocks_free, free);
    fs.write_at(files[0], 128, b"x").unwrap();
    assert_eq!(fs.statistics().unwrap().blocks_free, free - 1);
    drop(fs);
    e2fsck(&image);
}
