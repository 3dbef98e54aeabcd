//! A small Debian on an image.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use diskfs_fixtures::{command, require};
use tempfile::TempDir;

use super::text;

/// Directories without files.
const DIRS: [&str; 12] = [
    "boot",
    "etc/apt",
    "etc/network",
    "etc/skel",
    "etc/sudoers.d",
    "etc/systemd/system",
    "etc/udev/rules.d",
    "home",
    "root",
    "tmp",
    "usr/bin",
    "var/log",
];

const FILES: [(&str, &str); 21] = [
    ("etc/issue", "Debian GNU/Linux 12\n"),
    ("etc/debian_version", "12.15\n"),
    ("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n"),
    ("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"),
    ("etc/shadow", "root:*:20780:0:99999:7:::\n"),
    ("etc/group", "root:x:0:\nshadow:x:42:\n"),
    ("etc/gshadow", "root:*::\nshadow:*::\n"),
    (
        "etc/login.defs",
        "UID_MIN 1000\nSYS_UID_MAX 999\nENCRYPT_METHOD SHA512\n",
    ),
    ("etc/hostname", "debian\n"),
    (
        "etc/hosts",
        "127.0.0.1\tlocalhost\n::1\t\tlocalhost ip6-localhost ip6-loopback\n\
         ff02::1\t\tip6-allnodes\nff02::2\t\tip6-allrouters\n",
    ),
    (
        "etc/fstab",
        "# the root\nUUID=120be452-0ef3-4800-aa09-58c5b6e03249 / ext4 errors=remount-ro 0 1\n\
         UUID=A5CE-8309 /boot/efi vfat umask=0077 0 1\n",
    ),
    (
        "etc/network/interfaces",
        "source /etc/network/interfaces.d/*\n\nauto lo\niface lo inet loopback\n",
    ),
    (
        "etc/ssh/sshd_config",
        "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n",
    ),
    ("etc/ssh/sshd_config.d/.keep", ""),
    (
        "etc/motd",
        "The programs included with the Debian system are free software.\n",
    ),
    ("usr/lib/systemd/systemd", "ELF\n"),
    ("usr/sbin/ifup", "#!/bin/sh\n"),
    ("etc/sudoers", "@includedir /etc/sudoers.d\n"),
    ("usr/bin/apt-get", "ELF\n"),
    ("usr/bin/bash", "ELF\n"),
    ("usr/bin/sh", "ELF\n"),
];

/// Makes a directory with the guest's files.
fn tree() -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    let at = |path: &str| tree.path().join(path);
    for dir in DIRS {
        fs::create_dir_all(at(dir)).unwrap();
    }
    for (link, target) in [("bin", "usr/bin"), ("sbin", "usr/sbin"), ("lib", "usr/lib")] {
        symlink(target, at(link)).unwrap();
    }
    for (path, text) in FILES {
        fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        fs::write(at(path), text).unwrap();
    }
    for (path, mode) in [("etc/shadow", 0o640), ("usr/sbin/ifup", 0o755)] {
        fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    tree
}

/// Makes an ext4 image with the guest.
pub(super) fn debian(image: &Path, size: &str) -> Option<()> {
    require("mke2fs")?;
    let tree = tree();
    let made = command("mke2fs")
        .args(["-q", "-t", "ext4", "-E", "root_owner=0:0", "-d"])
        .args([tree.path(), image])
        .arg(size)
        .status();
    assert!(made.unwrap().success());
    Some(())
}

/// Makes an image with the guest on a logical volume, beside other volumes.
pub(super) fn debian_on_lvm(image: &Path) {
    let (directory, name) = (image.parent().unwrap(), image.file_name().unwrap());
    fs::copy(diskfs_fixtures::image("guest.raw").path(), image).unwrap();
    let root = format!("{}:/", name.to_str().unwrap());
    let tree = tree();
    text(directory, &["mkdir", "-p", &format!("{root}lib")]);
    for part in ["etc", "home", "root", "usr"] {
        let part = tree.path().join(part);
        text(directory, &["cp", "-a", part.to_str().unwrap(), &root]);
    }
}

/// Checks a filesystem with e2fsck.
pub(super) fn check(image: &Path) {
    let output = command("e2fsck")
        .args(["-f", "-n"])
        .arg(image)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
