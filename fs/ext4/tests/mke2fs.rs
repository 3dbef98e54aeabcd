//! Filesystems made by mke2fs with every set of features, compared with the tree they were made
//! from and with the output of dumpe2fs and debugfs.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use common::{debugfs, make_holes, make_tree, mke2fs, open, run};
use diskfs_ext4::{Ext4, Options};
use diskfs_fixtures::have;
use diskfs_vfs::{DirEntry, ErrorKind, FileExtentKind, FileType, FsRead, InodeNumber};

/// Filesystems with different features: a name, the arguments of mke2fs, the size.
const MATRIX: [(&str, &str, &str); 23] = [
    ("default", "-t ext4", "24M"),
    ("ext2: block maps, no journal", "-t ext2", "24M"),
    ("ext3", "-t ext3 -J size=1 -b 1024", "24M"),
    ("revision 0", "-r 0 -O none -I 128 -b 1024", "24M"),
    ("blocks of 1 KiB", "-t ext4 -b 1024", "24M"),
    ("blocks of 2 KiB", "-t ext4 -b 2048", "24M"),
    ("blocks of 64 KiB", "-t ext4 -b 65536", "64M"),
    ("inodes of 128 bytes", "-t ext4 -I 128", "24M"),
    ("inodes of 512 bytes", "-t ext4 -I 512", "24M"),
    ("inline data", "-t ext4 -O inline_data -I 256", "24M"),
    (
        "inline data in large inodes",
        "-t ext4 -O inline_data -I 1024",
        "24M",
    ),
    ("bigalloc", "-t ext4 -O bigalloc -C 16384", "24M"),
    ("bigalloc with 1 KiB", "-t ext4 -b 1024 -O bigalloc", "24M"),
    (
        "meta_bg",
        "-t ext4 -b 1024 -O meta_bg,^resize_inode -g 1024",
        "24M",
    ),
    (
        "meta_bg, 32 bit",
        "-t ext4 -b 1024 -O meta_bg,^resize_inode,^64bit -g 1024",
        "24M",
    ),
    ("no checksums", "-t ext4 -O ^metadata_csum,^64bit", "24M"),
    (
        "CRC-16 of descriptors",
        "-t ext4 -O ^metadata_csum,uninit_bg",
        "24M",
    ),
    ("a seed of its own", "-t ext4 -O metadata_csum_seed", "24M"),
    (
        "sparse_super2",
        "-t ext4 -O sparse_super2,^resize_inode",
        "24M",
    ),
    (
        "a copy in each group",
        "-t ext4 -O ^sparse_super,^resize_inode -b 1024",
        "24M",
    ),
    ("no flex_bg", "-t ext4 -O ^flex_bg -b 1024", "24M"),
    (
        "ea_inode, large_dir",
        "-t ext4 -O ea_inode,large_dir -b 1024",
        "24M",
    ),
    (
        "many more",
        "-t ext4 -O casefold,verity,encrypt,quota,project,mmp,fast_commit",
        "24M",
    ),
];

