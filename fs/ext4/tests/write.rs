//! Filesystems made by mke2fs with every set of features, written by this driver. e2fsck finds
//! nothing to repair, and the reading driver reads what was written.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{open, run};
use diskfs_block::File;
use diskfs_ext4::{WritableExt4, WriteOptions};
use diskfs_fixtures::have;
use diskfs_vfs::{
    Device, ErrorKind, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, RenameMode,
    SetMetadata, SetTime, SetXattr, Timestamp,
};

const MATRIX: [(&str, &str, &str); 19] = [
    ("default", "-t ext4", "24M"),
    ("ext2: block maps, no journal", "-t ext2", "24M"),
    ("ext3", "-t ext3 -J size=1 -b 1024", "24M"),
    ("blocks of 1 KiB", "-t ext4 -b 1024", "24M"),
    ("blocks of 64 KiB", "-t ext4 -b 65536", "96M"),
    ("inodes of 128 bytes", "-t ext4 -I 128", "24M"),
    ("inodes of 512 bytes", "-t ext4 -I 512", "24M"),
    ("inline data", "-t ext4 -O inline_data -I 256", "24M"),
    ("bigalloc", "-t ext4 -O bigalloc -C 16384", "24M"),
    ("bigalloc with 1 KiB", "-t ext4 -b 1024 -O bigalloc", "24M"),
    (
        "meta_bg",
        "-t ext4 -b 1024 -O meta_bg,^resize_inode -g 1024",
        "24M",
    ),
    ("no checksums", "-t ext4 -O ^metadata_csum,^64bit", "24M"),
    (
        "CRC-16 of descriptors",
        "-t ext4 -O ^metadata_csum,uninit_bg",
        "24M",
    ),
    ("a seed of its own", "-t ext4 -O metadata_csum_seed", "24M"),
    ("no flex_bg", "-t ext4 -O ^flex_bg -b 1024", "24M"),
    (
        "ea_inode, large_dir",
        "-t ext4 -O ea_inode,large_dir -b 1024",
        "24M",
    ),
    ("orphan_file", "-t ext4 -O orphan_file", "24M"),
    ("fast_commit", "-t ext4 -O fast_commit", "24M"),
    ("no journal", "-t ext4 -O ^has_journal", "24M"),
];

fn image(dir: &Path, args: &str, size: &str) -> std::path::PathBuf {
    let image = dir.join("image");
    let mut all = vec!["-q", "-F"];
    all.extend(args.split_whitespace());
    all.extend([image.to_str().unwrap(), size]);
    run("mke2fs", &all);
    image
}

fn open_for_writing(image: &Path) -> WritableExt4 {
    let device = Arc::new(File::open_read_write(image).unwrap());
    let options = WriteOptions {
        commit_interval: Some(Duration::from_millis(20)),
        ..WriteOptions::default()
    };
    WritableExt4::open(device, &options).unwrap()
}

fn check(image: &Path) {
    run("e2fsck", &["-f", "-n", image.to_str().unwrap()]);
}

fn attributes() -> NewAttributes {
    NewAttributes {
        permissions: 0o644,
        umask: 0o022,
        uid: 70_000,
        gid: 5,
    }
}

fn make(fs: &dyn FsWrite, dir: InodeNumber, name: &str, kind: NewKind<'_>) -> InodeNumber {
    fs.create(dir, name.as_bytes(), kind, &attributes())
        .unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (n.wrapping_mul(31) ^ (n >> 9) ^ seed).to_le_bytes()[0])
        .collect()
}

