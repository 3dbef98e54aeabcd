//! Extended attributes that are set and removed at random on filesystems made by mke2fs. A model
//! has the same attributes, e2fsck finds nothing to repair, and the kernel reads them; then the
//! kernel sets some.

mod common;

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use common::{Mounted, Random, e2fsck, mke2fs_empty, open, open_for_writing, run};
use diskfs_fixtures::have;
use diskfs_vfs::{
    ErrorKind, Fallocate, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, SetXattr,
};

const MATRIX: [(&str, &str); 9] = [
    ("default", "-t ext4 -b 4096"),
    ("1 KiB", "-t ext4 -b 1024"),
    ("inodes of 128 bytes", "-t ext4 -b 1024 -I 128"),
    ("inodes of 1024 bytes", "-t ext4 -b 4096 -I 1024"),
    ("ea_inode", "-t ext4 -b 1024 -O ea_inode"),
    (
        "ea_inode, 4 KiB, no extents",
        "-t ext4 -b 4096 -O ea_inode,^extent,^64bit",
    ),
    ("ea_inode, bigalloc", "-t ext4 -b 4096 -O ea_inode,bigalloc"),
    ("no checksums", "-t ext4 -b 1024 -O ^metadata_csum,ea_inode"),
    ("inline data", "-t ext4 -b 4096 -O inline_data,ea_inode"),
];

type Attributes = BTreeMap<String, Vec<u8>>;

fn create(fs: &dyn FsWrite, name: &str, kind: NewKind<'_>) -> InodeNumber {
    let attributes = NewAttributes {
        permissions: 0o755,
        umask: 0,
        uid: 7,
        gid: 7,
    };
    fs.create(fs.root(), name.as_bytes(), kind, &attributes)
        .unwrap()
}

/// Returns a value of random length; there are few different ones, so that blocks and values are
/// shared.
fn value(random: &mut Random) -> Vec<u8> {
    const LENGTHS: [usize; 12] = [0, 1, 3, 4, 20, 60, 150, 300, 700, 990, 3000, 9000];
    let len = LENGTHS[random.below(LENGTHS.len())];
    vec![b'a' + u8::try_from(random.below(2)).unwrap(); len]
}

fn name(random: &mut Random) -> String {
    const PREFIXES: [&str; 3] = ["user", "trusted", "security"];
    let prefix = PREFIXES[random.below(3)];
    let length = [1, 2, 7, 30][random.below(4)];
    format!("{prefix}.{}", "n".repeat(length))
}

/// Does some steps on some files, and updates the model.
fn change(
    fs: &dyn FsWrite,
    random: &mut Random,
    model: &mut BTreeMap<String, Attributes>,
    steps: usize,
) {
    let files: Vec<String> = model.keys().cloned().collect();
    for _ in 0..steps {
        let file = &files[random.below(files.len())];
        let inode = fs.lookup(fs.root(), file.as_bytes()).unwrap();
        let name = name(random);
        let attributes = model.get_mut(file).unwrap();
        if random.below(3) == 0 {
            match fs.remove_xattr(inode, name.as_bytes()) {
                Ok(()) => assert!(attributes.remove(&name).is_some()),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::NoAttribute);
                    assert!(!attributes.contains_key(&name));
                }
            }
        } else {
            let value = value(random);
            match fs.set_xattr(inode, name.as_bytes(), &value, SetXattr::Any) {
                Ok(()) => {
                    attributes.insert(name, value);
                }
                Err(e) => assert_eq!(e.kind(), ErrorKind::NoSpace, "{e}"),
            }
        }
    }
}

fn compare(fs: &dyn FsRead, model: &BTreeMap<String, Attributes>, what: &str) {
    for (file, attributes) in model {
        let inode = fs.lookup(fs.root(), file.as_bytes()).unwrap();
        let ours: Attributes = fs
            .list_xattrs(inode)
            .unwrap()
            .into_iter()
            .map(|name| {
                let value = fs.xattr(inode, &name).unwrap().unwrap();
                (String::from_utf8(name).unwrap(), value)
            })
            .collect();
        assert_eq!(
            ours.keys().collect::<Vec<_>>(),
            attributes.keys().collect::<Vec<_>>(),
            "{what}: {file}"
        );
        assert!(ours == *attributes, "{what}: {file}: values");
    }
}