#[test]
fn every_set_of_features_shows_the_tree() {
    if !have(&["mke2fs", "dumpe2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let trees = ["tree", "tree-without-holes"].map(|name| dir.path().join(name));
    for tree in &trees {
        make_tree(tree, 300);
    }
    make_holes(&trees[0]);
    for (what, args, size) in MATRIX {
        // With inline data mke2fs 1.47.0 loses the bytes after a file's last hole.
        let tree = &trees[usize::from(args.contains("inline_data"))];
        let image = mke2fs(dir.path(), tree, size, args);
        let fs = open(&image);
        let device = fs::File::open(&image).unwrap();
        let files = Comparison {
            fs: &fs,
            device: &device,
            what,
        }
        .directory(fs.root(), tree);
        assert!(files > 320, "{what}: {files} files");
        compare_features(&fs, &image, what);
    }
}

struct Comparison<'a> {
    fs: &'a Ext4,
    device: &'a fs::File,
    what: &'a str,
}

impl Comparison<'_> {
    /// Compares the contents of a directory; returns the number of files.
    fn directory(&self, inode: InodeNumber, host: &Path) -> usize {
        let entries: Vec<DirEntry> = self
            .fs
            .read_dir(inode, 0)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        self.cookies(inode, &entries);
        let mut ours: BTreeMap<Vec<u8>, DirEntry> = entries
            .into_iter()
            .map(|entry| (entry.name.clone(), entry))
            .collect();
        assert_eq!(ours.remove(&b"."[..]).unwrap().inode, inode);
        assert!(ours.remove(&b".."[..]).is_some());
        ours.remove(&b"lost+found"[..]);
        let mut count = 0;
        for entry in fs::read_dir(host).unwrap().map(Result::unwrap) {
            let name = entry.file_name();
            let found = ours.remove(name.as_bytes());
            let found = found.unwrap_or_else(|| panic!("{}: no {}", self.what, name.display()));
            assert_eq!(self.fs.lookup(inode, name.as_bytes()).unwrap(), found.inode);
            count += 1 + self.file(&found, &entry.path());
        }
        assert!(
            ours.is_empty(),
            "{}: {:?} are too many",
            self.what,
            ours.keys()
        );
        let absent = self.fs.lookup(inode, b"no such name").unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
        count
    }

    /// Checks that from each entry's cookie on, the rest is listed.
    fn cookies(&self, inode: InodeNumber, entries: &[DirEntry]) {
        for (nth, entry) in entries.iter().enumerate().step_by(1 + entries.len() / 50) {
            assert_ne!(entry.cookie, 0);
            let rest = self
                .fs
                .read_dir(inode, entry.cookie)
                .unwrap()
                .map(Result::unwrap);
            assert!(rest.eq(entries[nth + 1..].iter().cloned()), "{}", self.what);
        }
    }

    fn file(&self, entry: &DirEntry, host: &Path) -> usize {
        let context = format!("{}: {}", self.what, host.display());
        let theirs = fs::symlink_metadata(host).unwrap();
        let ours = self.fs.metadata(entry.inode).unwrap();
        assert_eq!(ours.mode(), theirs.mode(), "{context}");
        assert_eq!(ours.modified.seconds, theirs.mtime(), "{context}");
        assert_eq!(
            (ours.uid, ours.gid),
            (theirs.uid(), theirs.gid()),
            "{context}"
        );
        assert!(
            entry.file_type.is_none_or(|t| t == ours.file_type),
            "{context}"
        );
        if !ours.is_dir() {
            assert_eq!(ours.size_bytes, theirs.len(), "{context}");
            assert_eq!(u64::from(ours.links), theirs.nlink(), "{context}");
        }
        match ours.file_type {
            FileType::Directory => return self.directory(entry.inode, host),
            FileType::Symlink => {
                let target = fs::read_link(host).unwrap();
                let ours = self.fs.read_link(entry.inode).unwrap();
                assert_eq!(ours, target.as_os_str().as_bytes(), "{context}");
            }
            _ => self.contents(entry.inode, &fs::read(host).unwrap(), &context),
        }
        0
    }

    fn contents(&self, inode: InodeNumber, expected: &[u8], context: &str) {
        let mut bytes = vec![0xee; expected.len() + 10];
        assert_eq!(
            self.fs.read_at(inode, 0, &mut bytes).unwrap(),
            expected.len()
        );
        assert!(
            bytes[..expected.len()] == *expected,
            "{context}: contents differ"
        );
        for offset in [
            1,
            59,
            60,
            1023,
            4095,
            8192,
            expected.len().saturating_sub(1),
        ] {
            let mut part = [0xee; 100];
            let n = self.fs.read_at(inode, offset as u64, &mut part).unwrap();
            let rest = expected.get(offset..).unwrap_or_default();
            assert_eq!(
                part[..n],
                rest[..rest.len().min(100)],
                "{context} at {offset}"
            );
        }
        self.extents(inode, expected, context);
    }

    /// Checks that the runs are adjacent, and that the stored bytes at their places are those read.
    fn extents(&self, inode: InodeNumber, expected: &[u8], context: &str) {
        let mut end = 0;
        for extent in self.fs.extents_of(inode, 0).unwrap() {
            let extent = extent.unwrap();
            assert_eq!(extent.offset, end, "{context}");
            assert_ne!(extent.len_bytes, 0, "{context}");
            end += extent.len_bytes;
            let part =
                &expected[usize::try_from(extent.offset).unwrap()..usize::try_from(end).unwrap()];
            match extent.kind {
                FileExtentKind::Stored { device_offset } => {
                    let mut bytes = vec![0; part.len()];
                    self.device
                        .read_exact_at(&mut bytes, device_offset)
                        .unwrap();
                    assert!(bytes == part, "{context}: stored bytes differ");
                }
                FileExtentKind::Hole => assert!(part.iter().all(|&byte| byte == 0), "{context}"),
                FileExtentKind::Inline => assert_eq!(extent.offset, 0, "{context}"),
            }
        }
        assert_eq!(end, expected.len() as u64, "{context}");
    }
}

