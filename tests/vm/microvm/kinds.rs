//! Each kind is written, found clean by its own checker, and is what the kernel's mount shows.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use diskfs_fixtures::{Entry, Mount, Tree, Workshop, pattern, require_root, run};

use super::{appliance, at, check, command, diskfs, open, require_all, stderr};

/// A kind of filesystem.
struct Kind {
    mkfs: &'static [&'static str],
    check: &'static [&'static str],
    /// Whether the kernel of this machine may know it, too.
    mounts: bool,
    size_bytes: u64,
}

const XFS: Kind = Kind {
    mkfs: &["mkfs.xfs", "-q"],
    check: &["xfs_repair", "-n"],
    mounts: true,
    size_bytes: 320 << 20,
};
const XFS_V4: Kind = Kind {
    mkfs: &["mkfs.xfs", "-q", "-m", "crc=0"],
    // Newer kernels are built without it.
    mounts: false,
    ..XFS
};
const BTRFS: Kind = Kind {
    mkfs: &["mkfs.btrfs", "-q"],
    check: &["btrfs", "check"],
    mounts: true,
    size_bytes: 256 << 20,
};
const F2FS: Kind = Kind {
    mkfs: &[
        "mkfs.f2fs",
        "-q",
        "-O",
        "extra_attr,inode_checksum,sb_checksum",
    ],
    check: &["fsck.f2fs", "--dry-run"],
    mounts: false,
    size_bytes: 128 << 20,
};
const NTFS: Kind = Kind {
    mkfs: &["mkntfs", "-Q", "-q", "-F"],
    check: &["ntfsfix", "-n"],
    mounts: false,
    size_bytes: 64 << 20,
};

#[test]
fn xfs() {
    written_and_read_back(&XFS);
}

#[test]
fn xfs_version_4() {
    written_and_read_back(&XFS_V4);
}

#[test]
fn btrfs() {
    written_and_read_back(&BTRFS);
}

#[test]
fn f2fs() {
    written_and_read_back(&F2FS);
}

#[test]
fn ntfs() {
    written_and_read_back(&NTFS);
}

