//! A new UUID, as e2fsck, dumpe2fs and blkid see it.

mod common;

use common::{e2fsck, mke2fs_empty, open, open_for_writing, run};
use diskfs_block::File;
use diskfs_ext4::{UuidChange, uuid_change};
use diskfs_fixtures::have;
use diskfs_vfs::{ErrorKind, FsRead, FsWrite, NewAttributes, NewKind, Remains};

const NEW: [u8; 16] = [0xa5; 16];
const NEW_TEXT: &str = "a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5";

#[test]
fn the_uuid_changes_with_the_files() {
    if !have(&["mke2fs", "e2fsck", "dumpe2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let attributes = NewAttributes::for_root(0o644);
    for (args, change) in [
        (
            "-t ext4 -O metadata_csum,^metadata_csum_seed",
            UuidChange::AddsChecksumSeed,
        ),
        ("-t ext4 -O metadata_csum_seed", UuidChange::Plain),
        (
            "-t ext4 -O metadata_csum,^metadata_csum_seed,ea_inode",
            UuidChange::AddsChecksumSeed,
        ),
        (
            "-t ext4 -O fast_commit,orphan_file",
            UuidChange::AddsChecksumSeed,
        ),
        (
            "-t ext4 -O ^metadata_csum,^metadata_csum_seed,^uninit_bg",
            UuidChange::Plain,
        ),
        ("-t ext3", UuidChange::Plain),
        ("-t ext2", UuidChange::Plain),
    ] {
        let image = mke2fs_empty(dir.path(), args, "24M");
        let told = uuid_change(&File::open(&image).unwrap()).unwrap();
        let has_seed =
            run("dumpe2fs", &["-h", image.to_str().unwrap()]).contains("metadata_csum_seed");
        assert!(told == change || has_seed, "{args}");
        for name in [&b"one"[..], b"two"] {
            let fs = open_for_writing(&image);
            fs.create(fs.root(), name, NewKind::Regular, &attributes)
                .unwrap();
            fs.set_uuid(fs.root(), NEW).unwrap();
            fs.create(
                fs.root(),
                &[name, b"-after"].concat(),
                NewKind::Regular,
                &attributes,
            )
            .unwrap();
            fs.close().unwrap();
            e2fsck(&image);
            let superblock = run("dumpe2fs", &["-h", image.to_str().unwrap()]);
            assert!(superblock.contains(NEW_TEXT), "{args}: {superblock}");
            let fs = open(&image);
            fs.lookup(fs.root(), name).unwrap();
        }
        assert_eq!(
            uuid_change(&File::open(&image).unwrap()).unwrap(),
            UuidChange::Plain
        );

        let other = [0x5a; 16];
        let fs = open_for_writing(&image);
        fs.set_uuid(fs.root(), other).unwrap();
        if args != "-t ext2" {
            assert_eq!(fs.abandon().unwrap(), Remains::Nothing);
        }
        drop(fs);
        e2fsck(&image);
        let superblock = run("dumpe2fs", &["-h", image.to_str().unwrap()]);
        assert_eq!(
            superblock.contains(NEW_TEXT),
            args != "-t ext2",
            "{args}: {superblock}"
        );
    }
}

#[test]
fn what_depends_on_the_uuid_refuses() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (args, part) in [
        (
            "-t ext4 -O ^metadata_csum,^metadata_csum_seed,uninit_bg",
            "uninit_bg",
        ),
        ("-t ext4 -O stable_inodes,encrypt", "stable_inodes"),
    ] {
        let image = mke2fs_empty(dir.path(), args, "24M");
        let error = uuid_change(&File::open(&image).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        let fs = open_for_writing(&image);
        let error = fs.set_uuid(fs.root(), NEW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        fs.close().unwrap();
        e2fsck(&image);
    }
}
