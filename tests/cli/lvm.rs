//! Commands on logical volumes.

use std::collections::BTreeSet;
use std::path::Path;

use diskfs::Disk;
use diskfs_fixtures::{Lvm, Part, TempImage, image, require, require_root, run};
use serde_json::Value;

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
    assert!(stderr.contains("available: disk, vg0/root"), "{stderr}");
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

/// The second partition is removed from the table.
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
        let opened = diskfs::Disk::open(disk.path()).unwrap();
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
    let opened = || Disk::options().read_only(false).open(image.path()).unwrap();
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
    // Closing left it marked as in sync.
    volume.writable_device().unwrap();
}

/// Returns LVM's report of the two disks of `lvm-striped.raw`: the values that must not change, and
/// those that must.
fn lvm_report(image: &Path) -> (Vec<Value>, BTreeSet<String>) {
    let parts = [0, 1].map(|number| {
        let disk = Disk::open(image).unwrap();
        let volume = disk.volume(&format!("p{}", number + 1)).unwrap();
        Part {
            image,
            start_bytes: volume.start_bytes().unwrap(),
            len_bytes: Some(volume.size_bytes()),
        }
    });
    let lvm = Lvm::new(&parts).unwrap();
    lvm.run("vgck").unwrap();
    let report = |command, fields| lvm.report(command, fields).unwrap();
    let kept = [
        report(
            "vgs",
            "vg_name,pv_count,vg_missing_pv_count,vg_free,vg_attr",
        ),
        report(
            "lvs -a --segments",
            "lv_name,lv_uuid,seg_start,seg_size,segtype",
        ),
    ];
    let changed = [report("vgs", "vg_uuid"), report("pvs", "pv_uuid")].concat();
    let uuids = changed.iter().map(|row| {
        let mut fields = row.as_object().unwrap().values();
        fields.next().unwrap().as_str().unwrap().to_owned()
    });
    (kept.concat(), uuids.collect())
}

const GUEST: [&str; 4] = ["deploy", "lvm-striped.raw", "--volume", "vg-0/my-root"];

fn deploy(disk: &TempImage, words: &[&str]) -> crate::Run {
    diskfs(disk, &[&GUEST[..], words].concat())
}