fn compare_features(fs: &Ext4, image: &Path, what: &str) {
    let header = run("dumpe2fs", &["-h", image.to_str().unwrap()]);
    let field = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let identity = fs.identity();
    let features = field("Filesystem features:").replace("(none)", "");
    assert_eq!(identity.features.join(" "), features, "{what}");
    assert_eq!(identity.uuid.unwrap(), field("Filesystem UUID:"), "{what}");
    let statistics = fs.statistics().unwrap();
    assert_eq!(
        statistics.inodes.to_string(),
        field("Inode count:"),
        "{what}"
    );
    assert_eq!(
        statistics.inodes_free.to_string(),
        field("Free inodes:"),
        "{what}"
    );
    assert_eq!(
        statistics.blocks_free.to_string(),
        field("Free blocks:"),
        "{what}"
    );
    assert_eq!(
        statistics.block_size.to_string(),
        field("Block size:"),
        "{what}"
    );
}

/// e2fsck creates indexes like the kernel; mke2fs creates directories without.
#[test]
fn indexed_directories_of_every_hash() {
    if !have(&["mke2fs", "tune2fs", "e2fsck", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree, 700);
    for name in [
        "\u{fc}ml\u{e4}ut".repeat(20),
        "\u{4e16}".to_owned(),
        "\u{e9}".repeat(127),
    ] {
        fs::write(tree.join("many").join(name), "x").unwrap();
    }
    for (what, args) in [
        ("legacy", "-t ext4 -b 1024 -O ^metadata_csum"),
        ("half_md4", "-t ext4 -b 1024"),
        ("half_md4", "-t ext4 -b 4096"),
        ("tea", "-t ext4 -b 1024 -O large_dir"),
    ] {
        let image = mke2fs(dir.path(), &tree, "24M", args);
        let text = image.to_str().unwrap();
        run("tune2fs", &["-E", &format!("hash_alg={what}"), text]);
        // Exit status 1: errors were corrected.
        let fsck = diskfs_fixtures::command("e2fsck")
            .args(["-fyD", text])
            .output()
            .unwrap();
        assert!(matches!(fsck.status.code(), Some(0 | 1)), "{what}");
        let dump = run("debugfs", &["-R", "htree_dump /many", text]);
        assert!(dump.contains("Root node dump"), "{what}: not indexed");
        for unsigned in [false, true] {
            if unsigned {
                // A sign other than that of the index: names of ASCII are found nevertheless.
                debugfs(&image, &["set_super_value flags 2"]);
            }
            let fs = open(&image);
            let many = fs.lookup(fs.root(), b"many").unwrap();
            let mut missed = 0;
            for entry in fs.read_dir(many, 0).unwrap().map(Result::unwrap) {
                let found = fs.lookup(many, &entry.name);
                if entry.name.is_ascii() || !unsigned {
                    let name = entry.name.escape_ascii();
                    assert_eq!(found.unwrap(), entry.inode, "{what}: {name}");
                } else {
                    missed += usize::from(found.is_err());
                }
            }
            // The legacy hash has no seed, so the result is certain: a lookup with the wrong hash
            // fails, which shows that the index is used.
            assert!(
                !unsigned || what != "legacy" || missed > 0,
                "{what}: not hashed"
            );
        }
        debugfs(&image, &["set_super_value flags 1"]);
        let (fs, device) = (open(&image), fs::File::open(&image).unwrap());
        let comparison = Comparison {
            fs: &fs,
            device: &device,
            what,
        };
        assert!(comparison.directory(fs.root(), &tree) > 700);
    }
}

#[test]
fn names_in_a_casefolded_directory() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree, 3);
    let image = mke2fs(dir.path(), &tree, "16M", "-t ext4 -O casefold");
    let fs = open(&image);
    let a = fs.lookup(fs.root(), b"a").unwrap();
    let exact = fs.lookup(a, b"len-60").unwrap();
    assert_eq!(
        fs.lookup(a, b"LEN-60").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    debugfs(&image, &["set_inode_field /a flags 0x40080000"]);
    let fs = open(&image);
    assert!(fs.metadata(a).unwrap().flags.casefold);
    assert_eq!(fs.lookup(a, b"len-60").unwrap(), exact);
    assert_eq!(fs.lookup(a, b"Len-60").unwrap(), exact);
    assert_eq!(
        fs.lookup(a, b"Len-62").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        fs.lookup(a, &[b'x'; 256]).unwrap_err().kind(),
        ErrorKind::NameTooLong
    );
}

