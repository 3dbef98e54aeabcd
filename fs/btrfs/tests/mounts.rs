//! Comparisons of the driver with the kernel's mount, on filesystems that mkfs.btrfs makes.

mod kernel_image;

use diskfs_btrfs::{Btrfs, Options, RootSubvolume};
use diskfs_fixtures::{Tree, require, require_root, run};
use diskfs_vfs::{ErrorKind, FsRead};
use kernel_image::{KernelImage, assert_same};

/// Files of all types, with all kinds of extents.
const FILES: &str = r#"
    mkdir -p dir/sub empty many
    seq 1 30000 > dir/numbers
    head -c 300000 /dev/urandom > random
    head -c 1500000 /dev/urandom > large
    echo hello > small
    : > nothing
    truncate -s 1M hole
    printf end | dd of=sparse bs=1 seek=700000 conv=notrunc status=none
    dd if=random of=sparse bs=4096 count=3 seek=20 conv=notrunc status=none
    fallocate -l 200000 prealloc
    dd if=random of=prealloc bs=4096 count=5 seek=7 conv=notrunc status=none
    cp --reflink=always large bookend
    dd if=random of=bookend bs=4096 count=9 seek=50 conv=notrunc status=none
    yes 'a line that compresses well' | head -c 900000 > lines
    dd if=random of=lines bs=1000 count=3 seek=60 conv=notrunc status=none
    yes inline | head -c 1900 > inline
    sync
    ln -s small link
    ln -s "$(printf 'x%.0s' $(seq 1 2000))" long-link
    ln small dir/hard
    for i in $(seq 1 500); do echo $i > many/file-number-$i; done
    for i in $(seq 1 150); do ln small many/name-of-small-$i; done
    mkfifo fifo
    mknod null c 1 3
    mknod disk b 259 1048575
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
    setfattr -n user.name -v value dir small
    setfattr -n user.large -v "$(head -c 3000 /dev/zero | tr '\0' v)" small
    setfacl -m u:1234:rw small
    setfacl -d -m g:99:r dir
    setcap cap_net_raw+ep large
    chown 70000:123456 dir/numbers
    chmod 7751 random
    touch -d '1950-01-01 00:00:00.123456789' nothing
    chattr +i empty; chattr +a dir/numbers; chattr +d inline
    btrfs property set lines compression zstd
"#;

/// A file without checksums.
const WITHOUT_CHECKSUMS: &str = "
    mkdir nocow; chattr +C nocow; head -c 100000 /dev/urandom > nocow/data
";

fn available() -> Option<()> {
    require_root()?;
    for tool in [
        "mkfs.btrfs",
        "btrfs",
        "setfattr",
        "setfacl",
        "setcap",
        "python3",
    ] {
        require(tool)?;
    }
    Some(())
}

fn check(count: usize, mib: u64, mkfs: &str, options: &str) -> KernelImage {
    let image = KernelImage::filled(count, mib, mkfs, options, FILES).unwrap();
    image.compare("ro", &Options::default());
    image
}

#[test]
fn files_of_all_kinds() {
    let Some(()) = available() else { return };
    let image = check(1, 256, "", "");
    image.fill("", WITHOUT_CHECKSUMS).unwrap();
    image.compare("ro", &Options::default());
    check(1, 256, "-n 4096 -O ^no-holes", "compress-force=lzo");
    check(1, 256, "-n 65536 --csum xxhash", "compress-force=zlib");
    check(1, 256, "--csum blake2 --mixed", "compress-force=zstd");
    let old = "--csum sha256 -O ^skinny-metadata,^extref -R ^free-space-tree";
    check(1, 256, old, "compress=zstd");
}

/// Compares a filesystem with the kernel's mount, then without devices, then with all devices and
/// those overwritten.
fn check_without(count: usize, mkfs: &str, options: &str, lost: &[usize]) {
    let image = KernelImage::filled(count, 256, mkfs, options, FILES).unwrap();
    let expected = image.kernel_tree("ro").unwrap();
    assert_same(&expected, &image.open(&Options::default()).unwrap());
    let fs = Btrfs::open(image.devices_without(lost), &Options::default()).unwrap();
    assert_same(&expected, &fs);
    for nth in lost {
        image.damage(*nth).unwrap();
    }
    assert_same(&expected, &image.open(&Options::default()).unwrap());
}