fn uuids_of(disk: &TempImage) -> Vec<String> {
    let info = diskfs(disk, &["info", "--json", "lvm-striped.raw"]).json();
    let group = &info["volume_groups"][0];
    let physical = group["physical_volumes"].as_array().unwrap();
    let rows = Some(group).into_iter().chain(physical);
    rows.map(|row| row["uuid"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_group_gets_new_uuids_and_whatever_names_them_follows() {
    let disk = image("lvm-striped.raw");
    let old = uuids_of(&disk);
    let bare = |uuid: &str| uuid.replace('-', "");
    let cat = |path: &str| {
        let path = format!("lvm-striped.raw:{path}");
        diskfs(&disk, &["cat", "--volume", "vg-0/my-root", &path]).text()
    };
    let devices = |uuids: &[String]| format!("IDTYPE=devname PVID={}\n", bare(&uuids[1]));
    let grub = |uuids: &[String]| format!("set root='lvmid/{}/x'\n", uuids[0]);
    let steps = [
        format!("/etc/lvm/devices/system.devices:{}", devices(&old)),
        format!("/boot/grub/grub.cfg:{}", grub(&old)),
        format!("/srv/other:{}", grub(&old)),
    ];
    let steps = steps.each_ref().map(|step| ["--write", step]);
    let mkdir = [
        "--mkdir",
        "/etc/lvm/devices",
        "--mkdir",
        "/boot/grub",
        "--mkdir",
        "/srv",
    ];
    deploy(&disk, &[&mkdir[..], &steps.concat()].concat()).text();
    let before = require_root().map(|()| lvm_report(&disk.path()));
    let bytes = std::fs::read(disk.path()).unwrap();

    let words = ["--operations", "lvm-uuids"];
    let shown = deploy(&disk, &[&words[..], &["--dry-run"]].concat()).text();
    assert!(shown.contains("volume group vg-0: "), "{shown}");
    assert!(shown.contains("-IDTYPE=devname PVID="), "{shown}");
    assert!(std::fs::read(disk.path()).unwrap() == bytes);

    let told = deploy(&disk, &[&words[..], &["--json"]].concat()).json();
    let new = uuids_of(&disk);
    let rows = told["guests"][0]["steps"][0]["uuids"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for ((row, new), old) in rows.iter().zip(&new).zip(&old) {
        assert_eq!(
            (&row["old"], &row["new"]),
            (&old[..].into(), &new[..].into())
        );
        assert_ne!(old, new);
    }
    assert_eq!(rows[1]["of"], "physical volume p1");
    assert_eq!(cat("/etc/lvm/devices/system.devices"), devices(&new));
    assert_eq!(cat("/boot/grub/grub.cfg"), grub(&new));
    assert_eq!(cat("/srv/other"), grub(&old));
    if let Some((kept, uuids)) = before {
        let (kept_now, uuids_now) = lvm_report(&disk.path());
        assert_eq!(kept_now, kept);
        assert!(uuids_now.is_disjoint(&uuids), "{uuids_now:?}");
        assert_eq!(uuids_now, new.iter().cloned().collect());
    }
    // The operation is among the defaults, and makes new UUIDs each time.
    let told = deploy(&disk, &["--operations", "defaults"]).text();
    assert!(
        told.contains(&format!("physical volume p2: {} -> ", new[2])),
        "{told}"
    );
    let words = ["--operations", "defaults,-lvm-uuids"];
    let left = uuids_of(&disk);
    deploy(&disk, &words).text();
    assert_eq!(uuids_of(&disk), left);
}

/// GRUB's core image finds `/boot` on a logical volume by the group's UUID.
#[test]
fn a_group_that_grub_starts_from_keeps_its_uuid() {
    let disk = image("lvm-striped.raw");
    let old = uuids_of(&disk);
    let core = [
        "--mkdir",
        "/boot/grub/i386-pc",
        "--write",
        "/boot/grub/i386-pc/core.img:x",
    ];
    deploy(&disk, &core).text();
    let told = deploy(&disk, &["--operations", "lvm-uuids"]).text();
    assert!(
        told.contains("note: volume group vg-0 keeps its UUID"),
        "{told}"
    );
    let new = uuids_of(&disk);
    assert_eq!(new[0], old[0]);
    assert!(new[1] != old[1] && new[2] != old[2]);
}

#[test]
fn a_group_that_is_not_whole_is_left_as_it_is() {
    let disk = image("lvm-linear.raw");
    let guest = ["deploy", "lvm-linear.raw", "--volume", "vg0/root"];
    // Replaces the first metadata text of the group, with a mark of the same length.
    let mut bytes = std::fs::read(disk.path()).unwrap();
    let area = 4096;
    let header = |n: usize| area + 40 + n;
    let number = |bytes: &[u8], at: usize| {
        usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
    };
    let start = area + number(&bytes, header(0));
    let text = start..start + number(&bytes, header(8));
    let old = b"\"RESIZEABLE\"";
    let at = bytes[text.clone()]
        .windows(12)
        .position(|it| it == old)
        .unwrap();
    bytes[start + at..][..12].copy_from_slice(b"\"EXPORTED\"  ");
    let crc = |bytes: &[u8]| {
        bytes.iter().fold(0xf597_a6cf_u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
            })
        })
    };
    let sum = crc(&bytes[text]).to_le_bytes();
    bytes[header(16)..][..4].copy_from_slice(&sum);
    let sum = crc(&bytes[area + 4..area + 512]).to_le_bytes();
    bytes[area..][..4].copy_from_slice(&sum);
    std::fs::write(disk.path(), &bytes).unwrap();
    let deploy = |words: &[&str]| diskfs(&disk, &[&guest[..], words].concat());
    let (code, stderr) = deploy(&["--operations", "lvm-uuids", "--write", "/new:x"]).failure();
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("marked EXPORTED"), "{stderr}");
    assert!(std::fs::read(disk.path()).unwrap() == bytes);
    let told = deploy(&["--operations", "defaults"]).text();
    assert!(told.contains("note: lvm-uuids was skipped"), "{told}");
}
