//! A shorter version of these tests with QEMU, which emulates the processor here.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime};

use diskfs_fixtures::{Workshop, run, skip};

use super::{appliance, at, check, command, diskfs, require_all, stderr};

/// Returns the appliance with the files that QEMU boots.
fn appliance_with_qemu() -> Option<PathBuf> {
    let appliance = appliance()?;
    if !appliance.join("qemu/vmlinux").is_file() {
        skip("missing kernel for QEMU; build it with packaging/appliance/build");
        return None;
    }
    require_all(&["mkfs.xfs", "xfs_repair", "qemu-system-x86_64"])?;
    Some(appliance)
}

/// Runs the program, which must succeed, with an emulated machine and with its log.
fn emulated(appliance: &Path, words: &[&OsStr]) -> Output {
    let vm = ["--vm", "qemu-tcg", "-vv"].map(OsStr::new);
    let words = words.iter().chain(&vm);
    let output = command(appliance, words).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

/// Returns the number of machines that were started from a saved state, and the number of all.
fn started(output: &Output) -> (usize, usize) {
    let said = stderr(output);
    let started = said
        .lines()
        .filter(|line| line.contains("starting a microVM"));
    let saved = started.clone().filter(|line| line.contains("-incoming"));
    (saved.count(), started.count())
}

#[test]
fn xfs_is_written_by_an_emulated_machine() {
    let Some(appliance) = appliance_with_qemu() else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("xfs.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    let made = emulated(&appliance, &["mkdir".as_ref(), &at(&image, "/dir")]);
    assert_eq!(started(&made), (1, 1), "{}", stderr(&made));
    check("xfs_repair", &["-n"], &image);
    let listed = emulated(&appliance, &["ls".as_ref(), &at(&image, "/")]);
    assert_eq!(listed.stdout, b"dir\n");
    // The time is the current one, whenever the machine was saved.
    let told = diskfs(
        &appliance,
        &["stat".as_ref(), "--json".as_ref(), &at(&image, "/dir")],
    );
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    let changed = told
        .pointer("/entries/0/changed")
        .and_then(|it| it.as_str());
    let seconds = run("date", ["-d", changed.unwrap(), "+%s"]).unwrap();
    let seconds = Duration::from_secs(seconds.trim().parse().unwrap());
    let changed = SystemTime::UNIX_EPOCH + seconds;
    assert!(changed.elapsed().unwrap_or_default() < Duration::from_mins(1));
}

#[test]
fn two_that_begin_with_one_state_do_not_make_the_same_random_numbers() {
    let Some(appliance) = appliance_with_qemu() else {
        return;
    };
    let Some(()) = require_all(&["blkid"]).filter(|()| appliance.join("tools").is_file()) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let identities = ["one.img", "other.img"].map(|name| {
        let image = shop.sparse_file(name, 320 << 20).unwrap();
        let words = ["mkfs".as_ref(), "xfs".as_ref(), image.as_os_str()];
        let made = emulated(&appliance, &words);
        assert_eq!(started(&made), (1, 1), "{}", stderr(&made));
        let words = [Path::new("-ovalue"), Path::new("-sUUID"), &image];
        run("blkid", words).unwrap()
    });
    assert_ne!(identities[0], identities[1]);
}

#[test]
fn with_a_state_that_is_of_no_use_it_boots() {
    let Some(appliance) = appliance_with_qemu() else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("xfs.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    let other = shop.path("appliance");
    fs::create_dir_all(other.join("qemu")).unwrap();
    for file in ["qemu/vmlinux", "qemu/initramfs"] {
        symlink(appliance.join(file), other.join(file)).unwrap();
    }
    // The file's header is right, and QEMU's part is truncated.
    let mut kept = Vec::new();
    let saved = File::open(appliance.join("qemu/saved")).unwrap();
    saved.take(1 << 20).read_to_end(&mut kept).unwrap();
    File::create(other.join("qemu/saved"))
        .and_then(|mut file| file.write_all(&kept))
        .unwrap();
    let made = emulated(&other, &["mkdir".as_ref(), &at(&image, "/dir")]);
    assert_eq!(started(&made), (1, 2), "{}", stderr(&made));
    // The failure is remembered from then on.
    let listed = emulated(&other, &["ls".as_ref(), &at(&image, "/")]);
    assert_eq!(started(&listed), (0, 1), "{}", stderr(&listed));
    assert_eq!(listed.stdout, b"dir\n");
}

/// An x86-64 host emulates aarch64 as any other host does.
#[test]
#[ignore = "needs `packaging/appliance/build target/appliance-aarch64 aarch64`"]
fn a_kernel_for_aarch64_opens_filesystems() {
    let appliance = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/appliance-aarch64");
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair", "qemu-system-aarch64"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("xfs.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    let made = emulated(&appliance, &["mkdir".as_ref(), &at(&image, "/dir")]);
    assert_eq!(started(&made), (1, 1), "{}", stderr(&made));
    assert!(stderr(&made).contains("qemu-system-aarch64"));
    check("xfs_repair", &["-n"], &image);
    let listed = emulated(&appliance, &["ls".as_ref(), &at(&image, "/")]);
    assert_eq!(listed.stdout, b"dir\n");
}
