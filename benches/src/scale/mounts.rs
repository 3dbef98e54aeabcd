//! Mounts and unmounts: one after another, and many at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::case::Run;
use super::level::{Level, Meter};
use super::track::Limits;
use crate::mount::Mount;
use crate::{command, machine, process};

/// The time limit for processes to end after the unmount.
const PATIENCE: Duration = Duration::from_secs(10);

/// The size of the images.
const SIZE_BYTES: u64 = 8 << 20;

/// The largest memory of the server of a small image.
const SERVER_MAX_KIB: u64 = 32 << 10;

/// The memory of the machine that a mount and its unmount may cost. Other processes need memory,
/// too, so less would not be noticed.
const LOST_MAX_KIB: u64 = 256;

/// The memory that other processes may take meanwhile.
const OTHERS_KIB: u64 = 2 << 20;

/// The number of things that mounts leave behind on the machine.
#[derive(Debug, PartialEq, Eq)]
struct Remains {
    /// The number of processes that name the directory.
    processes: usize,
    /// The number of mounts below the directory.
    mounts: usize,
    /// The number of connections of FUSE.
    connections: usize,
    /// The number of files in the directory for temporary files.
    files: usize,
}

impl Remains {
    /// Returns what there is now.
    fn now(run: &Run<'_>) -> Result<Self> {
        let dir = run.dir.display().to_string();
        let mounts = fs::read_to_string("/proc/mounts")?;
        let entries = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
        Ok(Self {
            processes: process::naming(run.dir)?.len(),
            mounts: mounts.lines().filter(|line| line.contains(&dir)).count(),
            connections: entries(Path::new("/sys/fs/fuse/connections")),
            files: entries(&run.temporary()),
        })
    }

    /// Returns what is left after a while: a process may take a moment to end.
    fn in_the_end(run: &Run<'_>) -> Result<Self> {
        let start = Instant::now();
        loop {
            let now = Self::now(run)?;
            if now.processes == 0 || start.elapsed() > PATIENCE {
                return Ok(now);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Mounts an image, looks at a file and unmounts, again and again.
pub(super) fn one_after_another(run: &mut Run<'_>) -> Result<()> {
    let images = make(run)?;
    fs::create_dir(run.temporary())?;
    let before = (Remains::now(run)?, free_kib()?);
    let mut largest = 0;
    run.repeat("mount, stat, unmount", Meter::Own, run.count, |number| {
        let nth = usize::try_from(number)? % images.len();
        let image = images.get(nth).context("no image")?;
        let mode: &[&str] = if number.is_multiple_of(3) {
            &["--rw"]
        } else {
            &[]
        };
        let mount = run.mount_at(image, "mnt", mode)?;
        fs::metadata(mount.path().join("lost+found"))?;
        if number.is_multiple_of(3) {
            fs::write(mount.path().join("file"), number.to_string())?;
        }
        let servers = process::naming(mount.path())?;
        let levels = servers
            .into_iter()
            .map(|pid| Level::of(Meter::Process(pid)));
        // One that ends has no memory any more.
        let memory = levels.filter_map(|level| Some(level.ok()?.memory_kib));
        largest = largest.max(memory.max().unwrap_or_default());
        mount.unmount()
    })?;
    let after = (Remains::in_the_end(run)?, free_kib()?);
    let lost = before.1.saturating_sub(after.1);
    run.say(&format!(
        "largest server: {largest} KiB; memory of the machine: {lost} KiB less; {:?}",
        after.0
    ));
    // Other FUSE mounts may come and go.
    let connections = before.0.connections + 50;
    ensure!(after.0.connections <= connections, "connections stay");
    let same = (after.0.processes, after.0.mounts, after.0.files);
    ensure!(same == (0, 0, 0), "mounts leave {:?} behind", after.0);
    ensure!(largest < SERVER_MAX_KIB, "a server has {largest} KiB");
    let most = OTHERS_KIB + LOST_MAX_KIB * run.count;
    ensure!(lost < most, "the machine has {lost} KiB less memory");
    Ok(())
}

/// Mounts many images, looks at each, and unmounts them.
pub(super) fn at_once(run: &mut Run<'_>) -> Result<()> {
    let images = make(run)?;
    fs::create_dir(run.temporary())?;
    let mut mounts = Vec::new();
    let limits = Limits::default();
    run.repeat_within("mount", Meter::Own, run.count, limits, |number| {
        let nth = usize::try_from(number)? % images.len();
        let image = images.get(nth).context("no image")?;
        let extension = image.extension().context("no extension")?;
        let copy = run.dir.join(number.to_string()).with_extension(extension);
        fs::copy(image, &copy)?;
        mounts.push(run.mount_at(&copy, &format!("mnt-{number}"), &["--rw"])?);
        Ok(())
    })?;
    let servers: Vec<_> = mounts.iter().filter_map(Mount::server_pid).collect();
    let memory = servers
        .iter()
        .filter_map(|pid| process::proportional_memory_kib(*pid));
    let memory_kib: u64 = memory.sum();
    run.say(&format!(
        "{} servers: {} KiB each, with their part of shared memory",
        servers.len(),
        memory_kib / run.count
    ));
    ensure!(
        memory_kib / run.count < SERVER_MAX_KIB,
        "servers need {memory_kib} KiB"
    );
    let rounds = run.count * 50;
    run.repeat("stat, all in turn", Meter::Own, rounds, |number| {
        let mount = mounts.get(usize::try_from(number % run.count)?);
        let mount = mount.context("no mount")?;
        fs::write(mount.path().join("file"), number.to_string())?;
        fs::metadata(mount.path().join("lost+found")).map(drop)?;
        Ok(())
    })?;
    run.repeat("unmount", Meter::Own, run.count, |_| {
        mounts.pop().context("no mount")?.unmount()
    })?;
    let after = Remains::in_the_end(run)?;
    let same = (after.processes, after.mounts, after.files);
    ensure!(same == (0, 0, 0), "mounts leave {after:?} behind");
    Ok(())
}

/// Creates a raw and a qcow2 image.
fn make(run: &Run<'_>) -> Result<[PathBuf; 2]> {
    let raw = run.mke2fs(SIZE_BYTES, &[])?;
    let qcow2 = run.dir.join("disk.qcow2");
    let mut convert = Command::new("qemu-img");
    convert.args(["convert", "-O", "qcow2"]).arg(&raw);
    command::output(convert.arg(&qcow2))?;
    Ok([raw, qcow2])
}

/// Returns the memory of the machine that processes can get.
fn free_kib() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    machine::kib_field(&text, "MemAvailable:").context("MemAvailable")
}
