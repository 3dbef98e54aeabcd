//! The kernel of the image itself.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use diskfs_fixtures::{Workshop, run, skip};

use super::{appliance, at, check, command, diskfs, require_all, stderr};

const VERSION: &str = "6.1.0-test";

/// Makes a system's tree with the appliance's kernel for QEMU and its modules at the paths that
/// distributions use.
fn system(root: &Path, appliance: &Path) {
    let modules = root.join("usr/lib/modules").join(VERSION);
    for dir in [root.join("etc"), root.join("boot"), modules.clone()] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(root.join("etc/os-release"), "ID=test\n").unwrap();
    symlink("usr/lib", root.join("lib")).unwrap();
    let kernel = root.join(format!("boot/vmlinuz-{VERSION}"));
    fs::copy(appliance.join("qemu/vmlinux"), kernel).unwrap();
    let initramfs = fs::File::open(appliance.join("qemu/initramfs")).unwrap();
    let mut cpio = Command::new("cpio");
    cpio.args(["-id", "--quiet", "modules/*.ko"]);
    cpio.current_dir(&modules).stdin(Stdio::from(initramfs));
    assert!(cpio.status().unwrap().success());
    fs::rename(modules.join("modules"), modules.join("kernel")).unwrap();
    let entries = fs::read_dir(modules.join("kernel")).unwrap();
    let lines = entries.map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        format!("kernel/{name}:\n")
    });
    fs::write(modules.join("modules.dep"), lines.collect::<String>()).unwrap();
}

#[test]
fn a_guests_own_kernel_opens_its_filesystems() {
    let Some(appliance) = appliance() else { return };
    if !appliance.join("diskfs-agent").is_file() || !appliance.join("qemu/vmlinux").is_file() {
        skip("missing kernel for QEMU; build it with packaging/appliance/build");
        return;
    }
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair", "cpio", "qemu-system-x86_64"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("xfs.img", 512 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    let image_root = at(&image, "/");
    let words = ["-v", "ls", "--vm-kernel", "guest", "--vm", "qemu-tcg"];
    let with_its_kernel = |more: &OsStr| {
        let words = words.iter().map(OsStr::new).chain([more]);
        let output = command(&appliance, words).output().unwrap();
        (output.status.code(), stderr(&output), output.stdout)
    };

    let (code, said, _) = with_its_kernel(&image_root);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("no operating system found"), "{said}");

    let tree = shop.path("tree");
    system(&tree, &appliance);
    let archive = shop.path("tree.tar");
    let words = [
        Path::new("-cf"),
        &archive,
        Path::new("-C"),
        &tree,
        Path::new("."),
    ];
    run("tar", words).unwrap();
    let mut diskfs_in = command(&appliance, ["tar-in".as_ref(), image_root.as_os_str()]);
    diskfs_in.stdin(Stdio::from(fs::File::open(&archive).unwrap()));
    assert!(diskfs_in.status().unwrap().success());

    let (code, said, listed) = with_its_kernel(&at(&image, "/boot"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        String::from_utf8(listed).unwrap(),
        format!("vmlinuz-{VERSION}\n")
    );
    let taken = format!("/lib/modules/{VERSION}");
    assert!(said.contains(&taken) && said.contains("qemu-tcg"), "{said}");

    // Writing works, too.
    let dir = at(&image, "/made");
    let words = ["mkdir", "--vm-kernel", "guest", "--vm", "qemu-tcg"].map(AsRef::as_ref);
    diskfs(&appliance, &[&words[..], &[dir.as_os_str()]].concat());
    check("xfs_repair", &["-n"], &image);
}