fn written_and_read_back(kind: &Kind) {
    let Some(appliance) = appliance() else { return };
    let (mkfs, checker) = (kind.mkfs[0], kind.check[0]);
    let Some(()) = require_all(&[mkfs, checker, "tar"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", kind.size_bytes).unwrap();
    make(kind, &image);
    let source = source_tree(&shop);

    tar_in(&appliance, &image, &source);
    let changes: [&[&OsStr]; 3] = [
        &["mkdir".as_ref(), &at(&image, "/new")],
        &[
            "mv".as_ref(),
            &at(&image, "/etc/moved"),
            "/new/moved".as_ref(),
        ],
        &["rm".as_ref(), &at(&image, "/etc/removed")],
    ];
    for words in changes {
        diskfs(&appliance, words);
    }
    fs::create_dir(source.join("new")).unwrap();
    fs::rename(source.join("etc/moved"), source.join("new/moved")).unwrap();
    fs::remove_file(source.join("etc/removed")).unwrap();

    check(checker, &kind.check[1..], &image);
    let disk = open(&appliance, &image);
    let filesystem = disk.filesystem().unwrap();
    let ours = Tree::of_filesystem(filesystem.as_fs()).unwrap();
    same_contents(&Tree::of_directory(&source).unwrap(), &ours);
    drop(filesystem);
    disk.close().unwrap();
    if kind.mounts && require_root().is_some() {
        let words = ["-o", "loop,ro"].map(Path::new);
        let mounted = Mount::by("mount", words.into_iter().chain([image.as_path()])).unwrap();
        let mut theirs = Tree::of_directory(mounted.path()).unwrap();
        if checker == "btrfs" {
            theirs.statfs = None; // What is available is an estimate, which differs by version.
        }
        assert_eq!(ours.differences(&theirs), Vec::<String>::new());
    }
}

fn make(kind: &Kind, image: &Path) {
    let words = kind.mkfs[1..].iter().map(Path::new);
    run(kind.mkfs[0], words.chain([image])).unwrap();
}

/// Files of all sorts that every kind can hold.
fn source_tree(shop: &Workshop) -> PathBuf {
    let root = shop.path("tree");
    fs::create_dir_all(root.join("etc/deep/er")).unwrap();
    for (name, len) in [
        ("empty", 0),
        ("one", 1),
        ("page", 4096),
        ("odd", 70_001),
        ("large", 5 << 20),
    ] {
        fs::write(root.join(name), pattern(name, len)).unwrap();
    }
    fs::write(root.join("etc/moved"), "moved").unwrap();
    fs::write(root.join("etc/removed"), "removed").unwrap();
    fs::write(root.join("etc/deep/er/zwölf"), "12").unwrap();
    symlink("one", root.join("link")).unwrap();
    fs::hard_link(root.join("page"), root.join("again")).unwrap();
    for n in 0..300 {
        fs::write(root.join(format!("etc/deep/file-{n}")), n.to_string()).unwrap();
    }
    fs::set_permissions(root.join("one"), PermissionsExt::from_mode(0o640)).unwrap();
    root
}

fn tar_in(appliance: &Path, image: &Path, source: &Path) {
    let archive = source.with_extension("tar");
    let words = [
        Path::new("-cf"),
        &archive,
        Path::new("-C"),
        source,
        Path::new("."),
    ];
    run("tar", words).unwrap();
    let mut diskfs = command(appliance, ["tar-in".as_ref(), at(image, "/").as_os_str()]);
    diskfs.stdin(Stdio::from(fs::File::open(archive).unwrap()));
    let output = diskfs.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Names, kinds, and contents are the same. What a kind of its own adds (NTFS' and btrfs' sizes of
/// directories, its modes) is not compared here.
fn same_contents(expected: &Tree, found: &Tree) {
    let line = |entry: &Entry| {
        format!(
            "{} {} {:?} {:?}",
            entry.path, entry.kind, entry.content, entry.target
        )
    };
    let list = |tree: &Tree| -> Vec<String> {
        let entries = tree
            .entries
            .iter()
            .filter(|entry| entry.path != "lost+found");
        entries.map(line).collect()
    };
    assert_eq!(list(expected), list(found));
}

#[test]
fn a_system_in_subvolumes_of_btrfs() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.btrfs", "btrfs"]) else {
        return;
    };
    let Some(()) = require_root() else { return };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", BTRFS.size_bytes).unwrap();
    make(&BTRFS, &image);
    let words = ["-o", "loop"].map(Path::new);
    let mounted = Mount::by("mount", words.into_iter().chain([image.as_path()])).unwrap();
    for subvolume in ["@", "@home"] {
        let at = mounted.path().join(subvolume);
        run(
            "btrfs",
            ["subvolume".as_ref(), "create".as_ref(), at.as_os_str()],
        )
        .unwrap();
    }
    let root = mounted.path().join("@");
    for dir in ["etc", "usr/lib", "home"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::write(
        root.join("usr/lib/os-release"),
        "ID=test\nPRETTY_NAME=Test\n",
    )
    .unwrap();
    symlink("../usr/lib/os-release", root.join("etc/os-release")).unwrap();
    let uuid = run(
        "blkid",
        ["-o", "value", "-s", "UUID"]
            .map(Path::new)
            .into_iter()
            .chain([image.as_path()]),
    );
    let uuid = uuid.unwrap();
    let uuid = uuid.trim();
    let table =
        format!("UUID={uuid} / btrfs subvol=/@ 0 0\nUUID={uuid} /home btrfs subvol=/@home 0 0\n");
    fs::write(root.join("etc/fstab"), table).unwrap();
    fs::write(mounted.path().join("@home/file"), "of mine").unwrap();
    mounted.unmount().unwrap();

    let read = |path: &str| diskfs(&appliance, &["cat".as_ref(), &at(&image, path)]);
    assert_eq!(read("/etc/os-release"), b"ID=test\nPRETTY_NAME=Test\n");
    assert_eq!(read("/home/file"), b"of mine");
    diskfs(&appliance, &["rm".as_ref(), &at(&image, "/home/file")]);
    check("btrfs", &["check"], &image);
    let listed = diskfs(&appliance, &["ls".as_ref(), &at(&image, "/home")]);
    assert_eq!(listed, b"");
}
