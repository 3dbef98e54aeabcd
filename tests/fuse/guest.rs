//! A guest of several filesystems and disks in one mount, read and written.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use diskfs_fixtures::{TempImage, image};

use super::{Mountpoint, can_mount, diskfs, run, stderr};

/// The errno(3) that the kernel returns when diskfs has refused the request.
const EBUSY: i32 = 16;
const EXDEV: i32 = 18;
const EOPNOTSUPP: i32 = 95;

fn guest() -> TempImage {
    let system = image("guest.raw");
    let data = image("guest-data.raw");
    fs::copy(data.path(), system.directory().join("data.raw")).unwrap();
    system
}

fn mount(words: &[&str], images: &[&Path], at: &Path) {
    let mut all: Vec<OsString> = vec!["mount".into()];
    all.extend(words.iter().map(OsString::from));
    all.extend(images.iter().map(|path| path.as_os_str().to_owned()));
    all.push(at.as_os_str().to_owned());
    let mounted = diskfs(all);
    assert!(mounted.status.success(), "{}", stderr(&mounted));
}

fn umount(at: &Path) {
    let ended = diskfs(["umount".as_ref(), at.as_os_str()]);
    assert!(ended.status.success(), "{}", stderr(&ended));
}

fn refused<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn one_mount_shows_the_guest() {
    if can_mount().is_none() {
        return;
    }
    let system = guest();
    let data = system.directory().join("data.raw");
    let at = Mountpoint::new();
    mount(&[], &[&system.path(), &data], &at);
    assert_eq!(fs::read(at.join("boot/vmlinuz")).unwrap(), b"vmlinuz\n");
    assert_eq!(
        fs::read(at.join("opt/data/photos/one")).unwrap(),
        b"photos/one\n"
    );
    // The kernel walks the path, back across the borders of filesystems.
    let round = at.join("srv/my data/photos/../../../boot/grub/../../home/ann/letter");
    assert_eq!(fs::read(round).unwrap(), b"ann/letter\n");
    assert_eq!(
        refused(fs::read_dir(at.join("boot/other"))),
        Some(EOPNOTSUPP)
    );
    assert!(!at.join("boot/hidden").exists());
    // The sizes are those of the filesystem of the path.
    let size = |path: &str| run("stat", &["-fc%b".as_ref(), at.join(path).as_os_str()]);
    assert_ne!(size("boot"), size(""));
    umount(&at);
}

#[test]
fn what_is_written_is_where_the_guest_finds_it() {
    if can_mount().is_none() {
        return;
    }
    let system = guest();
    let data = system.directory().join("data.raw");
    let at = Mountpoint::new();
    mount(&["--rw"], &[&system.path(), &data], &at);
    for path in ["etc/new", "boot/grub/new", "home/ann/new", "opt/data/new"] {
        fs::write(at.join(path), path).unwrap();
    }
    // One file at two paths.
    assert_eq!(
        fs::read(at.join("srv/my data/new")).unwrap(),
        b"opt/data/new"
    );
    fs::write(at.join("var/mail/inbox"), "changed").unwrap();
    assert_eq!(
        fs::read(at.join("home/ann/mail/inbox")).unwrap(),
        b"changed"
    );
    // The kernel's cache of a directory at one path is not valid for the other.
    assert!(!at.join("var/mail/later").exists());
    let names = |path: &str| fs::read_dir(at.join(path)).unwrap().count();
    let before = names("var/mail");
    fs::write(at.join("home/ann/mail/later"), "").unwrap();
    assert!(at.join("var/mail/later").exists());
    assert_eq!(names("var/mail"), before + 1);
    fs::remove_file(at.join("var/mail/later")).unwrap();
    assert!(!at.join("home/ann/mail/later").exists());
    assert_eq!(names("home/ann/mail"), before);
    let across = fs::rename(at.join("etc/new"), at.join("home/new"));
    assert_eq!(refused(across), Some(EXDEV));
    assert_eq!(refused(fs::remove_dir(at.join("boot"))), Some(EBUSY));
    let moved = fs::rename(at.join("home"), at.join("house"));
    assert_eq!(refused(moved), Some(EBUSY));
    umount(&at);

    let mib = |mib: u64| mib << 20;
    for (image, offset, len, path, expected) in [
        (system.path(), mib(11), mib(16), "etc/new", "etc/new"),
        (system.path(), mib(2), mib(8), "grub/new", "boot/grub/new"),
        (system.path(), mib(27), mib(8), "ann/new", "home/ann/new"),
        (system.path(), mib(27), mib(8), "ann/mail/inbox", "changed"),
        (data.clone(), 0, mib(8), "new", "opt/data/new"),
    ] {
        let at = Mountpoint::new();
        let options = format!("ro,loop,offset={offset},sizelimit={len}");
        let words = [
            "-o".as_ref(),
            options.as_ref(),
            image.as_os_str(),
            at.as_os_str(),
        ];
        run("mount", &words);
        let found = fs::read_to_string(at.join(path));
        diskfs_fixtures::unmount(&at).unwrap();
        assert_eq!(found.unwrap(), expected, "{path}");
    }
    // e2fsck checks one that is a separate file.
    run("e2fsck", &["-fn".as_ref(), data.as_os_str()]);
}

#[test]
fn several_systems_are_side_by_side() {
    if can_mount().is_none() {
        return;
    }
    let disk = image("guest-two.raw");
    let at = Mountpoint::new();
    mount(&["--rw"], &[&disk.path()], &at);
    let mut names: Vec<_> = fs::read_dir(&*at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["1-alpine-3.22", "2-fedora-44"]);
    fs::write(at.join("2-fedora-44/var/log/new"), "new").unwrap();
    let same = "2-fedora-44/sysroot/ostree/deploy/fedora/var/log/new";
    assert_eq!(fs::read(at.join(same)).unwrap(), b"new");
    assert!(fs::write(at.join("new"), "").is_err());
    umount(&at);
    let at = Mountpoint::new();
    mount(&["--os", "2"], &[&disk.path()], &at);
    assert_eq!(fs::read(at.join("var/log/new")).unwrap(), b"new");
    umount(&at);
}