#[test]
fn threads_share_a_filesystem_and_a_cache_of_nothing() {
    if !have(&["mke2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree, 200);
    make_holes(&tree);
    let image = mke2fs(dir.path(), &tree, "16M", "-t ext4 -b 1024");
    let device = fs::File::open(&image).unwrap();
    for cache_bytes in [0, 64 << 10, 16 << 20] {
        let below = Arc::new(diskfs_block::File::open(&image).unwrap());
        let fs = Ext4::open(below, &Options { cache_bytes }).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let what = "threads";
                    let comparison = Comparison {
                        fs: &fs,
                        device: &device,
                        what,
                    };
                    comparison.directory(fs.root(), &tree)
                });
            }
        });
    }
}

#[test]
fn attributes_devices_and_times_that_debugfs_sets() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree, 3);
    let image = mke2fs(dir.path(), &tree, "16M", "-t ext4 -O ea_inode -I 256");
    let long = "v".repeat(500);
    debugfs(
        &image,
        &[
            "ea_set /a user.short one",
            &format!("ea_set /a user.in_a_block {long}"),
            "ea_set /a trusted.t two",
            "ea_set -x /a/len-1 system.posix_acl_access 0x0000",
            "mknod chr c 200 1000",
            "mknod blk b 8 1",
            "mknod pipe p",
            "set_inode_field /a/len-60 mtime 21000101000000",
            "set_inode_field /a/len-60 crtime 19700102000000",
        ],
    );
    let fs = open(&image);
    let find = |path: &str| {
        let parts = path.split('/');
        parts.fold(fs.root(), |dir, name| {
            fs.lookup(dir, name.as_bytes()).unwrap()
        })
    };
    let a = find("a");
    let get = |name: &str| fs.xattr(a, name.as_bytes()).unwrap();
    assert_eq!(get("user.short").unwrap(), b"one");
    assert_eq!(get("user.in_a_block").unwrap(), long.as_bytes());
    assert_eq!(get("trusted.t").unwrap(), b"two");
    assert_eq!(get("user.none"), None);
    let mut names = fs.list_xattrs(a).unwrap();
    names.sort();
    assert_eq!(
        names,
        [&b"trusted.t"[..], b"user.in_a_block", b"user.short"]
    );
    let device = fs.metadata(find("chr")).unwrap().device.unwrap();
    assert_eq!((device.major, device.minor), (200, 1000));
    let device = fs.metadata(find("blk")).unwrap().device.unwrap();
    assert_eq!((device.major, device.minor), (8, 1));
    assert_eq!(fs.metadata(find("pipe")).unwrap().file_type, FileType::Fifo);
    let times = fs.metadata(find("a/len-60")).unwrap();
    assert_eq!(times.modified.seconds, 4_102_444_800);
    assert_eq!(times.created.unwrap().seconds, 86400);
    let e = fs.read_at(find("pipe"), 0, &mut [0]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Invalid);
    let e = fs.read_dir(find("pipe"), 0).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::NotADirectory);
    let e = fs.read_at(a, 0, &mut [0]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::IsADirectory);
    for none in [0, 1, 3, 8, 10, 4000, 1 << 20, 1 << 40] {
        let e = fs.metadata(InodeNumber(none)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound, "inode {none}: {e}");
    }
}

