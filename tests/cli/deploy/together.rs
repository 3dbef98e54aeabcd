//! Atomicity of a plan: when the program is killed, and with several images.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Guest;
use crate::{DISKFS, diskfs_in};

/// The number of copied files. With 16 inodes per block they need more than a quarter of the
/// journal, and more than the program keeps in memory at once.
const FILES: usize = 20_000;

/// The number of kills of the program.
const KILLS: u32 = 6;

#[test]
fn of_several_images_none_is_written_when_one_fails() {
    let Some(guest) = Guest::new() else { return };
    fs::copy(guest.at("disk.img"), guest.at("two.img")).unwrap();
    let before = fs::read(guest.at("disk.img")).unwrap();
    guest.diskfs(&["rm", "two.img:/etc/passwd"]).text();
    for (second, option, value) in [
        ("none.img", "--hostname", "web1"),
        // The second guest has no users.
        ("two.img", "--root-password", "password:x"),
    ] {
        let words = ["deploy", "disk.img", second, option, value];
        let run = guest.diskfs(&words);
        assert_ne!(run.code(), Some(0), "{words:?}");
        assert_eq!(fs::read(guest.at("disk.img")).unwrap(), before, "{words:?}");
    }
    let run = guest.diskfs(&["deploy", "disk.img", "none.img", "--hostname", "web1"]);
    assert!(
        run.stderr().contains("nothing was written: 1 of 2 images"),
        "{}",
        run.stderr()
    );
    let both = guest.diskfs(&["deploy", "disk.img", "two.img", "--hostname", "web1"]);
    let told = both.text();
    assert!(
        told.contains("disk.img:\nhostname") && told.contains("two.img:\nhostname"),
        "{told}"
    );
    let names = guest.diskfs(&["cat", "disk.img:/etc/hostname", "two.img:/etc/hostname"]);
    assert_eq!(names.text(), "web1\nweb1\n");
}

#[test]
fn a_selector_word_in_a_plan_is_refused_with_what_to_write() {
    let Some(guest) = Guest::new() else { return };
    let before = fs::read(guest.at("disk.img")).unwrap();
    for word in ["random", "locked", "disabled", "hash:x", "file:x"] {
        let plan = format!("steps: [{{root-password: \"{word}\"}}]");
        fs::write(guest.at("plan.yaml"), plan).unwrap();
        let run = guest.diskfs(&["deploy", "disk.img", "--plan", "plan.yaml"]);
        assert_eq!(run.code(), Some(2), "{word}: {}", run.stderr());
        assert!(run.stderr().contains("write {"), "{}", run.stderr());
        assert_eq!(fs::read(guest.at("disk.img")).unwrap(), before, "{word}");
    }
    let told = guest
        .diskfs(&["deploy", "--describe", "root-password"])
        .text();
    assert!(told.contains("{random: true}"), "{told}");
}

/// The part of the plan that a guest has.
#[derive(Debug, PartialEq, Eq)]
enum PlanState {
    Old,
    New,
}

fn state_of(directory: &Path) -> PlanState {
    let names = diskfs_in(directory, &["cat", "killed.img:/etc/hostname"]).text();
    let found = diskfs_in(directory, &["find", "killed.img:/", "-name", "file-*"]);
    let files = found.text().lines().count();
    match (&*names, files) {
        ("old\n", 0) => PlanState::Old,
        ("web1\n", FILES) => PlanState::New,
        found => panic!("only a part of the plan was applied: {found:?}"),
    }
}

#[test]
fn a_large_plan_that_is_killed_is_there_or_not() {
    let Some(guest) = Guest::new() else { return };
    let at = |name: &str| guest.at(name);
    let made = diskfs_fixtures::command("mke2fs")
        .args(["-q", "-t", "ext4", "-d"])
        .args([at("tree"), at("large.img")])
        .arg("256M")
        .status();
    assert!(made.unwrap().success());
    for nth in 0..FILES {
        let below = at("in").join((nth / 100).to_string());
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(format!("file-{nth}")), nth.to_string()).unwrap();
    }
    let deploy = || {
        fs::copy(at("large.img"), at("killed.img")).unwrap();
        let mut command = Command::new(DISKFS);
        command
            .args([
                "deploy",
                "killed.img",
                "--hostname",
                "web1",
                "--copy-in",
                "in:/usr",
            ])
            .env("DISKFS_VM", "none")
            .current_dir(guest.0.path())
            .stdout(Stdio::null());
        let start = Instant::now();
        (command.spawn().unwrap(), start)
    };
    let (mut whole, start) = deploy();
    assert!(whole.wait().unwrap().success());
    let takes = start.elapsed();
    assert_eq!(state_of(guest.0.path()), PlanState::New);
    let fsck = |how: &str| {
        let fsck = diskfs_fixtures::command("e2fsck")
            .args(["-f", how])
            .arg(at("killed.img"))
            .output();
        fsck.unwrap()
    };
    for nth in 1..=KILLS {
        let (mut child, start) = deploy();
        // Most of the writing is at the end.
        let after = takes.mul_f64(0.3 + 0.75 * f64::from(nth) / f64::from(KILLS));
        std::thread::sleep(
            after
                .saturating_sub(start.elapsed())
                .max(Duration::from_millis(1)),
        );
        child.kill().unwrap();
        child.wait().unwrap();
        let replayed = state_of(guest.0.path());
        let repaired = fsck("-p");
        assert!(
            matches!(repaired.status.code(), Some(0 | 1)),
            "{repaired:?}"
        );
        let checked = fsck("-n");
        assert!(checked.status.success(), "{checked:?}");
        assert_eq!(
            state_of(guest.0.path()),
            replayed,
            "after {after:?} of {takes:?}"
        );
    }
}