#[test]
fn copies() {
    let Some(()) = available() else { return };
    check(1, 256, "-d dup -m dup", "");
    check(2, 256, "-d raid0 -m raid1", "");
    check_without(2, "-d raid1 -m raid1", "", &[0]);
    check_without(3, "-d raid1c3 -m raid1c3", "compress=zstd", &[0, 2]);
    check_without(4, "-d raid10 -m raid1c4", "", &[1, 2]);
}

#[test]
fn parity() {
    let Some(()) = available() else { return };
    check_without(3, "-d raid5 -m raid5", "", &[1]);
    check_without(4, "-d raid6 -m raid6", "", &[0, 2]);
}

#[test]
fn a_missing_device_is_named() {
    let Some(()) = available() else { return };
    let image = KernelImage::filled(2, 256, "-d raid0 -m raid1", "", FILES).unwrap();
    let fs = Btrfs::open(image.devices_without(&[1]), &Options::default()).unwrap();
    assert_eq!(fs.identity().notes, ["device 2 is missing"]);
    let large = fs.lookup(fs.root(), b"large").unwrap();
    let error = fs.read_at(large, 0, &mut vec![0; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.to_string().contains("missing device 2 of btrfs"),
        "{error}"
    );
}

#[test]
fn subvolumes() {
    let Some(()) = available() else { return };
    let script = r"
        btrfs subvolume create one
        mkdir one/dir one/empty
        btrfs subvolume create one/dir/two
        echo two > one/dir/two/file
        btrfs subvolume snapshot one snapshot
        btrfs subvolume snapshot -r one/dir/two read-only
        echo more > one/later
        btrfs subvolume create gone
        btrfs subvolume delete gone
        chown 5:6 snapshot/dir
    ";
    let image = KernelImage::filled(1, 128, "", "", script).unwrap();
    image.compare("ro", &Options::default());
    let by_path = |path: &str| Options {
        root: RootSubvolume::Path(path.into()),
        ..Options::default()
    };
    image.compare("ro,subvol=one", &by_path("one"));
    image.compare("ro,subvol=one/dir/two", &by_path("/one/dir/two/"));
    let fs = image.open(&Options::default()).unwrap();
    let all = fs.subvolumes().unwrap();
    let paths: Vec<_> = all
        .iter()
        .map(|one| String::from_utf8_lossy(&one.path))
        .collect();
    assert_eq!(paths, ["", "one", "one/dir/two", "snapshot", "read-only"]);
    assert_eq!(all[4].parent_uuid, all[2].uuid);
    assert!(all[4].is_read_only && !all[3].is_read_only);
    image
        .fill("", "btrfs subvolume set-default snapshot")
        .unwrap();
    image.compare("ro", &Options::default());
    let top = Options {
        root: RootSubvolume::Id(5),
        ..Options::default()
    };
    image.compare("ro,subvolid=5", &top);
}

/// Makes filesystems that this kernel may not mount, and compares them with the files that mkfs put
/// into them.
#[test]
fn sectors_of_other_sizes() {
    let Some(()) = available() else { return };
    let source = tempfile::tempdir().unwrap();
    let script = format!("cd {}\n{FILES_OF_MKFS}", source.path().display());
    run("bash", ["-ec", &script]).unwrap();
    let expected = Tree::of_directory(source.path()).unwrap();
    for sector_bytes in [16384, 65536] {
        let mkfs = format!(
            "-s {sector_bytes} -n 65536 --rootdir {}",
            source.path().display()
        );
        let image = KernelImage::make(1, 256, &mkfs).unwrap();
        let fs = image.open(&Options::default()).unwrap();
        let found = Tree::of_filesystem(&fs).unwrap();
        assert_eq!(found.entries.len(), expected.entries.len());
        for (found, expected) in found.entries.iter().zip(&expected.entries) {
            assert_eq!(found.path, expected.path);
            assert_eq!((found.kind, &found.mode), (expected.kind, &expected.mode));
            assert_eq!(found.content, expected.content, "{}", found.path);
            assert_eq!(found.target, expected.target);
        }
    }
}

const FILES_OF_MKFS: &str = "
    mkdir -p dir/sub
    seq 1 30000 > dir/numbers
    head -c 1500000 /dev/urandom > large
    echo hello > small
    ln -s small link
    for i in $(seq 1 300); do echo $i > dir/sub/$i; done
";
