//! A filesystem in a microVM, mounted by FUSE, under the usual operations of programs.
#![cfg(feature = "fuse")]

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use diskfs_fixtures::{Workshop, pattern, require_fuse, require_root, run};
use rustix::process::{Pid, Signal, kill_process};

use super::endings::{machines, own_appliance, programs_of};
use super::{appliance, check, command, require_all, stderr};

#[test]
fn xfs_over_qcow2_with_a_backing_file() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair", "qemu-img"]) else {
        return;
    };
    let (Some(()), Some(())) = (require_fuse(), require_root()) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let base = shop.sparse_file("base.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &base]).unwrap();
    let image = shop.path("disk.qcow2");
    let words = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", "base.img"].map(Path::new);
    run("qemu-img", words.into_iter().chain([image.as_path()])).unwrap();

    let at = shop.path("mnt");
    fs::create_dir(&at).unwrap();
    let mounted = command(
        &appliance,
        ["mount".as_ref(), image.as_os_str(), at.as_os_str()],
    )
    .arg("--rw")
    .output()
    .unwrap();
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    work(&at);
    let unmounted = command(&appliance, ["umount".as_ref(), at.as_os_str()])
        .output()
        .unwrap();
    assert!(unmounted.status.success(), "{}", stderr(&unmounted));

    run(
        "qemu-img",
        ["check".as_ref(), "-q".as_ref(), image.as_os_str()],
    )
    .unwrap();
    let raw = shop.path("raw.img");
    let words = ["convert", "-O", "raw"].map(Path::new);
    run("qemu-img", words.into_iter().chain([image.as_path(), &raw])).unwrap();
    check("xfs_repair", &["-n"], &raw);
    assert_eq!(fs::metadata(&base).unwrap().len(), 320 << 20);
}

#[test]
fn a_caller_of_a_hung_machine_can_be_killed() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs"]) else {
        return;
    };
    let (Some(()), Some(())) = (require_fuse(), require_root()) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("disk.img", 320 << 20).unwrap();
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    let (own, at) = (own_appliance(&shop, &appliance), shop.path("mnt"));
    fs::create_dir(&at).unwrap();
    let mounted = command(&own, ["mount".as_ref(), image.as_os_str(), at.as_os_str()])
        .args(["--rw", "--vm-deadline", "20"])
        .output()
        .unwrap();
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    for program in programs_of(&machines(&own)) {
        kill_process(program, Signal::STOP).unwrap();
    }
    let began = Instant::now();
    // More callers than threads.
    let callers: Vec<_> = (0..6)
        .map(|n| {
            // Look-ups in one directory don't wait for each other; the first caller creates.
            let mut caller = Command::new(if n == 0 { "touch" } else { "cat" });
            caller.arg(at.join(n.to_string())).spawn().unwrap()
        })
        .collect();
    thread::sleep(Duration::from_secs(2));
    for caller in &callers {
        kill_process(Pid::from_child(caller), Signal::TERM).unwrap();
    }
    for mut caller in callers {
        let status = caller.wait().unwrap();
        assert_eq!(status.signal(), Some(15), "{status}");
    }
    // At once, and not after the time for callers that can't be looked at.
    assert!(began.elapsed() < Duration::from_secs(8));
    // After its time, the machine is killed, and the mount has an error.
    assert!(fs::write(at.join("file"), "never").is_err());
    let mut umount = command(&own, ["umount".as_ref(), at.as_os_str()]);
    umount.output().unwrap();
    assert_eq!(machines(&own), []);
}

/// Does usual operations on files.
fn work(at: &Path) {
    let data = pattern("data", 3 << 20);
    fs::write(at.join("file"), &data).unwrap();
    assert_eq!(fs::read(at.join("file")).unwrap(), data);
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(at.join("file"))
        .unwrap();
    file.write_all_at(b"in the middle", 1_000_001).unwrap();
    file.sync_all().unwrap();
    fs::rename(at.join("file"), at.join("renamed")).unwrap();
    fs::hard_link(at.join("renamed"), at.join("second")).unwrap();
    assert_eq!(fs::metadata(at.join("second")).unwrap().nlink(), 2);
    fs::remove_file(at.join("renamed")).unwrap();
    let mut part = [0; 13];
    file.read_exact_at(&mut part, 1_000_001).unwrap();
    assert_eq!(&part, b"in the middle");
    // Open without a name.
    fs::remove_file(at.join("second")).unwrap();
    file.read_exact_at(&mut part, 1_000_001).unwrap();
    assert_eq!(&part, b"in the middle");
    drop(file);
    fs::create_dir(at.join("dir")).unwrap();
    for n in 0..500 {
        fs::write(at.join(format!("dir/{n}")), n.to_string()).unwrap();
    }
    let names = fs::read_dir(at.join("dir")).unwrap();
    assert_eq!(names.count(), 500);
    let status = Command::new("rm")
        .arg("-r")
        .arg(at.join("dir"))
        .status()
        .unwrap();
    assert!(status.success());
}
