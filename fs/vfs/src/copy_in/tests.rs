//! Copies of host trees into a filesystem in memory.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, Timespec, Timestamps};
use tempfile::TempDir;

use super::*;
use crate::copy_out::CopyOptions;
use crate::testing::{Limits, WritableMemoryFs};
use crate::{
    ErrorKind, FileExtentKind, FileType, FsRead, Metadata, NewAttributes, NewKind, SetXattr,
    Timestamp, copy_out, resolve,
};

fn stat(fs: &dyn FsRead, path: &str) -> Metadata {
    fs.metadata(resolve(fs, path, Follow::AllButLast).unwrap())
        .unwrap()
}

fn read(fs: &dyn FsRead, path: &str) -> Vec<u8> {
    crate::read_file(fs, stat(fs, path).inode, 1 << 20).unwrap()
}

fn copy(fs: &WritableMemoryFs, source: &Path, name: &str, options: &CopyInOptions) -> Summary {
    copy_in(
        fs,
        source,
        CopyTo::Name(fs.root(), name.as_bytes()),
        options,
        &mut |_, _| ControlFlow::Continue(()),
    )
    .unwrap()
}

fn plain() -> CopyInOptions {
    CopyInOptions {
        preserve: Preserve::NOTHING,
        ..CopyInOptions::default()
    }
}

/// Returns a tree with a file of each type.
fn host_tree() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/file"), b"contents").unwrap();
    fs::set_permissions(at("d/file"), fs::Permissions::from_mode(0o6754)).unwrap();
    fs::hard_link(at("d/file"), at("d/second")).unwrap();
    symlink("../nowhere", at("d/link")).unwrap();
    fs::write(at("empty"), b"").unwrap();
    let sparse = File::create(at("sparse")).unwrap();
    sparse.write_all_at(&[7; 4096], 1 << 20).unwrap();
    sparse.set_len(4 << 20).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(CWD, at("fifo"), fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(-5, 123_456_789),
        last_modification: time(1 << 32, 987_654_321),
    };
    for name in ["d/file", "d"] {
        rustix::fs::utimensat(CWD, at(name), &times, rustix::fs::AtFlags::empty()).unwrap();
    }
    dir
}

