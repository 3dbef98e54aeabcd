//! The same through QEMU, which emulates the processor here: a short form, for a boot takes seconds.

use std::path::Path;

use diskfs_fixtures::{Workshop, run, skip};

use super::{appliance, at, check, diskfs, require_all};

#[test]
fn xfs_is_written_by_an_emulated_machine() {
    let Some(appliance) = appliance() else { return };
    if !appliance.join("qemu/vmlinux").is_file() {
        skip("there is no kernel for QEMU: packaging/appliance/build makes one");
        return;
    }
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair", "qemu-system-x86_64"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("xfs.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    let vm = ["--vm".as_ref(), "qemu-tcg".as_ref()];
    let dir = at(&image, "/dir");
    diskfs(
        &appliance,
        &[&["mkdir".as_ref(), dir.as_os_str()], &vm[..]].concat(),
    );
    check("xfs_repair", &["-n"], &image);
    let list = at(&image, "/");
    let listed = diskfs(
        &appliance,
        &[&["ls".as_ref(), list.as_os_str()], &vm[..]].concat(),
    );
    assert_eq!(listed, b"dir\n");
}
