//! Filesystems of the machine on volumes that diskfs assembles itself: partitions, LVM, and LUKS.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use diskfs::luks::Key;
use diskfs::{Disk, Keys};
use diskfs_fixtures::{Lvm, Part, Workshop, require_root, run};

use super::{appliance, at, check, diskfs, require_all};

/// Makes an XFS on a volume, writes to it, reads that back, and checks the filesystem as a separate
/// file.
fn made_and_written(appliance: &Path, image: &Path, volume: &str, key: &[OsString]) {
    let key: Vec<&OsStr> = key.iter().map(OsString::as_os_str).collect();
    let volume_words = [OsStr::new("--volume"), OsStr::new(volume)];
    let words = |words: &[&OsStr]| diskfs(appliance, &[words, &volume_words, &key].concat());
    words(&["mkfs".as_ref(), "xfs".as_ref(), image.as_os_str()]);
    words(&["mkdir".as_ref(), &at(image, "/dir")]);
    words(&["touch".as_ref(), &at(image, "/dir/file")]);
    assert_eq!(words(&["ls".as_ref(), &at(image, "/dir")]), b"file\n");
}

/// Copies the contents of a volume to a file.
fn copy_of(shop: &Workshop, disk: &Disk, volume: &str) -> PathBuf {
    let device = disk.volume(volume).unwrap().device().unwrap();
    let copy = shop.path("copy.img");
    let file = std::fs::File::create(&copy).unwrap();
    file.set_len(device.size_bytes()).unwrap();
    let mut chunk = vec![0; 1 << 20];
    for offset in (0..device.size_bytes()).step_by(chunk.len()) {
        let left = usize::try_from(device.size_bytes() - offset).unwrap();
        let len = left.min(chunk.len());
        device.read_at(offset, &mut chunk[..len]).unwrap();
        if chunk[..len].iter().any(|&byte| byte != 0) {
            std::os::unix::fs::FileExt::write_all_at(&file, &chunk[..len], offset).unwrap();
        }
    }
    copy
}

#[test]
fn xfs_on_a_logical_volume() {
    let Some(appliance) = appliance().filter(|dir| dir.join("tools").is_file()) else {
        return;
    };
    let Some(()) = require_all(&["lvm", "losetup", "xfs_repair"]) else {
        return;
    };
    let Some(()) = require_root() else { return };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", 400 << 20).unwrap();
    let part = Part {
        image: &image,
        start_bytes: 0,
        len_bytes: None,
    };
    let lvm = Lvm::new(&[part]).unwrap();
    lvm.run("pvcreate -q @0").unwrap();
    lvm.run("vgcreate -q -s 1m vg @0").unwrap();
    // In two pieces, the second before the first.
    lvm.run("lvcreate -q -an -Zn -Wn -n first -l 40 vg")
        .unwrap();
    lvm.run("lvcreate -q -an -Zn -Wn -n data -l 320 vg")
        .unwrap();
    lvm.run("lvremove -q -f vg/first").unwrap();
    lvm.run("lvextend -q vg/data -l +20").unwrap();
    drop(lvm);
    made_and_written(&appliance, &image, "vg/data", &[]);
    let disk = Disk::open(&image).unwrap();
    check("xfs_repair", &["-n"], &copy_of(&shop, &disk, "vg/data"));
}

/// The plan of a disk whose filesystems the machine makes and fills.
const PLAN: &str = "\
disk: {size: 3G, table: gpt}
sources: [{directory: tree}]
partitions:
  - name: data
    size: 700M
    filesystem: {type: btrfs, mount: /data}
  - name: pv
    size: rest
    lvm:
      group: vg
      volumes: [{name: root, size: 700M, filesystem: {type: xfs, mount: /}}]
";

#[test]
fn a_disk_of_xfs_and_btrfs_is_built_and_grows() {
    let Some(appliance) = appliance().filter(|dir| dir.join("tools").is_file()) else {
        return;
    };
    let Some(()) = require_all(&["xfs_repair", "btrfs"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    std::fs::create_dir_all(shop.path("tree/data")).unwrap();
    std::fs::create_dir_all(shop.path("tree/etc")).unwrap();
    std::fs::write(shop.path("tree/data/inside"), "of btrfs").unwrap();
    std::fs::write(shop.path("tree/etc/inside"), "of XFS").unwrap();
    std::fs::write(shop.path("plan.yaml"), PLAN).unwrap();
    let (plan, image) = (shop.path("plan.yaml"), shop.path("disk.qcow2"));
    let words = [plan.as_os_str(), "-o".as_ref(), image.as_os_str()];
    diskfs(&appliance, &[&["build".as_ref()], &words[..]].concat());
    verify_disk(&appliance, &shop, &image, "3G");

    // The physical volume, which is the last partition, and the logical volume in it.
    let words = ["resize", "--volume", "vg/root"].map(OsStr::new);
    diskfs(
        &appliance,
        &[&words[..], &[image.as_os_str(), "4G".as_ref()]].concat(),
    );
    verify_disk(&appliance, &shop, &image, "4G");
}

/// Compares the files of a disk with those that it was built from, and checks its filesystems.
fn verify_disk(appliance: &Path, shop: &Workshop, image: &Path, size: &str) {
    let disk = Disk::open(image).unwrap();
    let gibibytes = disk.description().virtual_size_bytes >> 30;
    assert_eq!(format!("{gibibytes}G"), size);
    for (volume, path, contents) in [
        ("p1", "/inside", "of btrfs"),
        ("vg/root", "/etc/inside", "of XFS"),
    ] {
        let path = at(image, path);
        let words = ["cat".as_ref(), "--volume".as_ref(), volume.as_ref(), &*path];
        assert_eq!(diskfs(appliance, &words), contents.as_bytes());
    }
    check("btrfs", &["check"], &copy_of(shop, &disk, "p1"));
    check("xfs_repair", &["-n"], &copy_of(shop, &disk, "vg/root"));
}

#[test]
fn xfs_that_is_encrypted() {
    let Some(appliance) = appliance().filter(|dir| dir.join("tools").is_file()) else {
        return;
    };
    let Some(()) = require_all(&["cryptsetup", "xfs_repair"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", 340 << 20).unwrap();
    let key = shop.path("key");
    std::fs::write(&key, "a secret").unwrap();
    let words = "--batch-mode luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000";
    let words = words.split(' ').chain(["--key-file"]).map(OsStr::new);
    run(
        "cryptsetup",
        words.chain([key.as_os_str(), image.as_os_str()]),
    )
    .unwrap();
    let mut selector = OsString::from("disk:file:");
    selector.push(&key);
    let key_words = ["--key".into(), selector];
    made_and_written(&appliance, &image, "disk/luks", &key_words);
    let disk = Disk::options()
        .keys(Keys::default().with_all(Key::passphrase(b"a secret")))
        .open(&image)
        .unwrap();
    check("xfs_repair", &["-n"], &copy_of(&shop, &disk, "disk/luks"));
}
