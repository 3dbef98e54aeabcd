//! New UUIDs of filesystems and of all settings that name them, checked with e2fsck and blkid.

use diskfs_fixtures::require;

use super::Guest;

const OLD: &str = "11111111-2222-4333-8444-555555555555";

/// Makes a guest whose settings name its filesystem, with the given features.
fn guest(features: &str) -> Option<Guest> {
    require("blkid")?;
    let guest = Guest::new()?;
    let (tree, disk) = (guest.at("tree"), guest.at("disk.img"));
    let made = diskfs_fixtures::command("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-U", OLD, "-O", features, "-d"])
        .args([tree, disk])
        .arg("64M")
        .status();
    assert!(made.unwrap().success());
    let fstab = format!("/etc/fstab:UUID={OLD} / ext4 defaults 0 1\n");
    let grub = format!(
        "/boot/grub/grub.cfg:search --fs-uuid --set=root {OLD}\nlinux /vmlinuz root=UUID={OLD}\n"
    );
    let words = [
        "deploy",
        "disk.img",
        "--mkdir",
        "/boot/grub/i386-pc",
        "--write",
        &fstab,
        "--write",
        &grub,
    ];
    guest.diskfs(&words).text();
    Some(guest)
}

fn uuid(guest: &Guest) -> String {
    let blkid = diskfs_fixtures::command("blkid")
        .args(["-p", "-o", "value", "-s", "UUID"])
        .arg(guest.at("disk.img"))
        .output();
    String::from_utf8(blkid.unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

const WORDS: [&str; 4] = ["deploy", "disk.img", "--operations", "fs-uuids"];

#[test]
fn a_filesystem_gets_a_new_uuid_and_whatever_names_it_follows() {
    let Some(guest) = guest("metadata_csum_seed") else {
        return;
    };
    assert_eq!(uuid(&guest), OLD);
    let shown = guest.diskfs(&[&WORDS[..], &["--dry-run"]].concat()).text();
    assert!(shown.contains(&format!("-UUID={OLD} / ext4")), "{shown}");
    assert_eq!(uuid(&guest), OLD);
    let told = guest.diskfs(&[&WORDS[..], &["--json"]].concat()).json();
    let told = &told["guests"][0];
    assert!(told["in_parts"].is_null(), "{told}");
    let row = &told["steps"][0]["uuids"][0];
    assert_eq!(row["of"], "filesystem disk");
    assert_eq!(row["old"], OLD);
    let new = uuid(&guest);
    assert_eq!(row["new"], new[..]);
    assert_ne!(new, OLD);
    guest.is_right();
    assert_eq!(
        guest.cat("/etc/fstab"),
        format!("UUID={new} / ext4 defaults 0 1\n")
    );
    assert!(!guest.cat("/boot/grub/grub.cfg").contains(OLD));
    assert_eq!(guest.cat("/boot/grub/grub.cfg").matches(&new).count(), 2);
    // A new UUID each time, and none without the operation.
    guest.diskfs(&WORDS).text();
    let third = uuid(&guest);
    assert!(third != new && guest.cat("/etc/fstab").contains(&third));
    guest
        .diskfs(&["deploy", "disk.img", "--operations", "defaults"])
        .text();
    assert_eq!(uuid(&guest), third);
}

#[test]
fn a_filesystem_that_the_guest_would_not_start_from_keeps_its_uuid() {
    let Some(seedless) = guest("metadata_csum,^metadata_csum_seed") else {
        return;
    };
    let told = seedless.diskfs(&WORDS).text();
    assert!(
        told.contains("note: filesystem disk keeps its UUID"),
        "{told}"
    );
    assert!(told.contains("metadata_csum_seed"), "{told}");
    assert_eq!(uuid(&seedless), OLD);

    let Some(guest) = guest("metadata_csum_seed") else {
        return;
    };
    let core = format!("/boot/grub/i386-pc/load.cfg:search.fs_uuid {OLD} root\n");
    guest
        .diskfs(&["deploy", "disk.img", "--write", &core])
        .text();
    let told = guest.diskfs(&WORDS).text();
    assert!(
        told.contains("/boot/grub/i386-pc/load.cfg refers to it"),
        "{told}"
    );
    assert_eq!(uuid(&guest), OLD);
    assert!(guest.cat("/etc/fstab").contains(OLD));
    guest.is_right();
}
