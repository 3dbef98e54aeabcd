//! A plan without changes writes nothing, not even a mount of the filesystem.

use std::fs;
use std::process::Command;

use diskfs_fixtures::{image, require, sha256_hex};

use super::{Guest, PLAN};
use crate::{diskfs, diskfs_in};

#[test]
fn the_second_run_leaves_the_image_as_it_is() {
    let Some(guest) = Guest::new().filter(|_| require("qemu-img").is_some()) else {
        return;
    };
    fs::write(guest.at("plan.yaml"), PLAN).unwrap();
    for format in ["qcow2", "raw"] {
        let name = format!("disk.{format}");
        let converted = Command::new("qemu-img")
            .args(["convert", "-f", "raw", "-O", format])
            .args([guest.at("disk.img"), guest.at(&name)])
            .status();
        assert!(converted.unwrap().success());
        let sum = || sha256_hex(&fs::read(guest.at(&name)).unwrap());
        let words = ["deploy", &name, "--plan", "plan.yaml"];
        let before = sum();
        guest.diskfs(&[&words[..], &["--dry-run"]].concat()).text();
        assert!(sum() == before, "{format}: a dry run has written");
        let told = guest.diskfs(&words).text();
        assert!(!told.contains("nothing to do"), "{told}");
        let once = sum();
        assert_ne!(once, before);
        let told = guest.diskfs(&words).text();
        assert_eq!(told.matches("nothing to do").count(), 7, "{told}");
        assert!(sum() == once, "{format}: the second run has written");
        // A plan that fails doesn't open the image for writing, either.
        let words = ["deploy", &name, "--hostname", "a", "--chmod", "0600:/none"];
        guest.diskfs(&words).failure();
        assert!(sum() == once, "{format}: the failed run has written");
    }
}

#[test]
fn a_journal_is_replayed_only_where_something_is_written() {
    let dirty = image("journal-plain");
    let sum = || sha256_hex(&fs::read(dirty.path()).unwrap());
    let before = sum();
    let words = [
        "deploy",
        "journal-plain",
        "--volume",
        "disk",
        "--mkdir",
        "/lost+found",
    ];
    for more in [&["--dry-run"][..], &[]] {
        diskfs(&dirty, &[&words[..], more].concat()).text();
        assert!(sum() == before, "{more:?} has written");
    }
    let words = [
        "deploy",
        "journal-plain",
        "--volume",
        "disk",
        "--write",
        "/new:text",
    ];
    diskfs_in(dirty.directory(), &words).text();
    let once = sum();
    assert_ne!(once, before);
    diskfs_in(dirty.directory(), &words).text();
    assert!(sum() == once, "the second run has written");
}
