//! Measures writes to new qcow2 images, compared with `qemu-img bench -w` on the same host.
//!
//! `cargo run --release -p diskfs-image --example image_write_speed -- DIR [ROUNDS [NAME]]`
//!
//! Each row is a workload on an image of its own in DIR; both programs write through the host's
//! page cache. The time is from opening the image until it is closed, so everything is flushed. For
//! QEMU it is the time of the process, because the time that it prints leaves the last flush out.
//!
//! Random writes go to strides that hit each cluster at another offset, as in `qemu-img bench`, so
//! both sides write the same bytes. On a busy machine the scheduler prefers QEMU's threads, which
//! sleep, to a thread that never does: run it with `chrt -f 1` to avoid that.
#![allow(clippy::print_stdout, missing_docs, reason = "a program")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use diskfs_image::{OpenOptions, WritableImage};

struct Workload {
    name: &'static str,
    /// The size of the guest's disk in bytes.
    disk: u64,
    size: u64,
    step: u64,
    count: u64,
    /// The number of writes between flushes; 0 for only one flush at the end.
    flush_every: u64,
    create: &'static str,
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "sequential 1 MiB",
        disk: 2 << 30,
        size: 1 << 20,
        step: 1 << 20,
        count: 1024,
        flush_every: 0,
        create: "cluster_size=64k",
    },
    Workload {
        name: "sequential 4 KiB",
        disk: 2 << 30,
        size: 4 << 10,
        step: 4 << 10,
        count: 65536,
        flush_every: 0,
        create: "cluster_size=64k",
    },
    Workload {
        name: "scattered 4 KiB",
        disk: 4 << 30,
        size: 4 << 10,
        // A prime number of pages: after 4 GiB the next round hits other pages.
        step: 4096 * 10_007,
        count: 40_000,
        flush_every: 0,
        create: "cluster_size=64k",
    },
    Workload {
        name: "scattered 4 KiB, subclusters",
        disk: 4 << 30,
        size: 4 << 10,
        step: 4096 * 10_007,
        count: 40_000,
        flush_every: 0,
        create: "cluster_size=128k,extended_l2=on",
    },
    Workload {
        name: "scattered 4 KiB, flush every 100",
        disk: 4 << 30,
        size: 4 << 10,
        step: 4096 * 10_007,
        count: 4000,
        flush_every: 100,
        create: "cluster_size=64k",
    },
];

fn create(path: &Path, workload: &Workload) {
    let _ = std::fs::remove_file(path);
    let status = Command::new("qemu-img")
        .args(["create", "-q", "-f", "qcow2", "-o", workload.create])
        .arg(path)
        .arg(workload.disk.to_string())
        .status()
        .expect("qemu-img");
    assert!(status.success());
}

fn ours(path: &Path, workload: &Workload) -> Duration {
    let start = Instant::now();
    let image = WritableImage::open(path, &OpenOptions::default()).expect("open");
    let disk = image.device();
    // Page-aligned, as in `qemu-img bench`: the kernel copies from such a buffer almost twice as
    // fast.
    let len = usize::try_from(workload.size).expect("size");
    let buffer = vec![0x5a; len + 4096];
    let bytes = &buffer[buffer.as_ptr().align_offset(4096)..][..len];
    let mut at = 0;
    for index in 1..=workload.count {
        disk.write_at(at, bytes).expect("write");
        at = (at + workload.step) % workload.disk;
        if workload.flush_every > 0 && index % workload.flush_every == 0 {
            disk.flush().expect("flush");
        }
    }
    disk.flush().expect("flush");
    drop(disk);
    image.close().expect("close");
    start.elapsed()
}

fn theirs(path: &Path, workload: &Workload, depth: u64) -> Duration {
    let mut command = Command::new("qemu-img");
    command.args(["bench", "-w", "-f", "qcow2", "-t", "writeback"]);
    command.args(["-c", &workload.count.to_string()]);
    command.args(["-s", &workload.size.to_string()]);
    command.args(["-S", &workload.step.to_string()]);
    let flush = if workload.flush_every > 0 {
        workload.flush_every
    } else {
        workload.count
    };
    // `qemu-img bench` does not allow more requests in flight than between flushes.
    command.args(["-d", &depth.min(flush).to_string()]);
    command.args([format!("--flush-interval={flush}")]);
    let start = Instant::now();
    let output = command.arg(path).output().expect("qemu-img bench");
    assert!(output.status.success(), "{output:?}");
    start.elapsed()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("a directory");
    let rounds: u32 = args.next().map_or(3, |n| n.parse().expect("rounds"));
    let name = args.next().unwrap_or_default();
    let path = Path::new(&dir).join("write-speed.qcow2");
    println!(
        "{:34} {:>10} {:>12} {:>12} {:>7}",
        "workload", "ours", "qemu -d 1", "qemu -d 32", "ratio"
    );
    for workload in WORKLOADS.iter().filter(|w| w.name.starts_with(&name)) {
        let mut best = [Duration::MAX; 3];
        for _ in 0..rounds {
            for (side, best) in best.iter_mut().enumerate() {
                create(&path, workload);
                let took = match side {
                    0 => ours(&path, workload),
                    1 => theirs(&path, workload, 1),
                    _ => theirs(&path, workload, 32),
                };
                *best = took.min(*best);
            }
        }
        let [ours, shallow, deep] = best.map(|time| time.as_secs_f64() * 1e3);
        println!(
            "{:34} {ours:>7.0} ms {shallow:>9.0} ms {deep:>9.0} ms {:>7.2}",
            workload.name,
            ours / shallow.min(deep)
        );
    }
    let _ = std::fs::remove_file(&path);
}
