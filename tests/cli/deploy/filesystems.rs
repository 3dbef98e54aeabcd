//! A guest on several filesystems: its root on LVM, `/boot` beside it, and an EFI system partition.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{TempImage, image, require, sha256_hex};

use crate::{diskfs, diskfs_in};

const MIB: u64 = 1 << 20;

const FSTAB: &str = "/dev/mapper/vg--0-my--root / ext4 errors=remount-ro 0 1
UUID=d15cf500-0000-4000-8000-0000000000b0 /boot ext4 defaults 0 2
/dev/vg-0/home /home ext4 defaults 0 2
PARTLABEL=\"other\" /boot/efi vfat umask=0077 0 1
";

const GRUB_CFG: &str =
    "menuentry 'x' {\n\tlinux\t/vmlinuz root=/dev/mapper/vg--0-my--root ro quiet\n}\n";

const PLAN: &str = "steps:
- hostname: web1
- kernel-arguments: {add: [console=ttyS0], remove: [quiet]}
- write: {path: /boot/efi/EFI/BOOT/marker.txt, text: \"here\\n\"}
- write: {path: /boot/grub/custom.cfg, text: \"set x=1\\n\", mode: 0600}
- delete: /home/ann/letter
";

#[test]
fn a_plan_goes_through_all_of_them() {
    for program in [
        "mkfs.vfat",
        "fsck.vfat",
        "mcopy",
        "e2fsck",
        "grub-script-check",
    ] {
        if require(program).is_none() {
            return;
        }
    }
    let disk = image("guest.raw");
    make_guest(&disk);
    fs::write(disk.directory().join("plan.yaml"), PLAN).unwrap();
    let words = ["deploy", "guest.raw", "--plan", "plan.yaml"];
    let told = diskfs(&disk, &words).text();
    assert!(!told.contains("nothing to do"), "{told}");

    let bytes = fs::read(disk.path()).unwrap();
    let efi = part(&disk, &bytes, MIB, MIB);
    run_on("fsck.vfat", &["-n"], &efi);
    let marker = Command::new("mtype")
        .arg("-i")
        .arg(&efi)
        .arg("::/EFI/BOOT/marker.txt")
        .output();
    assert_eq!(marker.unwrap().stdout, b"here\n");
    let boot = part(&disk, &bytes, 2 * MIB, 8 * MIB);
    run_on("e2fsck", &["-f", "-n"], &boot);
    let found = dumped(&boot, "grub/grub.cfg");
    assert_eq!(found, GRUB_CFG.replace("quiet", "console=ttyS0"));
    let grub_cfg = disk.directory().join("grub.cfg");
    fs::write(&grub_cfg, found).unwrap();
    run_on("grub-script-check", &[], &grub_cfg);
    assert_eq!(dumped(&boot, "grub/custom.cfg"), "set x=1\n");
    let root = part(&disk, &bytes, root_start(&bytes), 16 * MIB);
    run_on("e2fsck", &["-f", "-n"], &root);
    assert_eq!(dumped(&root, "etc/hostname"), "web1\n");
    // The file that the mount of the other filesystem hides is unchanged.
    assert_eq!(dumped(&root, "boot/hidden"), "boot/hidden\n");

    let once = sha256_hex(&bytes);
    let told = diskfs(&disk, &words).text();
    assert_eq!(told.matches("nothing to do").count(), 5, "{told}");
    assert!(
        sha256_hex(&fs::read(disk.path()).unwrap()) == once,
        "written again"
    );
}

/// Puts a FAT on the first partition, and makes the rest a guest that mounts it.
fn make_guest(disk: &TempImage) {
    let efi = disk.directory().join("efi");
    File::create(&efi).unwrap().set_len(MIB).unwrap();
    run_on("mkfs.vfat", &["-F", "12"], &efi);
    let file = File::options().write(true).open(disk.path()).unwrap();
    file.write_all_at(&fs::read(&efi).unwrap(), MIB).unwrap();
    let plan = serde_json::json!({"steps": [
        {"write": {"path": "/etc/fstab", "text": FSTAB}},
        {"write": {"path": "/boot/grub/grub.cfg", "text": GRUB_CFG}},
        {"mkdir": {"path": "/boot/efi"}},
    ]});
    fs::write(disk.directory().join("first.json"), plan.to_string()).unwrap();
    let words = ["deploy", "guest.raw", "--plan", "first.json"];
    diskfs_in(disk.directory(), &words).text();
}

/// Returns the offset of the root's logical volume, which the label in its superblock identifies.
fn root_start(disk: &[u8]) -> u64 {
    let is_root = |at: &usize| disk.get(at + 1144..at + 1149) == Some(b"root\0");
    let mut places = (0..disk.len()).step_by(1 << 20);
    u64::try_from(places.find(is_root).expect("find the root")).unwrap()
}

/// Copies a part of the disk to a separate file.
fn part(disk: &TempImage, bytes: &[u8], start: u64, len: u64) -> std::path::PathBuf {
    let path = disk.directory().join(format!("part-{start}"));
    let range = usize::try_from(start).unwrap()..usize::try_from(start + len).unwrap();
    fs::write(&path, &bytes[range]).unwrap();
    path
}

fn dumped(filesystem: &Path, path: &str) -> String {
    let run = diskfs_fixtures::command("debugfs")
        .args(["-R", &format!("cat {path}")])
        .arg(filesystem)
        .output();
    String::from_utf8(run.unwrap().stdout).unwrap()
}

/// Runs a program on a file, for example a checker; it must succeed.
fn run_on(program: &str, words: &[&str], path: &Path) {
    let run = diskfs_fixtures::command(program)
        .args(words)
        .arg(path)
        .output()
        .unwrap();
    assert!(run.status.success(), "{program}: {run:?}");
}