/// Returns the attributes of a file that getfattr shows.
fn as_the_kernel_has_them(mounted: &Mounted, file: &str) -> Attributes {
    let path = mounted.path().join(file);
    let told = run(
        "getfattr",
        &[
            "--absolute-names",
            "-d",
            "-m",
            "-",
            "-e",
            "hex",
            path.to_str().unwrap(),
        ],
    );
    let pairs = told.lines().filter(|line| !line.starts_with('#'));
    let pairs = pairs.filter(|line| !line.is_empty()).map(|line| {
        let (name, hex) = line.split_once('=').unwrap_or((line, "0x"));
        let hex = hex.strip_prefix("0x").unwrap();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        (
            name.to_owned(),
            hex.as_bytes().chunks(2).map(byte).collect(),
        )
    });
    pairs.collect()
}

fn set_by_the_kernel(mounted: &Mounted, file: &str, name: &str, value: &[u8]) -> bool {
    let hex = value
        .iter()
        .fold("0x".to_owned(), |hex, byte| hex + &format!("{byte:02x}"));
    let path = mounted.path().join(file);
    let set = Command::new("setfattr")
        .args(["-n", name, "-v", &hex])
        .arg(path)
        .output()
        .unwrap();
    set.status.success()
}

#[test]
fn random_attributes() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let kernel = have(&["getfattr", "setfattr"]);
    for (nth, (what, args)) in MATRIX.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let image = mke2fs_empty(dir.path(), args, "24M");
        let mut random = Random(0x00a7_7215 + u64::try_from(nth).unwrap());
        let mut model: BTreeMap<String, Attributes> = BTreeMap::new();
        let fs = open_for_writing(&image);
        for file in 0..12 {
            let file = format!("file-{file}");
            create(&fs, &file, NewKind::Regular);
            model.insert(file, Attributes::new());
        }
        create(&fs, "dir", NewKind::Directory);
        model.insert("dir".to_owned(), Attributes::new());
        drop(fs);
        for _ in 0..3 {
            let fs = open_for_writing(&image);
            change(&fs, &mut random, &mut model, 250);
            compare(&fs, &model, what);
            drop(fs);
            e2fsck(&image);
            compare(&open(&image), &model, what);
            if kernel && let Some(mounted) = Mounted::new("random_attributes", &image) {
                with_the_kernel(&mounted, &mut random, &mut model, what);
                drop(mounted);
                e2fsck(&image);
                compare(&open(&image), &model, what);
            }
        }
        let fs = open_for_writing(&image);
        for file in model.keys() {
            match file.as_str() {
                "dir" => fs.rmdir(fs.root(), b"dir").unwrap(),
                file => fs.unlink(fs.root(), file.as_bytes()).unwrap(),
            }
        }
        drop(fs);
        e2fsck(&image);
    }
}

fn with_the_kernel(
    mounted: &Mounted,
    random: &mut Random,
    model: &mut BTreeMap<String, Attributes>,
    what: &str,
) {
    for (file, attributes) in model.iter() {
        assert!(
            as_the_kernel_has_them(mounted, file) == *attributes,
            "{what}: {file}: as the kernel reads it"
        );
    }
    let files: Vec<String> = model.keys().cloned().collect();
    for _ in 0..60 {
        let file = &files[random.below(files.len())];
        let (name, value) = (name(random), value(random));
        if set_by_the_kernel(mounted, file, &name, &value) {
            model.get_mut(file).unwrap().insert(name, value);
        }
    }
}

