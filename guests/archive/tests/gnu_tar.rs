//! Archives that GNU tar writes of a directory, with everything that it can store.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{judge, listing, require_judge, same};
use diskfs_archive::tree::{Limits, WriteOptions};
use diskfs_archive::{Layer, Tree};
use diskfs_fixtures::have;
use diskfs_vfs::testing::WritableMemoryFs;
use diskfs_vfs::{FileExtentKind, FsRead};

const MIB: u64 = 1 << 20;

/// The offsets of the data in the sparse file, of 10 bytes each.
const DATA: [u64; 6] = [MIB, 3 * MIB, 5 * MIB, 7 * MIB, 9 * MIB, 11 * MIB];

fn run(program: &str, args: &[&str]) {
    diskfs_fixtures::run(program, args).unwrap();
}

fn fill(dir: &Path) {
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    std::fs::create_dir_all(dir.join("sub/deep")).unwrap();
    std::fs::write(path("plain"), "text").unwrap();
    let sparse = File::create(path("sparse")).unwrap();
    for offset in DATA {
        sparse.write_all_at(b"0123456789", offset).unwrap();
    }
    sparse.set_len(20 * MIB).unwrap();
    let hole = File::create(path("hole")).unwrap();
    hole.set_len(5 * MIB).unwrap();
    std::fs::hard_link(path("plain"), path("sub/other")).unwrap();
    std::os::unix::fs::symlink("../plain", path("sub/link")).unwrap();
    run("mkfifo", &[&path("fifo")]);
    run("mknod", &[&path("null"), "c", "1", "3"]);
    run("chown", &["3000000:4000000", &path("sub/deep")]);
    run(
        "setfattr",
        &["-n", "user.a", "-v", "one\ntwo=3", &path("plain")],
    );
    let acl = "u:70001:rw,g:70005:r,m::rw,o::-";
    run("setfacl", &["-m", acl, &path("plain")]);
    run("setfacl", &["-d", "-m", "u:70007:rwx", &path("sub")]);
    run("chmod", &["6751", &path("sub/deep")]);
    for name in [
        "", "sub", "sub/deep", "plain", "sparse", "hole", "fifo", "null",
    ] {
        run(
            "touch",
            &["-d", "2020-02-02 02:02:02.123456789 UTC", &path(name)],
        );
    }
    run("touch", &["-h", "-d", "2019-02-02 UTC", &path("sub/link")]);
}

fn unpack(archive: &Path) -> WritableMemoryFs {
    let layer = Layer::open(archive, 0).unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    let tree = Tree::plan(&[layer], &Limits::default(), go_on).unwrap();
    let allocated: u64 = tree.nodes().map(|node| node.allocated_bytes).sum();
    assert_eq!(allocated, 4096 * (DATA.len() as u64 + 1));
    let fs = WritableMemoryFs::new();
    tree.write_to(&fs, &WriteOptions::default(), go_on).unwrap();
    fs
}

/// Returns the number of bytes of a file that are not in holes.
fn data_bytes(fs: &WritableMemoryFs, name: &str) -> u64 {
    let inode = fs.lookup(fs.root(), name.as_bytes()).unwrap();
    let extents = fs.extents_of(inode, 0).unwrap().map(Result::unwrap);
    let data = extents.filter(|extent| extent.kind != FileExtentKind::Hole);
    data.map(|extent| extent.len_bytes).sum()
}

#[test]
fn everything_that_gnu_tar_stores_arrives() {
    if !require_judge() || !have(&["tar", "setfattr", "setfacl"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    std::fs::create_dir(&source).unwrap();
    fill(&source);
    let expected = judge("list", &source, &[]);
    for version in [
        "--sparse-version=0.0",
        "--sparse-version=0.1",
        "--sparse-version=1.0",
    ] {
        let archive = dir.path().join("archive.tar");
        let (archive_text, source) = (archive.to_str().unwrap(), source.to_str().unwrap());
        let options = ["--format=pax", "--sparse", version, "--xattrs", "--acls"];
        let rest = ["--numeric-owner", "-cf", archive_text, "-C", source, "."];
        run("tar", &[&options[..], &rest].concat());
        let fs = unpack(&archive);
        same(&listing(&fs), &expected, version);
        assert_eq!(data_bytes(&fs, "sparse"), 4096 * DATA.len() as u64);
        assert_eq!(data_bytes(&fs, "hole"), 0);
    }
}

#[test]
fn sparse_files_in_the_old_format_keep_their_holes() {
    if !have(&["tar"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    let file = File::create(&path).unwrap();
    for offset in DATA {
        file.write_all_at(b"0123456789", offset).unwrap();
    }
    file.set_len(20 * MIB).unwrap();
    std::fs::write(dir.path().join("after"), "x").unwrap();
    let archive = dir.path().join("archive.tar");
    let (archive_text, dir) = (archive.to_str().unwrap(), dir.path().to_str().unwrap());
    let options = ["--format=gnu", "--sparse", "-cf", archive_text, "-C", dir];
    run("tar", &[&options[..], &["sparse", "after"]].concat());
    let fs = unpack(&archive);
    assert_eq!(data_bytes(&fs, "sparse"), 4096 * DATA.len() as u64);
    let inode = fs.lookup(fs.root(), b"sparse").unwrap();
    assert_eq!(fs.metadata(inode).unwrap().size_bytes, 20 * MIB);
    let mut read = [0; 10];
    fs.read_at(inode, DATA[5], &mut read).unwrap();
    assert_eq!(&read, b"0123456789");
}
