//! Whole filesystems: the mount shows what the kernel showed of them.

use diskfs_fixtures::{Tree, expected_tree, image};

use super::{Mountpoint, can_mount, diskfs, stderr};

/// One for each thing that passes through the mount in a way of its own; the filesystem's own
/// forms are compared without FUSE.
const FIXTURES: [&str; 8] = [
    "demo.qcow2",
    "ext2",
    "ext4-default",
    "ext4-directories",
    "ext4-htree-deep",
    "ext4-inline-data",
    "ext4-sparse",
    "ext4-xattr",
];

#[test]
fn mounted_filesystems_are_as_recorded() {
    if can_mount().is_none() {
        return;
    }
    for name in FIXTURES {
        let image = image(name);
        let at = Mountpoint::new();
        // One filesystem, and not the guest's tree.
        let volume = if name == "demo.qcow2" { "p1" } else { "disk" };
        let words = ["mount", "--volume", volume].map(std::ffi::OsStr::new);
        let mounted = diskfs(
            words
                .into_iter()
                .chain([image.path().as_os_str(), at.as_os_str()]),
        );
        assert!(mounted.status.success(), "{name}: {}", stderr(&mounted));
        let found = Tree::of_directory(&at).expect("it can be read");
        let differences = expected_tree(name).differences(&found);
        // Another test that starts a program holds our open files for a moment, between its fork
        // and its exec.
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
        assert!(
            differences.is_empty(),
            "{name}:\n{}",
            differences.join("\n")
        );
    }
}
