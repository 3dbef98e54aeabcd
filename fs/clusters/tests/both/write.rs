//! Tests of writing.

use std::path::Path;

use diskfs_fixtures::image;
use diskfs_vfs::{
    ErrorKind, Fallocate, Follow, FsWrite, InodeNumber, NewAttributes, NewKind, Remains,
    RenameMode, SetMetadata, SetTime, Timestamp, resolve,
};

use crate::common::{read, tree};
use crate::kind::{FilesystemType, KINDS};

const ANY: NewAttributes = NewAttributes::for_root(0o644);

/// Opens these images of both filesystems for writing.
fn images(
    of: impl Fn(&'static FilesystemType) -> &'static [&'static str],
) -> Vec<(&'static FilesystemType, &'static str)> {
    let kinds = KINDS.iter();
    let images = kinds.flat_map(|kind| of(kind).iter().map(move |name| (kind, *name)));
    images.collect()
}

/// Returns a directory with space for further names.
fn roomy(fs: &dyn FsWrite, name: &str) -> InodeNumber {
    resolve(fs, FilesystemType::roomy(name).as_bytes(), Follow::All).unwrap()
}

/// Closes the filesystem, and checks that other programs see the same contents.
fn close(kind: &FilesystemType, fs: Box<dyn FsWrite>, path: &Path, name: &str) {
    let before = tree(&*fs);
    fs.close().unwrap();
    let late = fs.create(fs.root(), b"late", NewKind::Regular, &ANY);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(fs);
    let again = kind.read(path);
    assert_eq!(again.identity().notes, Vec::<String>::new());
    assert_eq!(tree(&*again), before);
    kind.judge(path, name);
}

#[test]
fn files_and_directories_in_every_kind() {
    for (kind, name) in images(|kind| kind.images) {
        let image = image(name);
        let fs = kind.write(&image.path());
        let top = roomy(&*fs, name);
        let dir = fs
            .create(top, b"A new directory", NewKind::Directory, &ANY)
            .unwrap();
        for size in [0_usize, 1, 511, 512, 513, 5000, 70_000] {
            let name = format!("new file of {size}.txt");
            let file = fs
                .create(dir, name.as_bytes(), NewKind::Regular, &ANY)
                .unwrap();
            let data = diskfs_fixtures::pattern(&name, size);
            assert_eq!(fs.write_at(file, 0, &data).unwrap(), size);
            assert_eq!(read(&*fs, file), data);
        }
        for n in 0..300 {
            let name = format!("many files with long names {n}");
            fs.create(dir, name.as_bytes(), NewKind::Regular, &ANY)
                .unwrap();
        }
        for n in (0..300).step_by(3) {
            fs.unlink(dir, format!("MANY FILES with long names {n}").as_bytes())
                .unwrap();
        }
        assert_eq!(
            fs.rmdir(top, b"A new directory").unwrap_err().kind(),
            ErrorKind::NotEmpty
        );
        let below = fs.create(dir, b"BELOW", NewKind::Directory, &ANY).unwrap();
        fs.rename(
            dir,
            b"new file of 5000.txt",
            below,
            b"moved",
            RenameMode::Replace,
        )
        .unwrap();
        fs.rename(dir, b"BELOW", top, b"above", RenameMode::NoReplace)
            .unwrap();
        assert_eq!(fs.lookup(below, b"..").unwrap(), top);
        assert_eq!(fs.lookup(top, b"above").unwrap(), below);
        fs.create(top, b"gone", NewKind::Directory, &ANY).unwrap();
        fs.rmdir(top, b"GONE").unwrap();
        close(kind, fs, &image.path(), name);
    }
}

#[test]
fn sparse_writes_and_sizes_are_zeroes() {
    for (kind, name) in images(|kind| std::slice::from_ref(&kind.usual)) {
        let image = image(name);
        let fs = kind.write(&image.path());
        let file = fs
            .create(fs.root(), b"sparse", NewKind::Regular, &ANY)
            .unwrap();
        fs.write_at(file, 0, &[7; 9000]).unwrap();
        fs.set_len(file, 100).unwrap();
        fs.write_at(file, 20_000, b"end").unwrap();
        let mut expected = vec![7; 100];
        expected.resize(20_000, 0);
        expected.extend(b"end");
        assert_eq!(read(&*fs, file), expected);
        fs.set_len(file, 30_000).unwrap();
        expected.resize(30_000, 0);
        assert_eq!(read(&*fs, file), expected);
        fs.fallocate(file, 0, 40_000, Fallocate::Allocate).unwrap();
        expected.resize(40_000, 0);
        fs.sync().unwrap();
        fs.set_len(file, 10_000).unwrap();
        fs.write_at(file, 10_000, &[9; 10_000]).unwrap();
        expected.truncate(10_000);
        expected.resize(20_000, 9);
        assert_eq!(read(&*fs, file), expected);
        let punch = fs.fallocate(file, 0, 1, Fallocate::PunchHole).unwrap_err();
        assert_eq!(punch.kind(), ErrorKind::Unsupported);
        assert_eq!(
            fs.set_len(file, kind.too_large).unwrap_err().kind(),
            ErrorKind::FileTooLarge
        );
        assert_eq!(
            fs.write_at(file, kind.too_far, b"x").unwrap_err().kind(),
            ErrorKind::FileTooLarge
        );
        close(kind, fs, &image.path(), name);
    }
}

#[test]
fn a_full_disk_takes_what_fits() {
    for (kind, name) in images(|kind| &kind.filled) {
        let image = image(name);
        let fs = kind.write(&image.path());
        let dir = roomy(&*fs, name);
        let file = fs.create(dir, b"all", NewKind::Regular, &ANY).unwrap();
        let room = fs.statistics().unwrap();
        let room = usize::try_from(room.blocks_free * u64::from(room.block_size)).unwrap();
        let data = vec![1; room + 1];
        assert_eq!(fs.write_at(file, 0, &data).unwrap(), room);
        assert_eq!(fs.statistics().unwrap().blocks_free, 0);
        let no_space = |result: diskfs_vfs::Result<()>| {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::NoSpace);
        };
        no_space(fs.write_at(file, room as u64, b"x").map(drop));
        no_space(fs.set_len(file, room as u64 + 1));
        no_space(fs.create(dir, b"d", NewKind::Directory, &ANY).map(drop));
        // Freed space can be allocated again without an explicit sync.
        fs.set_len(file, 0).unwrap();
        assert_eq!(fs.write_at(file, 0, &data).unwrap(), room);
        fs.unlink(dir, b"all").unwrap();
        fs.create(dir, b"d", NewKind::Directory, &ANY).unwrap();
        close(kind, fs, &image.path(), name);
    }
}

/// Returns the number of extents of a file.
fn extents(fs: &dyn FsWrite, file: InodeNumber) -> usize {
    fs.extents_of(file, 0).unwrap().count()
}

#[test]
fn files_that_grow_in_turns_are_in_pieces() {
    for (kind, name) in images(|kind| kind.images) {
        let image = image(name);
        let fs = kind.write(&image.path());
        let cluster = usize::try_from(fs.statistics().unwrap().block_size).unwrap();
        let top = roomy(&*fs, name);
        let create = |name: &[u8]| fs.create(top, name, NewKind::Regular, &ANY).unwrap();
        let (one, two) = (create(b"one"), create(b"two"));
        let mut expected = Vec::new();
        for round in 0..6_u8 {
            for file in [one, two] {
                fs.write_at(file, expected.len() as u64, &vec![round; cluster + 1])
                    .unwrap();
            }
            expected.resize(expected.len() + cluster + 1, round);
        }
        assert!(extents(&*fs, one) > 3 && extents(&*fs, two) > 3);
        // Truncate within an extent, and extend again before and after the truncation is durable.
        fs.set_len(one, 2 * cluster as u64 + 5).unwrap();
        fs.write_at(one, 2 * cluster as u64 + 5, &vec![9; 3 * cluster])
            .unwrap();
        fs.sync().unwrap();
        fs.set_len(one, cluster as u64 + 5).unwrap();
        fs.sync().unwrap();
        fs.write_at(one, cluster as u64 + 5, &vec![8; 2 * cluster])
            .unwrap();
        let mut cut = expected[..cluster + 5].to_vec();
        cut.resize(3 * cluster + 5, 8);
        assert_eq!((read(&*fs, one), read(&*fs, two)), (cut, expected));
        close(kind, fs, &image.path(), name);
    }
}

#[test]
fn an_open_file_outlives_its_name() {
    for (kind, name) in images(|kind| std::slice::from_ref(&kind.usual)) {
        let image = image(name);
        let fs = kind.write(&image.path());
        let file = fs
            .create(fs.root(), b"open", NewKind::Regular, &ANY)
            .unwrap();
        fs.write_at(file, 0, b"contents").unwrap();
        fs.hold(file);
        let other = fs
            .create(fs.root(), b"other", NewKind::Regular, &ANY)
            .unwrap();
        fs.write_at(other, 0, b"other").unwrap();
        fs.rename(fs.root(), b"other", fs.root(), b"open", RenameMode::Replace)
            .unwrap();
        assert_eq!(fs.lookup(fs.root(), b"open").unwrap(), other);
        assert_eq!(
            (read(&*fs, file), read(&*fs, other)),
            (b"contents".to_vec(), b"other".to_vec())
        );
        assert_eq!(fs.metadata(file).unwrap().links, 0);
        fs.write_at(file, 8, &[b'x'; 5000]).unwrap();
        // The place of its entry can belong to another file by now.
        let third = fs
            .create(fs.root(), b"third", NewKind::Regular, &ANY)
            .unwrap();
        assert!(third != file && third != other);
        fs.release(file).unwrap();
        assert_eq!(fs.metadata(file).unwrap_err().kind(), ErrorKind::NotFound);
        fs.hold(third);
        fs.unlink(fs.root(), b"third").unwrap();
        close(kind, fs, &image.path(), name);
    }
}

#[test]
fn renames() {
    for (kind, name) in images(|kind| std::slice::from_ref(&kind.small_clusters)) {
        let image = image(name);
        let fs = kind.write(&image.path());
        let root = fs.root();
        let a = fs.create(root, b"name", NewKind::Regular, &ANY).unwrap();
        let dir = fs.create(root, b"dir", NewKind::Directory, &ANY).unwrap();
        let names = |dir| -> Vec<String> {
            let entries = fs
                .read_dir(dir, 0)
                .unwrap()
                .map(|entry| entry.unwrap().name);
            entries
                .map(|name| String::from_utf8(name).unwrap())
                .collect()
        };
        let rename = |from: &str, to: &str| {
            fs.rename(
                root,
                from.as_bytes(),
                root,
                to.as_bytes(),
                RenameMode::Replace,
            )
            .map_err(|e| e.kind())
        };
        rename("name", "NAME").unwrap();
        assert!(
            names(root).contains(&"NAME".to_owned()) && !names(root).contains(&"name".to_owned())
        );
        rename(
            "NAME",
            "Name that is much longer than the other, and takes more entries",
        )
        .unwrap();
        rename(
            "name that is much longer than the other, and takes more entries",
            "short",
        )
        .unwrap();
        assert_eq!(fs.lookup(root, b"SHORT").unwrap(), a);
        assert_eq!(rename("short", "dir"), Err(ErrorKind::IsADirectory));
        assert_eq!(rename("dir", "short"), Err(ErrorKind::NotADirectory));
        assert_eq!(rename("none", "short"), Err(ErrorKind::NotFound));
        assert_eq!(rename("short", "a:b"), Err(ErrorKind::Invalid));
        let below = fs.create(dir, b"below", NewKind::Directory, &ANY).unwrap();
        let e = fs
            .rename(root, b"dir", below, b"loop", RenameMode::Replace)
            .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid);
        let e = fs
            .rename(root, b"short", root, b"dir", RenameMode::NoReplace)
            .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Exists);
        let e = fs
            .rename(root, b"short", root, b"dir", RenameMode::Exchange)
            .unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        fs.rename(root, b"short", below, b"deep", RenameMode::Replace)
            .unwrap();
        assert_eq!(fs.lookup(below, b"deep").unwrap(), a);
        fs.create(root, b"vacant", NewKind::Directory, &ANY)
            .unwrap();
        fs.rename(dir, b"below", root, b"vacant", RenameMode::Replace)
            .unwrap();
        assert_eq!(fs.lookup(root, b"vacant").unwrap(), below);
        assert_eq!(fs.lookup(below, b"..").unwrap(), root);
        close(kind, fs, &image.path(), name);
    }
}

