//! The latency of a request.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs::vfs::{NewAttributes, NewKind};
use diskfs::{Disk, WriteOptions};
use diskfs_fixtures::{Workshop, run};

use super::{appliance, check, micro_vm, require_all};

/// The limit for a slow request. No request takes this long by itself: if an answer's interrupt is
/// missed, the request waits for the machine's next timer, up to a second.
const SLOW: Duration = Duration::from_millis(150);

/// The number of requests, of which some missed their interrupt in nine of ten runs.
const FILES: usize = 20_000;

/// The number of attempts: the host may be busy once.
const TRIES: usize = 3;

#[test]
fn no_request_is_slept_through() {
    let Some(appliance) = appliance() else { return };
    let Some(()) = require_all(&["mkfs.xfs", "xfs_repair"]) else {
        return;
    };
    let shop = Workshop::new().unwrap();
    let image = shop.sparse_file("xfs.img", 320 << 20).unwrap();
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
