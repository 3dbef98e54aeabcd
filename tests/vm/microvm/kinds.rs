//! Each kind of filesystem: written, found clean by its own checker, and equal to what the kernel's
//! mount shows.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use diskfs_fixtures::{Entry, Mount, Tree, Workshop, pattern, require_root, run};

use super::{appliance, at, check, command, diskfs, open, require_all, stderr};

/// A kind of filesystem.
struct FilesystemKind {
    mkfs: &'static [&'static str],
    check: &'static [&'static str],
    /// True if the kernel of this machine may support it, too.
    mounts: bool,
    size_bytes: u64,
}

const XFS: FilesystemKind = FilesystemKind {
    mkfs: &["mkfs.xfs", "-q"],
    check: &["xfs_repair", "-n"],
    mounts: true,
    size_bytes: 320 << 20,
};
const XFS_V4: FilesystemKind = FilesystemKind {
    mkfs: &["mkfs.xfs", "-q", "-m", "crc=0"],
    // Newer kernels are built without it.
    mounts: false,
    ..XFS
};
const BTRFS: FilesystemKind = FilesystemKind {
    mkfs: &["mkfs.btrfs", "-q"],
    check: &["btrfs", "check"],
    mounts: true,
    size_bytes: 256 << 20,
};
const F2FS: FilesystemKind = FilesystemKind {
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
const NTFS: FilesystemKind = FilesystemKind {
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

fn written_and_read_back(kind: &FilesystemKind) {
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
            theirs.statfs = None; // The available space is an estimate, which differs by version.
        }
        assert_eq!(ours.differences(&theirs), Vec::<String>::new());
    }
}

fn make(kind: &FilesystemKind, image: &Path) {
    let words = kind.mkfs[1..].iter().map(Path::new);
    run(kind.mkfs[0], words.chain([image])).unwrap();
}

/// Makes files of all types that every kind can store.
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

/// Checks that names, types and contents are equal. Additions of a kind (NTFS' and btrfs' sizes of
/// directories, NTFS' modes) are not compared here.
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

/// Makes a filesystem with these subvolumes. The first one has a system with the lines of fstab
/// that `table` makes of the subvolumes' numbers; the last one has the file `file`. If
/// `is_default`, the first one is the default subvolume.
fn system_in_subvolumes(
    image: &Path,
    subvolumes: &[&str],
    is_default: bool,
    table: impl Fn(&str, &[u64]) -> String,
) {
    make(&BTRFS, image);
    let words = ["-o", "loop"].map(Path::new);
    let mounted = Mount::by("mount", words.into_iter().chain([image])).unwrap();
    let btrfs = |words: &[&str], at: &Path| {
        let words = words.iter().map(Path::new);
        run("btrfs", words.chain([at])).unwrap()
    };
    let mut ids = Vec::new();
    for subvolume in subvolumes {
        let at = mounted.path().join(subvolume);
        btrfs(&["subvolume", "create"], &at);
        let id = btrfs(&["inspect-internal", "rootid"], &at);
        ids.push(id.trim().parse().unwrap());
    }
    let root = mounted.path().join(subvolumes[0]);
    for dir in ["etc", "usr/lib", "home"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    let release = "ID=test\nPRETTY_NAME=Test\n";
    fs::write(root.join("usr/lib/os-release"), release).unwrap();
    symlink("../usr/lib/os-release", root.join("etc/os-release")).unwrap();
    let words = ["-o", "value", "-s", "UUID"].map(Path::new);
    let uuid = run("blkid", words.into_iter().chain([image])).unwrap();
    fs::write(root.join("etc/fstab"), table(uuid.trim(), &ids)).unwrap();
    let last = subvolumes.last().unwrap();
    fs::write(mounted.path().join(last).join("file"), "of mine").unwrap();
    if is_default {
        btrfs(&["subvolume", "set-default"], &root);
    }
    mounted.unmount().unwrap();
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
    system_in_subvolumes(&image, &["@", "@home"], false, |uuid, _| {
        format!("UUID={uuid} / btrfs subvol=/@ 0 0\nUUID={uuid} /home btrfs subvol=/@home 0 0\n")
    });
    let read = |path: &str| diskfs(&appliance, &["cat".as_ref(), &at(&image, path)]);
    assert_eq!(read("/etc/os-release"), b"ID=test\nPRETTY_NAME=Test\n");
    assert_eq!(read("/home/file"), b"of mine");
    diskfs(&appliance, &["rm".as_ref(), &at(&image, "/home/file")]);
    check("btrfs", &["check"], &image);
    let listed = diskfs(&appliance, &["ls".as_ref(), &at(&image, "/home")]);
    assert_eq!(listed, b"");
}

#[test]
fn a_system_in_the_default_subvolume_with_others_by_number() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.btrfs", "btrfs"]) else {
        return;
    };
    let Some(()) = require_root() else { return };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", BTRFS.size_bytes).unwrap();
    // The name of the first one is not one that installers use.
    let subvolumes = ["rolled-back", "data", "data/home"];
    system_in_subvolumes(&image, &subvolumes, true, |uuid, ids| {
        let home = ids[2];
        format!(
            "UUID={uuid} / btrfs defaults 0 0\nUUID={uuid} /home btrfs subvolid={home} 0 0\n\
             UUID={uuid} /srv btrfs subvolid=99999 0 0\n"
        )
    });
    let read = |path: &str| diskfs(&appliance, &["cat".as_ref(), &at(&image, path)]);
    assert_eq!(read("/etc/os-release"), b"ID=test\nPRETTY_NAME=Test\n");
    assert_eq!(read("/home/file"), b"of mine");
    let explain = ["mount", "--explain"].map(std::ffi::OsStr::new);
    let explained = diskfs(&appliance, &[explain[0], explain[1], image.as_os_str()]);
    let explained = String::from_utf8(explained).unwrap();
    let srv = explained
        .lines()
        .find(|line| line.contains("/srv"))
        .unwrap();
    assert!(
        srv.contains("subvolume") && srv.contains("99999"),
        "{explained}"
    );
}