#[test]
fn what_they_have_no_room_for() {
    for (kind, name) in images(|kind| std::slice::from_ref(&kind.usual)) {
        let image = image(name);
        let fs = kind.write(&image.path());
        let root = fs.root();
        let refused = |result: diskfs_vfs::Result<InodeNumber>| result.unwrap_err().kind();
        let create = |name: &[u8], what| fs.create(root, name, what, &ANY);
        assert_eq!(
            refused(create(b"link", NewKind::Symlink(b"x"))),
            ErrorKind::Unsupported
        );
        assert_eq!(
            refused(create(b"fifo", NewKind::Fifo)),
            ErrorKind::Unsupported
        );
        assert_eq!(
            refused(create(b"a|b", NewKind::Regular)),
            ErrorKind::Invalid
        );
        assert_eq!(
            refused(create(&[b'n'; 256], NewKind::Regular)),
            ErrorKind::NameTooLong
        );
        assert_eq!(
            refused(create(kind.existing, NewKind::Regular)),
            ErrorKind::Exists
        );
        let file = create(b"file", NewKind::Regular).unwrap();
        assert_eq!(
            fs.link(file, root, b"link").unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        let at = Timestamp {
            seconds: 1_000_000_001,
            nanoseconds: 5,
        };
        let change = SetMetadata {
            permissions: Some(0o444),
            uid: Some(1000),
            modified: Some(SetTime::At(at)),
            ..SetMetadata::default()
        };
        fs.set_metadata(file, &change).unwrap();
        let metadata = fs.metadata(file).unwrap();
        assert_eq!((metadata.permissions, metadata.uid), (0o555, 0));
        assert_eq!(
            (metadata.modified.seconds, metadata.modified.nanoseconds),
            kind.odd_second
        );
        close(kind, fs, &image.path(), name);
    }
}

#[test]
fn what_was_given_up_was_never_there() {
    for (kind, name) in images(|kind| kind.images) {
        let image = image(name);
        let path = image.path();
        let fs = kind.write(&path);
        let top = roomy(&*fs, name);
        let file = fs.create(top, b"kept", NewKind::Regular, &ANY);
        fs.write_at(file.unwrap(), 0, b"before").unwrap();
        fs.close().unwrap();
        assert_eq!(fs.abandon().unwrap(), Remains::All);
        drop(fs);
        let before = tree(&*kind.write(&path));

        let fs = kind.write(&path);
        let kept = fs.lookup(top, b"kept").unwrap();
        fs.set_len(kept, 0).unwrap();
        fs.write_at(kept, 0, &vec![7; 30_000]).unwrap();
        let dir = fs.create(top, b"A new directory", NewKind::Directory, &ANY);
        fs.create(dir.unwrap(), b"new", NewKind::Regular, &ANY)
            .unwrap();
        assert_eq!(fs.abandon().unwrap(), Remains::Nothing, "{name}");
        let late = fs.create(top, b"late", NewKind::Regular, &ANY);
        assert_eq!(late.unwrap_err().kind(), ErrorKind::ReadOnly);
        drop(fs);
        kind.judge(&path, name);
        let fs = kind.write(&path);
        assert_eq!(fs.identity().notes, Vec::<String>::new());
        assert_eq!(tree(&*fs), before, "{name}");
        fs.create(top, b"durable", NewKind::Regular, &ANY).unwrap();
        fs.sync().unwrap();
        assert_eq!(fs.abandon().unwrap(), Remains::Some);
    }
}