#[test]
fn everything_arrives() {
    let tree = host_tree();
    let fs = WritableMemoryFs::new();
    let summary = copy(&fs, tree.path(), "copy", &CopyInOptions::default());
    assert!(summary.errors.is_empty(), "{summary:?}");
    let counts = (summary.files, summary.directories, summary.symlinks);
    assert_eq!(counts, (3, 2, 1));
    assert_eq!((summary.hard_links, summary.specials), (1, 1));
    let file = stat(&fs, "/copy/d/file");
    assert_eq!(read(&fs, "/copy/d/file"), b"contents");
    assert_eq!((file.permissions, file.links), (0o6754, 2));
    assert_eq!(file.inode, stat(&fs, "/copy/d/second").inode);
    let host = tree.path().join("d/file").metadata().unwrap();
    assert_eq!((file.uid, file.gid), (host.uid(), host.gid()));
    let modified = Timestamp {
        seconds: 1 << 32,
        nanoseconds: 987_654_321,
    };
    assert_eq!(file.modified, modified);
    assert_eq!(file.accessed.nanoseconds, 123_456_789);
    assert_eq!(
        stat(&fs, "/copy/d").modified,
        modified,
        "after it was filled"
    );
    let link = stat(&fs, "/copy/d/link");
    assert_eq!(fs.read_link(link.inode).unwrap(), b"../nowhere");
    assert_eq!(stat(&fs, "/copy/fifo").file_type, FileType::Fifo);
    let sparse = stat(&fs, "/copy/sparse");
    assert_eq!(sparse.size_bytes, 4 << 20);
    let stored = fs.extents_of(sparse.inode, 0).unwrap().map(Result::unwrap);
    let stored = stored.filter(|extent| extent.kind != FileExtentKind::Hole);
    let stored: u64 = stored.map(|extent| extent.len_bytes).sum();
    assert!(stored <= 64 << 10, "{stored}");
    // The entries are copied into an existing directory.
    let to = CopyTo::Directory(fs.root());
    copy_in(&fs, tree.path(), to, &plain(), &mut |_, _| {
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(read(&fs, "/d/file"), b"contents");
    // The tree is copied to the host again.
    let out = tree.path().join("out");
    let start = stat(&fs, "/copy/d").inode;
    copy_out(&fs, start, &out, &CopyOptions::default(), &mut |_, _| {
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(fs::read(out.join("second")).unwrap(), b"contents");
}

#[test]
fn without_preserving_files_are_the_guests_own() {
    let tree = host_tree();
    let fs = WritableMemoryFs::new();
    let options = CopyInOptions {
        uid: 1000,
        gid: 100,
        umask: 0o027,
        ..plain()
    };
    copy(&fs, tree.path(), "copy", &options);
    let file = stat(&fs, "/copy/d/file");
    assert_eq!((file.permissions, file.uid, file.gid), (0o750, 1000, 100));
    assert!(file.modified.seconds < 1 << 32);
}

#[test]
fn what_is_in_the_way_gives_way_or_stays() {
    let tree = host_tree();
    let fs = WritableMemoryFs::new();
    let attributes = NewAttributes {
        uid: 7,
        ..NewAttributes::for_root(0o640)
    };
    let add = |name: &[u8], kind| fs.create(fs.root(), name, kind, &attributes).unwrap();
    let old = add(b"old", NewKind::Regular);
    fs.write_at(old, 0, &[1; 100]).unwrap();
    fs.set_xattr(old, b"user.mine", b"x", SetXattr::Any)
        .unwrap();
    add(b"link", NewKind::Symlink(b"old"));
    add(b"dir", NewKind::Directory);
    let source = tree.path().join("d/file");
    // Only the contents are copied.
    copy(&fs, &source, "old", &plain());
    let now = stat(&fs, "/old");
    assert_eq!((now.inode, now.permissions, now.uid), (old, 0o640, 7));
    assert_eq!(read(&fs, "/old"), b"contents");
    assert!(fs.xattr(old, b"user.mine").unwrap().is_some());
    // The symlink itself is copied, not its target.
    let target = tree.path().join("empty");
    copy(&fs, &target, "link", &plain());
    assert_eq!(stat(&fs, "/link").file_type, FileType::Regular);
    assert_eq!(read(&fs, "/old"), b"contents");
    let kind = |summary: &Summary| summary.errors[0].kind();
    let summary = copy(&fs, &source, "dir", &plain());
    assert_eq!(kind(&summary), ErrorKind::IsADirectory);
    let summary = copy(&fs, tree.path(), "old", &plain());
    assert_eq!(kind(&summary), ErrorKind::NotADirectory);
    let keep = CopyInOptions {
        existing: Existing::Keep,
        ..plain()
    };
    let summary = copy(&fs, &target, "old", &keep);
    assert_eq!(kind(&summary), ErrorKind::Exists);
    assert_eq!(read(&fs, "/old"), b"contents");
}

#[test]
fn names_of_one_file_do_not_overwrite_each_other() {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("a"), "a").unwrap();
    fs::write(tree.path().join("b"), "b").unwrap();
    let fs = WritableMemoryFs::new();
    let attributes = NewAttributes::for_root(0o755);
    let dir = fs
        .create(fs.root(), b"d", NewKind::Directory, &attributes)
        .unwrap();
    let one = fs.create(dir, b"a", NewKind::Regular, &attributes).unwrap();
    fs.link(one, dir, b"b").unwrap();
    copy(&fs, tree.path(), "d", &plain());
    assert_eq!(
        (read(&fs, "/d/a"), read(&fs, "/d/b")),
        (b"a".into(), b"b".into())
    );
    // A second copy: names that are one file in the source stay or become one file.
    fs::remove_file(tree.path().join("b")).unwrap();
    fs::hard_link(tree.path().join("a"), tree.path().join("b")).unwrap();
    for _ in 0..2 {
        let summary = copy(&fs, tree.path(), "d", &plain());
        assert!(summary.errors.is_empty(), "{summary:?}");
        assert_eq!(stat(&fs, "/d/a").inode, stat(&fs, "/d/b").inode);
        assert_eq!(stat(&fs, "/d/a").links, 2);
    }
}

#[test]
fn attributes_are_the_sources_and_not_inherited() {
    let tree = tempfile::tempdir().unwrap();
    let file = tree.path().join("f");
    fs::write(&file, "x").unwrap();
    let set = rustix::fs::setxattr(&file, "user.a", b"1", rustix::fs::XattrFlags::empty());
    if set.is_err() {
        return; // A host filesystem without attributes.
    }
    let fs = WritableMemoryFs::new();
    // acl(5), xattr format: version 2, then owner rwx, group rwx, other nothing.
    let entry = |tag: u16, permissions: u16| {
        let parts = [
            tag.to_le_bytes(),
            permissions.to_le_bytes(),
            [0xff; 2],
            [0xff; 2],
        ];
        parts.concat()
    };
    let named = [0x02_u16.to_le_bytes(), 7_u16.to_le_bytes(), [5, 0], [0, 0]].concat();
    let acl = [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 7),
        named,
        entry(0x04, 7),
        entry(0x10, 7),
        entry(0x20, 0),
    ]
    .concat();
    let default = b"system.posix_acl_default";
    fs.set_xattr(fs.root(), default, &acl, SetXattr::Any)
        .unwrap();
    copy(&fs, &file, "plain", &plain());
    let names = |path: &str| fs.list_xattrs(stat(&fs, path).inode).unwrap();
    assert!(names("/plain").contains(&b"system.posix_acl_access".to_vec()));
    copy(&fs, &file, "kept", &CopyInOptions::default());
    assert_eq!(names("/kept"), [b"user.a".to_vec()]);
    let kept = fs.xattr(stat(&fs, "/kept").inode, b"user.a").unwrap();
    assert_eq!(kept.unwrap(), b"1");
}

#[test]
fn goes_on_or_stops_after_an_error_and_refuses_the_image() {
    let tree = host_tree();
    let image = tree.path().join("empty").metadata().unwrap();
    let mut options = CopyInOptions {
        refused: vec![(image.dev(), image.ino())],
        ..plain()
    };
    let fs = WritableMemoryFs::new();
    let summary = copy(&fs, tree.path(), "copy", &options);
    assert_eq!(summary.error_count, 1);
    assert_eq!(summary.errors[0].path(), Some(&b"empty"[..]));
    assert_eq!(read(&fs, "/copy/d/file"), b"contents");
    options.on_error = OnError::Stop;
    let place = CopyTo::Name(fs.root(), b"again");
    let stopped = copy_in(&fs, tree.path(), place, &options, &mut |_, _| {
        ControlFlow::Continue(())
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Invalid);
    let missing = copy_in(&fs, Path::new("/nowhere"), place, &options, &mut |_, _| {
        ControlFlow::Continue(())
    });
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    let full = WritableMemoryFs::with_limits(Limits {
        blocks: 2,
        inodes: 100,
    });
    fs::write(tree.path().join("large"), vec![1; 100_000]).unwrap();
    // An error that may leave a file half copied always ends the copy.
    let place = CopyTo::Name(full.root(), b"copy");
    let stopped = copy_in(&full, tree.path(), place, &plain(), &mut |_, _| {
        ControlFlow::Continue(())
    });
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::NoSpace);
}

#[test]
fn everything_arrives_from_a_filesystem() {
    let tree = host_tree();
    let (from, to) = (WritableMemoryFs::new(), WritableMemoryFs::new());
    copy(&from, tree.path(), "copy", &CopyInOptions::default());
    let source = |same| CopyFrom {
        fs: &from,
        inode: stat(&from, "/copy").inode,
        same,
    };
    let place = |fs: &WritableMemoryFs, name| {
        let to = CopyTo::Name(fs.root(), name);
        let options = CopyInOptions::default();
        copy_within(
            fs,
            source(std::ptr::eq(fs, &raw const from)),
            to,
            &options,
            &mut |_, _| ControlFlow::Continue(()),
        )
    };
    for (fs, name) in [(&to, "/a"), (&from, "/b")] {
        let summary = place(fs, &name.as_bytes()[1..]).unwrap();
        assert!(summary.errors.is_empty(), "{summary:?}");
        let counts = (summary.files, summary.directories, summary.symlinks);
        assert_eq!(counts, (3, 2, 1));
        assert_eq!((summary.hard_links, summary.specials), (1, 1));
        let at = |path: &str| format!("{name}{path}");
        assert_eq!(read(fs, &at("/d/file")), b"contents");
        let (file, before) = (stat(fs, &at("/d/file")), stat(&from, "/copy/d/file"));
        assert_eq!(file.inode, stat(fs, &at("/d/second")).inode);
        assert_eq!((file.permissions, file.links), (0o6754, 2));
        assert_eq!(file.modified, before.modified);
        assert_eq!(
            stat(fs, &at("/d")).modified,
            stat(&from, "/copy/d").modified
        );
        let sparse = stat(fs, &at("/sparse"));
        assert_eq!(sparse.size_bytes, 4 << 20);
        assert!(sparse.allocated_bytes <= 64 << 10, "{sparse:?}");
    }
}

#[test]
fn nothing_is_copied_onto_or_into_itself() {
    let tree = host_tree();
    let fs = WritableMemoryFs::new();
    copy(&fs, tree.path(), "copy", &CopyInOptions::default());
    let within = |source: &str, to: CopyTo<'_>| {
        let source = CopyFrom {
            fs: &fs,
            inode: stat(&fs, source).inode,
            same: true,
        };
        copy_within(&fs, source, to, &CopyInOptions::default(), &mut |_, _| {
            ControlFlow::Continue(())
        })
    };
    let d = stat(&fs, "/copy/d").inode;
    for name in [b"file", b"copy"] {
        let into = within("/copy", CopyTo::Name(d, name)).unwrap_err();
        assert_eq!(into.kind(), ErrorKind::Invalid);
    }
    let onto = within("/copy/d", CopyTo::Directory(d)).unwrap_err();
    assert_eq!(onto.kind(), ErrorKind::Invalid);
    // The file is also refused by its other name.
    for name in [&b"file"[..], b"second"] {
        let summary = within("/copy/d/file", CopyTo::Name(d, name)).unwrap();
        assert_eq!(summary.errors[0].kind(), ErrorKind::Invalid);
        assert_eq!(read(&fs, "/copy/d/file"), b"contents");
    }
}