fn read(fs: &dyn FsRead, inode: InodeNumber) -> Vec<u8> {
    let size = fs.metadata(inode).unwrap().size_bytes;
    let mut bytes = vec![0; usize::try_from(size).unwrap()];
    assert_eq!(fs.read_at(inode, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Does every operation on names at least once.
fn write_names(fs: &dyn FsWrite) {
    let root = fs.root();
    let dir = make(fs, root, "dir", NewKind::Directory);
    let sub = make(fs, dir, "sub", NewKind::Directory);
    for n in 0..300 {
        make(
            fs,
            sub,
            &format!("file-{n}-with-a-long-name-so-that-blocks-fill"),
            NewKind::Regular,
        );
    }
    make(fs, dir, "short", NewKind::Symlink(b"target"));
    make(fs, dir, "long", NewKind::Symlink(&[b't'; 900]));
    make(fs, dir, "fifo", NewKind::Fifo);
    let device = Device {
        major: 8,
        minor: 300,
    };
    make(fs, dir, "disk", NewKind::BlockDevice(device));
    let file = make(fs, dir, "file", NewKind::Regular);
    fs.link(file, sub, b"again").unwrap();
    assert_eq!(fs.metadata(file).unwrap().links, 2);
    let taken = fs.create(dir, b"file", NewKind::Fifo, &attributes());
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::Exists);
    for n in (0..300).step_by(3) {
        let name = format!("file-{n}-with-a-long-name-so-that-blocks-fill");
        fs.unlink(sub, name.as_bytes()).unwrap();
    }
    fs.rename(dir, b"sub", root, b"moved", RenameMode::Replace)
        .unwrap();
    assert_eq!(fs.lookup(sub, b"..").unwrap(), root);
    fs.rename(dir, b"fifo", dir, b"short", RenameMode::Exchange)
        .unwrap();
    fs.rename(dir, b"long", root, b"file", RenameMode::Whiteout)
        .unwrap();
    let below = fs.rename(root, b"dir", dir, b"itself", RenameMode::Replace);
    assert_eq!(below.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(
        fs.rmdir(root, b"moved").unwrap_err().kind(),
        ErrorKind::NotEmpty
    );
    make(fs, root, "empty", NewKind::Directory);
    fs.rename(root, b"empty", root, b"lost+found", RenameMode::Replace)
        .unwrap();
    fs.rmdir(root, b"lost+found").unwrap();
    let unnamed = fs.create_unnamed(root, &attributes()).unwrap();
    fs.link(unnamed, root, b"named").unwrap();
    fs.release(unnamed).unwrap();
    let gone = fs.create_unnamed(root, &attributes()).unwrap();
    fs.release(gone).unwrap();
    assert_eq!(fs.metadata(gone).unwrap_err().kind(), ErrorKind::NotFound);
}

fn write_contents(fs: &dyn FsWrite) {
    let dir = make(fs, fs.root(), "contents", NewKind::Directory);
    for len in [1, 59, 60, 100, 4095, 4096, 4097, 70_000, 1_000_000] {
        let file = make(fs, dir, &format!("len-{len}"), NewKind::Regular);
        assert_eq!(fs.write_at(file, 0, &pattern(len, len)).unwrap(), len);
        assert_eq!(read(fs, file), pattern(len, len), "{len}");
    }
    let held = make(fs, dir, "held", NewKind::Regular);
    fs.hold(held);
    fs.write_at(held, 0, b"still here").unwrap();
    fs.unlink(dir, b"held").unwrap();
    assert_eq!(read(fs, held), b"still here");
    fs.release(held).unwrap();
    let sparse = make(fs, dir, "sparse", NewKind::Regular);
    fs.write_at(sparse, 3_000_000, b"end").unwrap();
    fs.set_len(sparse, 3_500_000).unwrap();
    let cut = make(fs, dir, "cut", NewKind::Regular);
    fs.write_at(cut, 0, &pattern(1, 200_000)).unwrap();
    fs.set_len(cut, 5_000).unwrap();
    fs.set_len(cut, 9_000).unwrap();
}

fn write_attributes(fs: &dyn FsWrite) {
    let file = make(fs, fs.root(), "attributes", NewKind::Regular);
    let time = Timestamp {
        seconds: 1_234_567_890,
        nanoseconds: 987_654_321,
    };
    let change = SetMetadata {
        permissions: Some(0o4750),
        uid: Some(1),
        gid: Some(100_000),
        accessed: Some(SetTime::At(time)),
        modified: Some(SetTime::At(time)),
        ..SetMetadata::default()
    };
    fs.set_metadata(file, &change).unwrap();
    fs.set_xattr(file, b"user.small", b"value", SetXattr::Create)
        .unwrap();
    fs.set_xattr(file, b"user.large", &[7; 700], SetXattr::Any)
        .unwrap();
    fs.set_xattr(file, b"user.gone", b"soon", SetXattr::Any)
        .unwrap();
    fs.remove_xattr(file, b"user.gone").unwrap();
}

fn read_back(fs: &dyn FsRead) {
    let root = fs.root();
    let find = |path: &str| {
        path.split('/').fold(root, |dir, name| {
            fs.lookup(dir, name.as_bytes())
                .unwrap_or_else(|e| panic!("{path}: {e}"))
        })
    };
    assert_eq!(fs.metadata(find("moved/again")).unwrap().links, 2);
    assert_eq!(fs.metadata(find("dir/file")).unwrap().uid, 70_000);
    assert_eq!(fs.read_link(find("dir/fifo")).unwrap(), b"target");
    assert_eq!(fs.read_link(find("file")).unwrap(), [b't'; 900]);
    let whiteout = fs.metadata(find("dir/long")).unwrap().device;
    assert_eq!(whiteout, Some(Device { major: 0, minor: 0 }));
    for len in [1, 59, 60, 100, 4095, 4096, 4097, 70_000, 1_000_000] {
        assert_eq!(
            read(fs, find(&format!("contents/len-{len}"))),
            pattern(len, len),
            "{len}"
        );
    }
    let sparse = read(fs, find("contents/sparse"));
    assert_eq!(sparse.len(), 3_500_000);
    assert_eq!(&sparse[3_000_000..3_000_003], b"end");
    assert!(sparse[..3_000_000].iter().all(|&byte| byte == 0));
    let mut cut = pattern(1, 5_000);
    cut.resize(9_000, 0);
    assert_eq!(read(fs, find("contents/cut")), cut);
    let attributes = find("attributes");
    let value = fs.xattr(attributes, b"user.large").unwrap().unwrap();
    assert_eq!(value, [7; 700]);
    assert_eq!(fs.xattr(attributes, b"user.gone").unwrap(), None);
    assert_eq!(fs.metadata(attributes).unwrap().permissions, 0o4750);
}

#[test]
fn every_set_of_features_is_written() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let only = std::env::var("DISKFS_FEATURES").ok();
    for (name, args, size) in MATRIX {
        if only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let image = image(dir.path(), args, size);
        let fs = open_for_writing(&image);
        write_names(&fs);
        write_contents(&fs);
        write_attributes(&fs);
        read_back(&fs);
        fs.close().unwrap();
        let closed = fs.sync();
        drop(closed);
        drop(fs);
        check(&image);
        read_back(&open(&image));
        // Once more, on the existing files.
        let fs = open_for_writing(&image);
        let again = fs.create(fs.root(), b"again", NewKind::Regular, &attributes());
        again.unwrap_or_else(|e| panic!("{name}: {e}"));
        drop(fs);
        check(&image);
        read_back(&open(&image));
    }
}