#[test]
fn a_value_in_an_inode_of_its_own() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree, 3);
    let value: String = ('a'..='z').cycle().take(4096).collect();
    let file = dir.path().join("value");
    fs::write(&file, &value).unwrap();
    let image = mke2fs(dir.path(), &tree, "16M", "-t ext4 -b 4096 -O ea_inode");
    debugfs(
        &image,
        &[&format!("ea_set -f {} /a user.large", file.display())],
    );
    let fs = open(&image);
    let a = fs.lookup(fs.root(), b"a").unwrap();
    let found = fs.xattr(a, b"user.large").unwrap().unwrap();
    assert!(found == value.as_bytes(), "{} bytes", found.len());
    // Not a file: the inode that holds the value.
    let inodes = 11..=fs.statistics().unwrap().inodes;
    let hidden = |inode: &u64| fs.metadata(InodeNumber(*inode)).is_err();
    assert!(inodes.clone().any(|inode| hidden(&inode)));
}

#[test]
fn a_flipped_byte_under_a_checksum_is_corrupt_and_says_where() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree, 300);
    let image = mke2fs(dir.path(), &tree, "16M", "-t ext4 -b 1024 -O ^has_journal");
    let text = image.to_str().unwrap();
    let inode = |path: &str| run("debugfs", &["-R", &format!("imap {path}"), text]);
    let block = |path: &str, nth: u32| -> u64 {
        let found = run("debugfs", &["-R", &format!("bmap {path} {nth}"), text]);
        found.trim().parse().unwrap()
    };
    // "Inode 14 is part of block group 0\n\tlocated at block 74, offset 0x0500"
    let place = inode("/a/len-60");
    let words: Vec<&str> = place.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "block").unwrap();
    let located = words.iter().rposition(|word| *word == "block").unwrap();
    assert!(at < located, "{place}");
    let table: u64 = words[located + 1].trim_end_matches(',').parse().unwrap();
    let offset = u64::from_str_radix(words.last().unwrap().trim_start_matches("0x"), 16).unwrap();
    let flips: [(u64, &str, &str); 3] = [
        (table * 1024 + offset + 8, "a/len-60", "inode"),
        (block("/many", 5) * 1024 + 9, "many", "directory block 5"),
        (1024 + 0x78, "", "superblock"),
    ];
    for (byte, path, says) in flips {
        let flipped = dir.path().join("flipped");
        fs::copy(&image, &flipped).unwrap();
        let device = fs::File::options()
            .read(true)
            .write(true)
            .open(&flipped)
            .unwrap();
        let mut old = [0];
        device.read_exact_at(&mut old, byte).unwrap();
        device.write_all_at(&[old[0] ^ 1], byte).unwrap();
        let error = first_error(&flipped, path);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        let error = error.to_string();
        assert!(
            error.contains(says) && error.contains("checksum"),
            "{error}"
        );
    }
}

fn first_error(image: &Path, path: &str) -> diskfs_vfs::Error {
    let device = Arc::new(diskfs_block::File::open(image).unwrap());
    let fs = match Ext4::open(device, &Options::default()) {
        Ok(fs) => fs,
        Err(e) => return e,
    };
    let parts = path.split('/');
    let inode = parts.fold(fs.root(), |dir, name| {
        fs.lookup(dir, name.as_bytes()).unwrap()
    });
    match fs.metadata(inode) {
        Ok(_) => fs
            .read_dir(inode, 0)
            .unwrap()
            .find_map(Result::err)
            .expect("nothing is wrong"),
        Err(e) => e,
    }
}

#[test]
fn a_device_cut_short_is_refused() {
    if !have(&["mke2fs"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    make_tree(&tree, 3);
    let image = mke2fs(dir.path(), &tree, "16M", "-t ext4");
    let file = fs::File::options().write(true).open(&image).unwrap();
    file.set_len((16 << 20) - 4096).unwrap();
    let e = first_error(&image, "");
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(e.to_string().contains("bad geometry"), "{e}");
    file.set_len(1500).unwrap();
    assert_eq!(first_error(&image, "").kind(), ErrorKind::Corrupt);
}
