//! The visit that inspects one image and many, and compares two snapshots.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Record, Row, Unit, Visit, mebibytes, milliseconds, overlays};
use crate::command;
use crate::contender::Contender;
use crate::image::ImageFormat;
use crate::rig::Rig;

const KEY_INSPECT: &str = "inspect";
const KEY_INSPECT_MEMORY: &str = "inspect_memory";
const KEY_INSPECT_READ: &str = "inspect_read_mib";
const KEY_FLEET_1: &str = "fleet_1";
const KEY_FLEET_1_MEMORY: &str = "fleet_1_memory";
const KEY_FLEET_2: &str = "fleet_2";
const KEY_FLEET_2_MEMORY: &str = "fleet_2_memory";
const KEY_DIFF: &str = "diff";
const KEY_DIFF_MEMORY: &str = "diff_memory";
const KEY_DIFF_READ: &str = "diff_read_mib";

/// The number of runs in one visit, for a command that takes milliseconds.
const WARM_RUNS: u32 = 10;

/// The number of overlays of a fleet.
const OVERLAYS: u32 = 200;

/// The number of changes between two snapshots.
const CHANGES: u32 = 10;

/// The visit of `inspect`, `inspect --fleet` and `diff`, as whole processes, with the image cached.
#[derive(Debug)]
pub(super) struct Inspect;

impl Visit for Inspect {
    fn name(&self) -> &'static str {
        "inspect"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            use Unit::{ImagesPerSecond, Mebibytes, Milliseconds};
            &[
                Row::new(KEY_INSPECT, "`inspect`", Milliseconds),
                Row::new(KEY_INSPECT_MEMORY, "`inspect`: peak memory", Mebibytes),
                Row::new(KEY_INSPECT_READ, "`inspect`: read in all", Mebibytes),
                Row::new(KEY_FLEET_1, "200 overlays, one at a time", ImagesPerSecond),
                Row::new(
                    KEY_FLEET_1_MEMORY,
                    "200 overlays, one at a time: peak memory",
                    Mebibytes,
                ),
                Row::new(KEY_FLEET_2, "200 overlays, two at a time", ImagesPerSecond),
                Row::new(
                    KEY_FLEET_2_MEMORY,
                    "200 overlays, two at a time: peak memory",
                    Mebibytes,
                ),
                Row::new(
                    KEY_DIFF,
                    "`diff` of two snapshots, ten changes",
                    Milliseconds,
                ),
                Row::new(
                    KEY_DIFF_MEMORY,
                    "`diff` of two snapshots: peak memory",
                    Mebibytes,
                ),
                Row::new(
                    KEY_DIFF_READ,
                    "`diff` of two snapshots: read in all",
                    Mebibytes,
                ),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        let image = rig.image(contender);
        if let Some(mut inspect) = contender.inspect(&image) {
            rig.cache_image(contender)?;
            for _ in 0..contender.most_repetitions().min(WARM_RUNS) {
                let used = command::used(&mut inspect)?;
                record(KEY_INSPECT, milliseconds(used.wall));
                record(KEY_INSPECT_MEMORY, mebibytes(used.peak_memory_kib << 10));
                record(KEY_INSPECT_READ, mebibytes(used.read_bytes));
            }
        }
        if contender.kind() == ImageFormat::Qcow2 {
            fleet(rig, contender, &image, record)?;
            diff(rig, contender, &image, record)?;
        }
        Ok(())
    }
}

fn fleet(
    rig: &Rig,
    contender: &dyn Contender,
    image: &Path,
    record: &mut Record<'_>,
) -> Result<()> {
    let dir = rig.scratch().join("fleet");
    for (jobs, key, key_memory) in [
        (1, KEY_FLEET_1, KEY_FLEET_1_MEMORY),
        (2, KEY_FLEET_2, KEY_FLEET_2_MEMORY),
    ] {
        let Some(mut command) = contender.inspect_fleet(&dir, image, jobs) else {
            return Ok(());
        };
        overlays::make(&dir, image, "qcow2", OVERLAYS)?;
        let used = command::used(&mut command)?;
        record(key, f64::from(OVERLAYS) / used.wall.as_secs_f64());
        record(key_memory, mebibytes(used.peak_memory_kib << 10));
    }
    fs::remove_dir_all(dir).context("the overlays")
}

fn diff(rig: &Rig, contender: &dyn Contender, image: &Path, record: &mut Record<'_>) -> Result<()> {
    let copy = rig.scratch().join("snapshots.qcow2");
    let Some(mut diff) = contender.diff(&copy, "before", "after") else {
        return Ok(());
    };
    if !copy.exists() {
        make_snapshots(rig, contender, image, &copy)?;
    }
    for _ in 0..WARM_RUNS {
        let used = command::used(&mut diff)?;
        record(KEY_DIFF, milliseconds(used.wall));
        record(KEY_DIFF_MEMORY, mebibytes(used.peak_memory_kib << 10));
        record(KEY_DIFF_READ, mebibytes(used.read_bytes));
    }
    Ok(())
}

fn make_snapshots(
    rig: &Rig,
    contender: &dyn Contender,
    image: &Path,
    copy: &PathBuf,
) -> Result<()> {
    command::output(Command::new("cp").arg(image).arg(copy))?;
    let snapshot = |name: &str| {
        let words = ["snapshot", "-c", name].map(OsStr::new);
        command::output(Command::new("qemu-img").args(words).arg(copy))
    };
    snapshot("before")?;
    let mount = contender.mount_for_writing(copy, rig.scratch())?;
    for number in 0..CHANGES {
        let file = mount.path().join(format!("etc/changed-{number}"));
        fs::write(file, format!("{number}\n"))?;
    }
    mount.unmount()?;
    snapshot("after")?;
    Ok(())
}