/// Checks that files that inherit a list share one block with it.
#[test]
fn what_is_the_same_is_stored_once() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -b 1024 -N 4000 -O ea_inode", "24M");
    let fs = open_for_writing(&image);
    let free = fs.statistics().unwrap().blocks_free;
    let files: Vec<InodeNumber> = (0..1500)
        .map(|n| {
            let file = create(&fs, &format!("{n}"), NewKind::Regular);
            fs.set_xattr(file, b"user.list", &[5; 400], SetXattr::Any)
                .unwrap();
            fs.set_xattr(file, b"user.long", &[9; 5000], SetXattr::Any)
                .unwrap();
            file
        })
        .collect();
    let used = free - fs.statistics().unwrap().blocks_free;
    // Two blocks, as at most 1024 inodes share one; the value; and the directory.
    assert!(used < 2 + 5 + 80, "{used}");
    // One file gets different attributes.
    fs.set_xattr(files[3], b"user.list", &[6; 400], SetXattr::Any)
        .unwrap();
    assert_eq!(fs.xattr(files[4], b"user.list").unwrap().unwrap(), [5; 400]);
    assert_eq!(
        fs.xattr(files[3], b"user.long").unwrap().unwrap(),
        [9; 5000]
    );
    drop(fs);
    e2fsck(&image);
    let fs = open_for_writing(&image);
    for n in 0..1500 {
        fs.unlink(fs.root(), format!("{n}").as_bytes()).unwrap();
    }
    drop(fs);
    e2fsck(&image);
}

#[test]
fn names_and_values_have_limits() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -b 4096", "24M");
    let fs = open_for_writing(&image);
    let file = create(&fs, "file", NewKind::Regular);
    let set = |name: &[u8], value: &[u8]| {
        fs.set_xattr(file, name, value, SetXattr::Any)
            .map_err(|e| e.kind())
    };
    assert_eq!(set(b"system.data", b"x"), Err(ErrorKind::Unsupported));
    assert_eq!(set(b"other.x", b"x"), Err(ErrorKind::Unsupported));
    assert_eq!(
        set(&[b"user.", &[b'n'; 256][..]].concat(), b"x"),
        Err(ErrorKind::NameTooLong)
    );
    assert_eq!(set(&[b"user.", &[b'n'; 250][..]].concat(), b"x"), Ok(()));
    // 4096, without the header, the end of the list, and an entry with a name of one byte.
    assert_eq!(
        set(b"trusted.x", &[1; 4096 - 32 - 4 - 20 + 1]),
        Err(ErrorKind::NoSpace)
    );
    fs.remove_xattr(file, &[b"user.", &[b'n'; 250][..]].concat())
        .unwrap();
    assert_eq!(set(b"trusted.x", &[1; 4096 - 32 - 4 - 20]), Ok(()));
    assert_eq!(set(b"trusted.y", &[1; 400]), Err(ErrorKind::NoSpace));
    let pipe = create(&fs, "pipe", NewKind::Fifo);
    let refused = fs.set_xattr(pipe, b"user.x", b"", SetXattr::Any);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotPermitted);
    fs.set_xattr(pipe, b"trusted.x", b"", SetXattr::Any)
        .unwrap();
    drop(fs);
    e2fsck(&image);
}

fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = vec![2, 0, 0, 0];
    for (tag, permissions, identity) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(identity.to_le_bytes());
    }
    value
}

