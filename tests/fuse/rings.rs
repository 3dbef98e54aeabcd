//! Requests over `io_uring`. All other tests of mounts pass with them, too; the suite runs once more
//! where root has switched them on.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::thread;

use diskfs_fixtures::image;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use super::helper::called;
use super::{DISKFS, Mountpoint, can_mount, diskfs, run, server, stderr};

/// The switch of the kernel, which lacks it before Linux 6.14.
fn is_switched_on() -> bool {
    let switch = fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    switch.is_ok_and(|value| value.trim() == "Y")
}

/// Returns the number of rings that a process has open.
fn rings_of(process: &str) -> usize {
    let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let is_ring = |target: &Path| target.to_string_lossy().contains("io_uring");
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    targets.filter(|target| is_ring(target)).count()
}

fn mount(image: &Path, at: &Mountpoint) {
    let mounted = diskfs([
        "mount".as_ref(),
        "--rw".as_ref(),
        image.as_os_str(),
        at.as_os_str(),
    ]);
    assert!(mounted.status.success(), "{}", stderr(&mounted));
}

#[test]
fn rings_are_used_where_they_are_switched_on() {
    if can_mount().is_none() {
        return;
    }
    let (image, at) = (image("ext4-default"), Mountpoint::new());
    mount(&image.path(), &at);
    assert!(at.join("lost+found").is_dir());
    let server = server(&image.path()).as_raw_nonzero().to_string();
    assert_eq!(rings_of(&server) > 0, is_switched_on());
    run("umount", &[at.as_os_str()]);
}

/// A separate thread answers the setting of flags, after the kernel has written what it has. Those
/// writes are requests, too, often of the same processor, and must be answered while all threads of
/// its queue have given their requests away.
#[test]
fn flags_are_set_by_many_programs_at_once() {
    if can_mount().is_none() {
        return;
    }
    let (image, at) = (image("ext4-default"), Mountpoint::new());
    mount(&image.path(), &at);
    thread::scope(|scope| {
        for number in 0..24 {
            let path = at.join(format!("file-{number}"));
            scope.spawn(move || {
                let mut file = File::create_new(&path).unwrap();
                for round in 0..20_usize {
                    file.write_all(&[7; 10_000]).unwrap();
                    let flags = ioctl_getflags(&file).unwrap();
                    ioctl_setflags(&file, flags | IFlags::APPEND).unwrap();
                    let read = fs::read(&path).unwrap();
                    assert!(read.len() == (round + 1) * 10_000 && read.iter().all(|&b| b == 7));
                    ioctl_setflags(&file, flags).unwrap();
                }
            });
        }
    });
    let ended = called(DISKFS, &["umount", &at.display().to_string()]);
    assert!(ended.status.success(), "{}", stderr(&ended));
    run("e2fsck", &["-fn".as_ref(), image.path().as_os_str()]);
}
