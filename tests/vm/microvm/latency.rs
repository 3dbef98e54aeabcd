//! The latency of a request.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs::vfs::{NewAttributes, NewKind};
use diskfs::{Disk, WriteOptions};
use diskfs_fixtures::run;
use rustix::fs::{MemfdFlags, memfd_create};

use super::{appliance, check, micro_vm, require_all};

/// The limit for a slow request. No request takes this long by itself: if an answer's interrupt is
/// missed, the request waits for the machine's next timer, up to a second.
const SLOW: Duration = Duration::from_millis(150);

/// The number of requests, of which some missed their interrupt in nine of ten runs.
const FILES: usize = 20_000;

/// The number of attempts: the host may be busy at times.
const TRIES: usize = 5;

/// Returns an empty image in memory, for a busy disk of the host is as slow as a missed interrupt.
fn image_in_memory(size_bytes: u64) -> (File, PathBuf) {
    let memory = File::from(memfd_create("image", MemfdFlags::CLOEXEC).unwrap());
    memory.set_len(size_bytes).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    (memory, path.into())
}

#[test]
fn no_request_is_slept_through() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair"]) else {
        return;
    };
    let (_memory, image) = image_in_memory(320 << 20);
    run("mkfs.xfs", [Path::new("-q"), &image]).unwrap();
    let disk = Disk::options()
        .read_only(false)
        .fallback(Arc::new(micro_vm(&appliance)))
        .always_fallback()
        .open(&image)
        .unwrap();
    let filesystem = disk.writable_filesystem(&WriteOptions::default()).unwrap();
    let fs = filesystem.as_fs();
    let mut slow = Vec::new();
    for number in 0..TRIES {
        let (name, attributes) = (format!("{number}"), NewAttributes::for_root(0o755));
        let dir = fs
            .create(fs.root(), name.as_bytes(), NewKind::Directory, &attributes)
            .unwrap();
        slow.clear();
        for file in 0..FILES {
            let began = Instant::now();
            let name = format!("{file}");
            fs.create(dir, name.as_bytes(), NewKind::Regular, &attributes)
                .unwrap();
            slow.extend(Some(began.elapsed()).filter(|&took| took > SLOW));
        }
        if slow.is_empty() {
            break;
        }
    }
    assert!(slow.is_empty(), "in each of {TRIES} runs: {slow:?}");
    drop(filesystem);
    drop(disk);
    check("xfs_repair", &["-n"], &image);
}