/// Compares lists with those that getfacl shows and setfacl creates.
#[test]
fn access_control_lists() {
    const NONE: u32 = u32::MAX;
    if !have(&["mke2fs", "e2fsck", "mount", "getfacl", "setfacl"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -b 4096", "24M");
    let fs = open_for_writing(&image);
    let file = create(&fs, "file", NewKind::Regular);
    let value = list(&[
        (1, 6, NONE),
        (2, 4, 1000),
        (4, 5, NONE),
        (8, 7, 2000),
        (0x10, 6, NONE),
        (0x20, 1, NONE),
    ]);
    fs.set_xattr(file, b"system.posix_acl_access", &value, SetXattr::Any)
        .unwrap();
    let below = create(&fs, "dir", NewKind::Directory);
    fs.set_xattr(below, b"system.posix_acl_default", &value, SetXattr::Any)
        .unwrap();
    drop(fs);
    e2fsck(&image);
    let Some(mounted) = Mounted::new("access_control_lists", &image) else {
        return;
    };
    let told = |name: &str| {
        let path = mounted.path().join(name);
        run("getfacl", &["-cpn", path.to_str().unwrap()])
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        told("file"),
        "user::rw- user:1000:r-- group::r-x #effective:r-- group:2000:rwx #effective:rw- mask::rw- other::--x"
    );
    assert!(
        told("dir").contains("default:user:1000:r--"),
        "{}",
        told("dir")
    );
    let path = mounted.path().join("file");
    run("setfacl", &["-m", "u:1001:rx", path.to_str().unwrap()]);
    drop(mounted);
    let fs = open(&image);
    let file = fs.lookup(fs.root(), b"file").unwrap();
    let stored = fs.xattr(file, b"system.posix_acl_access").unwrap().unwrap();
    // setfacl recomputes the mask.
    let expected = list(&[
        (1, 6, NONE),
        (2, 4, 1000),
        (2, 5, 1001),
        (4, 5, NONE),
        (8, 7, 2000),
        (0x10, 7, NONE),
        (0x20, 1, NONE),
    ]);
    assert_eq!(stored, expected);
}

/// Lets threads set the same attributes on files of their own, so that all of them want the same
/// block.
#[test]
fn shared_side_by_side() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = mke2fs_empty(dir.path(), "-t ext4 -b 1024 -O ea_inode", "24M");
    let fs = Arc::new(open_for_writing(&image));
    let threads: Vec<_> = (0..4)
        .map(|nth| {
            let fs = Arc::clone(&fs);
            std::thread::spawn(move || {
                let mut random = Random(0xface + nth);
                let mut model = BTreeMap::new();
                for file in 0..5 {
                    let name = format!("{nth}-{file}");
                    create(&*fs, &name, NewKind::Regular);
                    model.insert(name, Attributes::new());
                }
                for _ in 0..10 {
                    change(&*fs, &mut random, &mut model, 60);
                    fs.sync().unwrap();
                }
                compare(&*fs, &model, "threads");
                model
            })
        })
        .collect();
    let models: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    drop(fs);
    e2fsck(&image);
    for model in models {
        compare(&open(&image), &model, "threads");
    }
}

/// Without space no operation is half done. Freed blocks can be used at once, after a commit that
/// the caller does not notice.
#[test]
fn a_full_filesystem() {
    if !have(&["mke2fs", "e2fsck"]) {
        return;
    }
    for args in [
        "-t ext4 -b 1024 -m 0 -O ea_inode",
        "-t ext4 -b 1024 -m 0 -N 64 -O ea_inode",
        "-t ext4 -b 4096 -m 0",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let image = mke2fs_empty(dir.path(), args, "24M");
        let fs = open_for_writing(&image);
        let files: Vec<InodeNumber> = (0..40)
            .map(|n| create(&fs, &format!("{n}"), NewKind::Regular))
            .collect();
        let large = create(&fs, "large", NewKind::Regular);
        let left = fs.statistics().unwrap();
        let room = (left.blocks_available - 30) * u64::from(left.block_size);
        fs.fallocate(large, 0, room, Fallocate::Allocate).unwrap();
        let mut refused = 0;
        for (nth, &file) in files.iter().enumerate() {
            let byte = u8::try_from(nth).unwrap();
            for (name, len) in [(&b"user.block"[..], 500), (b"user.inode", 3000)] {
                let set = fs.set_xattr(file, name, &vec![byte; len], SetXattr::Any);
                match set {
                    Ok(()) => {}
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::NoSpace);
                        assert_eq!(fs.xattr(file, name).unwrap(), None);
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 10, "{args}: {refused}");
        fs.unlink(fs.root(), b"large").unwrap();
        fs.set_xattr(files[39], b"user.block", &[1; 500], SetXattr::Any)
            .unwrap();
        drop(fs);
        e2fsck(&image);
    }
}
