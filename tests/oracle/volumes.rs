//! Partition tables with a filesystem in one of the partitions.

use diskfs::Disk;
use diskfs_fixtures::{Tree, expected_tree, image};

use super::{assert_same, disk};

/// Checks that the volume of that name has the expected tree, and returns the disk.
fn has_the_filesystem(name: &str, volume: &str, expected: &Tree) -> Disk {
    let disk = disk(&image(name).path());
    let by_name = disk
        .volume(volume)
        .and_then(|volume| volume.filesystem())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_same(name, expected, &by_name);
    disk
}

#[test]
fn the_filesystem_is_found_behind_every_table() {
    let expected = expected_tree("ext2");
    for (name, volume) in [
        ("gpt.raw", "p7"),
        ("gpt-primary-broken.raw", "p7"),
        ("gpt-primary-wiped.raw", "p7"),
        ("gpt-4k.raw", "p2"),
        ("gpt-hybrid.raw", "p7"),
        ("mbr-logical.raw", "p7"),
    ] {
        let disk = has_the_filesystem(name, volume, &expected);
        let meant = disk
            .filesystem()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(meant.volume(), volume, "{name}");
    }
}

#[test]
fn the_filesystem_is_found_in_logical_volumes() {
    let expected = expected_tree("ext2");
    for (name, volume) in [
        ("lvm-linear.raw", "vg0/root"),
        ("lvm-striped.raw", "vg-0/my-root"),
    ] {
        has_the_filesystem(name, volume, &expected);
    }
}

#[test]
fn a_broken_primary_table_is_warned_of() {
    for (name, warned) in [
        ("gpt.raw", false),
        ("gpt-primary-broken.raw", true),
        ("gpt-primary-wiped.raw", true),
    ] {
        let image = image(name);
        let disk = disk(&image.path());
        disk.volumes()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            !disk.warnings().is_empty(),
            warned,
            "{name}: {:?}",
            disk.warnings()
        );
    }
}

#[test]
fn the_demo_image_means_its_root() {
    let image = image("demo.qcow2");
    let disk = disk(&image.path());
    let names: Vec<_> = disk
        .volumes()
        .expect("a table")
        .iter()
        .map(|volume| volume.name().to_owned())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let root = disk.filesystem().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(root.volume(), "p1");
    let release = root
        .read("/etc/os-release")
        .expect("read through two symlinks");
    assert!(release.starts_with(b"PRETTY_NAME"));
}
