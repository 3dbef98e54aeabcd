//! Whole filesystems: the mount shows the tree that the kernel showed.

use std::ffi::OsStr;
use std::path::Path;

use diskfs_fixtures::{Tree, expected_tree, image, require};

use super::{Mountpoint, can_mount, diskfs, run, stderr};

/// The fixtures: one for each property that the mount handles separately, and for each driver;
/// other tests compare the forms of the filesystems without FUSE.
const FIXTURES: [&str; 11] = [
    "demo.qcow2",
    "exfat.img",
    "ext2",
    "ext4-default",
    "ext4-directories",
    "ext4-htree-deep",
    "ext4-inline-data",
    "ext4-sparse",
    "ext4-xattr",
    "iso9660-joliet.iso",
    "iso9660-rock-ridge.iso",
];

#[test]
fn mounted_filesystems_are_as_recorded() {
    if can_mount().is_none() {
        return;
    }
    for name in FIXTURES {
        // One filesystem, not the guest's tree.
        let volume = if name == "demo.qcow2" { "p1" } else { "disk" };
        compare(&image(name).path(), &["--volume", volume], name);
    }
}

/// Checks that an image, mounted with these options, shows the recorded tree of the fixture `name`.
fn compare(image: &Path, words: &[&str], name: &str) {
    let at = Mountpoint::new();
    mount(image, words, &at);
    let found = Tree::of_directory(&at).expect("read the tree");
    let differences = expected_tree(name).differences(&found);
    umount(&at, name);
    assert!(
        differences.is_empty(),
        "{name}:\n{}",
        differences.join("\n")
    );
}

fn mount(image: &Path, words: &[&str], at: &Mountpoint) {
    let words = ["mount"].iter().chain(words).map(OsStr::new);
    let mounted = diskfs(words.chain([image.as_os_str(), at.as_os_str()]));
    let name = image.display();
    assert!(mounted.status.success(), "{name}: {}", stderr(&mounted));
}

fn umount(at: &Mountpoint, name: &str) {
    // Another test that starts a program holds our open files for a moment, between its fork and
    // its exec.
    let umount = || diskfs(["umount".as_ref(), at.as_os_str()]);
    let mut unmounted = umount();
    for _ in 0..50 {
        if unmounted.status.code() != Some(6) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        unmounted = umount();
    }
    assert!(unmounted.status.success(), "{name}: {}", stderr(&unmounted));
}

/// exFAT implements all requests for writing in its own way.
#[test]
fn a_mounted_exfat_is_written() {
    if can_mount().is_none() || require("fsck.exfat").is_none() {
        return;
    }
    let image = image("exfat.img");
    check_writing(&image.path(), &[]);
    run("fsck.exfat", &["-n".as_ref(), image.path().as_os_str()]);
}

/// A qcow2 image with encrypted data is mounted by its decrypted data.
#[test]
fn an_encrypted_image_is_mounted_with_its_key() {
    if can_mount().is_none() || require("qemu-img").is_none() {
        return;
    }
    let plain = image("ext4-default");
    let [key, encrypted] = ["key", "secret.qcow2"].map(|name| plain.directory().join(name));
    std::fs::write(&key, "correct horse").expect("write the file");
    let key = key.to_str().expect("the path is UTF-8");
    let secret = format!("secret,id=key,file={key}");
    let options = "encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time=10";
    let convert = ["convert", "-O", "qcow2", "--object", &secret, "-o", options];
    let (from, to) = (plain.path(), &encrypted);
    let paths = [from.as_os_str(), to.as_os_str()];
    run("qemu-img", &[&convert.map(OsStr::new)[..], &paths].concat());

    let selector = format!("all:file:{key}");
    compare(&encrypted, &["--key", &selector], "ext4-default");
    check_writing(&encrypted, &["--key", &selector]);
    let at = Mountpoint::new();
    let without = diskfs(["mount".as_ref(), encrypted.as_os_str(), at.as_os_str()]);
    assert_eq!(without.status.code(), Some(6), "{}", stderr(&without));
    assert!(stderr(&without).contains("--key"), "{}", stderr(&without));
}

/// Checks that files written through one mount appear in the next one.
fn check_writing(image: &Path, words: &[&str]) {
    let contents: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    let at = Mountpoint::new();
    mount(image, &[&["--rw"], words].concat(), &at);
    let directory = at.join("a new directory");
    std::fs::create_dir(&directory).expect("create the directory");
    std::fs::write(directory.join("a file"), &contents).expect("write the file");
    std::fs::rename(directory.join("a file"), at.join("another name"))
        .expect("rename within one filesystem");
    umount(&at, "written");
    mount(image, words, &at);
    assert!(at.join("a new directory").is_dir());
    assert!(std::fs::read(at.join("another name")).expect("read the file") == contents);
    umount(&at, "read");
}
