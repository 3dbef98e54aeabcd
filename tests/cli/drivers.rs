//! The drivers of filesystems: natively or in a microVM.

use std::process::Command;

use diskfs_fixtures::image;
use serde_json::Value;

use super::{DISKFS, Run, diskfs};

/// Returns the report of `diskfs info` on the first filesystem.
fn filesystem(run: &Run) -> Value {
    run.json()["filesystems"][0].clone()
}

#[test]
fn info_names_the_driver_or_the_reason_why_there_is_none() {
    for name in [
        "xfs-default",
        "btrfs-default",
        "ext4-default",
        "fat32",
        "exfat.img",
    ] {
        let disk = image(name);
        let found = filesystem(&diskfs(&disk, &["info", "--json", name]));
        assert_eq!(found["driver"], "native", "{name}");
        assert_eq!(found["driver_reason"], Value::Null, "{name}");
        assert_eq!(found["readable"], true, "{name}");
    }
    // Its superblock has a version of XFS that no driver knows.
    let disk = image("guest.raw");
    let found = filesystem(&diskfs(&disk, &["info", "--json", "guest.raw"]));
    assert_eq!(found["driver"], Value::Null);
    let reason = found["driver_reason"].as_str().expect("a reason");
    assert!(reason.contains("XFS version 0"), "{reason}");
}

#[test]
fn a_forced_driver_is_the_only_one() {
    let disk = image("xfs-default");
    let native = diskfs(&disk, &["ls", "--driver", "native", "xfs-default:/"]).text();
    assert_eq!(native, diskfs(&disk, &["ls", "xfs-default:/"]).text());
    // Without a backend, the microVM opens nothing, although there is a driver.
    let (code, stderr) = diskfs(&disk, &["ls", "--driver", "vm", "xfs-default:/"]).failure();
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("microVM"), "{stderr}");
    // It is the same through the environment, which the option overrides.
    let from_environment = |value: &str, words: &[&str]| {
        let mut command = Command::new(DISKFS);
        command.args(words).current_dir(disk.directory());
        let envs = [("DISKFS_VM", "none"), ("DISKFS_DRIVER", value)];
        let output = command.envs(envs).output().expect("start diskfs");
        Run { output }
    };
    let (code, _) = from_environment("vm", &["ls", "xfs-default:/"]).failure();
    assert_eq!(code, 4);
    let words = ["ls", "--driver", "native", "xfs-default:/"];
    assert_eq!(from_environment("vm", &words).text(), native);
    let (code, stderr) = from_environment("kernel", &["ls", "xfs-default:/"]).failure();
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("DISKFS_DRIVER: unknown driver `kernel`"),
        "{stderr}"
    );
}

#[test]
fn writing_to_a_filesystem_that_is_only_read_needs_the_microvm() {
    let disk = image("xfs-default");
    let words = ["mkdir", "--driver", "native", "xfs-default:/new"];
    let (code, stderr) = diskfs(&disk, &words).failure();
    assert_eq!(code, 4, "{stderr}");
    assert!(
        stderr.contains("writing to xfs is not supported"),
        "{stderr}"
    );
}

#[test]
fn a_btrfs_is_assembled_from_several_images() {
    let (a, b) = (image("btrfs-raid0-a"), image("btrfs-raid0-b"));
    let other = b.path();
    let other = other.to_str().expect("a plain path");
    let whole = ["ls", "-R", "--add", other, "btrfs-raid0-a:/"];
    let listed = diskfs(&a, &whole);
    // One of the names is not UTF-8.
    let listed = String::from_utf8_lossy(listed.bytes());
    assert!(listed.contains("several-stripes"), "{listed}");
    // The second device is not a filesystem of its own, so the choice is clear.
    let words = [
        "mount",
        "--explain",
        "--json",
        "--add",
        other,
        "btrfs-raid0-a",
    ];
    let explained = diskfs(&a, &words).json();
    let unused = explained["not_mounted"].as_array().expect("a list");
    let second = unused.iter().find(|volume| volume["volume"] == "disk2");
    let reason = second.expect("the second device")["reason"].as_str();
    assert!(reason.is_some_and(|reason| reason.contains("member")));
    let (code, stderr) = diskfs(&a, &["ls", "btrfs-raid0-a:/"]).failure();
    assert!(stderr.contains("missing"), "{code}: {stderr}");
}
