//! Logical volumes.

use diskfs::{Disk, OpenOptions};
use diskfs_fixtures::{image, require, run};

use crate::diskfs;

#[test]
fn the_only_logical_volume_is_meant() {
    let disk = image("lvm-linear.raw");
    let root = diskfs(&disk, &["ls", "lvm-linear.raw:/size-1"]);
    assert_eq!(root.text(), "/size-1\n");
    for name in ["vg0/root", "/dev/vg0/root", "/dev/mapper/vg0-root"] {
        let words = ["ls", "--volume", name, "lvm-linear.raw:/size-1"];
        assert_eq!(diskfs(&disk, &words).text(), "/size-1\n", "{name}");
    }
    let words = ["ls", "--volume", "vg0/home", "lvm-linear.raw"];
    let (code, stderr) = diskfs(&disk, &words).failure();
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("there is: disk, vg0/root"), "{stderr}");
}

#[test]
fn dashes_in_names_are_doubled_in_nodes() {
    let disk = image("lvm-striped.raw");
    for name in ["vg-0/my-root", "/dev/mapper/vg--0-my--root"] {
        let words = ["ls", "--volume", name, "lvm-striped.raw:/size-1"];
        assert_eq!(diskfs(&disk, &words).text(), "/size-1\n", "{name}");
    }
}

#[test]
fn info_shows_groups() {
    let disk = image("lvm-striped.raw");
    let info = diskfs(&disk, &["info", "--json", "lvm-striped.raw"]).json();
    let group = &info["volume_groups"][0];
    assert_eq!(group["name"], "vg-0");
    assert_eq!(group["extent_size_bytes"], 1 << 20);
    // Fifteen extents on each of two disks, of which each volume has eight.
    assert_eq!(group["size_bytes"], 30 << 20);
    assert_eq!(group["free_bytes"], 14 << 20);
    let physical = group["physical_volumes"].as_array().unwrap();
    let on: Vec<_> = physical.iter().map(|pv| &pv["volume"]).collect();
    assert_eq!(on, ["p1", "p2"]);
    let volumes = info["volumes"].as_array().unwrap();
    let root = volumes.iter().find(|row| row["volume"] == "vg-0/my-root");
    let root = root.unwrap();
    assert_eq!(root["logical"]["layout"], "striped");
    assert_eq!(root["content"], "ext2");
    assert!(root["start_bytes"].is_null() && root["problem"].is_null());
    let text = diskfs(&disk, &["info", "lvm-striped.raw"]).text();
    for part in ["volume group: vg-0", "p1, p2", "vg-0/raid0", "striped"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// The second partition gone from the table.
#[test]
fn a_missing_physical_volume_is_told() {
    let disk = image("lvm-striped.raw");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(disk.path())
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 16], 446 + 16).unwrap();
    let words = ["ls", "--volume", "vg-0/my-root", "lvm-striped.raw"];
    let (code, stderr) = diskfs(&disk, &words).failure();
    assert_eq!(code, 3, "{stderr}");
    assert!(
        stderr.contains("vg-0/my-root needs physical volume"),
        "{stderr}"
    );
    let info = diskfs(&disk, &["info", "--json", "lvm-striped.raw"]).json();
    let volumes = info["volumes"].as_array().unwrap();
    let root = volumes.iter().find(|row| row["volume"] == "vg-0/my-root");
    let problem = root.unwrap()["problem"].as_str().unwrap();
    assert!(problem.contains("not on this disk"), "{problem}");
}

#[test]
fn a_logical_volume_is_written() {
    for (name, volume) in [
        ("lvm-linear.raw", "vg0/root"),
        ("lvm-striped.raw", "vg-0/my-root"),
    ] {
        let disk = image(name);
        let at = format!("{name}:/new");
        let words = ["mkdir", "--volume", volume, &at];
        assert_eq!(diskfs(&disk, &words).text(), "");
        let listed = diskfs(&disk, &["ls", "--volume", volume, "-d", &at]);
        assert_eq!(listed.text(), "/new\n", "{name}");
        if require("e2fsck").is_none() {
            return;
        }
        let opened = diskfs::Disk::open(disk.path(), &diskfs::OpenOptions::default()).unwrap();
        let device = opened.volume(volume).unwrap().device().unwrap();
        let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
        device.read_at(0, &mut bytes).unwrap();
        let copy = disk.directory().join("copy");
        std::fs::write(&copy, bytes).unwrap();
        run("e2fsck", ["-fn", copy.to_str().unwrap()]).unwrap();
    }
}

#[test]
fn several_writers_of_a_logical_volume_are_one() {
    let image = image("lvm-raid.raw");
    let opened = || Disk::open_writable(image.path(), &OpenOptions::default()).unwrap();
    let disk = opened();
    let volume = disk.volume("raid/raid10").unwrap();
    let first = volume.writable_device().unwrap();
    first.write_at(0, b"first").unwrap();
    let second = volume.writable_device().unwrap();
    drop(first);
    second.write_at(4096, b"second").unwrap();
    drop((second, volume));
    disk.close().unwrap();
    let volume = opened().volume("raid/raid10").unwrap();
    let mut bytes = [0; 6];
    volume.device().unwrap().read_at(4096, &mut bytes).unwrap();
    assert_eq!(&bytes, b"second");
    // It was left as one whose copies are alike.
    volume.writable_device().unwrap();
}
