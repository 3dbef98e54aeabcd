//! The visit that reads random blocks of 4 KiB of the large file.

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;
use crate::contender::Contender;
use crate::image::LARGE_FILE;
use crate::mount::Mount;
use crate::rig::Rig;
use crate::samples::to_float;

use super::{Record, Row, Unit, Visit};

/// The size of one read.
const BLOCK_BYTES: u64 = 4096;

/// The rows of one state of the caches and one number of readers.
struct Case {
    key: &'static str,
    jobs: u32,
    is_image_cached: bool,
}

const CASES: [Case; 4] = [
    Case {
        key: "random_1_cold",
        jobs: 1,
        is_image_cached: false,
    },
    Case {
        key: "random_4_cold",
        jobs: 4,
        is_image_cached: false,
    },
    Case {
        key: "random_1_cached",
        jobs: 1,
        is_image_cached: true,
    },
    Case {
        key: "random_4_cached",
        jobs: 4,
        is_image_cached: true,
    },
];

const KEY_AMPLIFICATION: &str = "random_amplification";

/// The visit of fio with `psync`, each block at most once per reader: a block that is read twice
/// comes from the mount's page cache and measures nothing.
#[derive(Debug)]
pub(super) struct Random;

impl Visit for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[
                Row::new(
                    CASES[0].key,
                    "4 KiB at random, 1 reader, cold",
                    Unit::ReadsPerSecond,
                ),
                Row::new(
                    KEY_AMPLIFICATION,
                    "4 KiB at random, 1 reader, cold: read per byte asked",
                    Unit::BytesPerByte,
                ),
                Row::new(
                    CASES[1].key,
                    "4 KiB at random, 4 readers, cold",
                    Unit::ReadsPerSecond,
                ),
                Row::new(
                    CASES[2].key,
                    "4 KiB at random, 1 reader, image cached",
                    Unit::ReadsPerSecond,
                ),
                Row::new(
                    CASES[3].key,
                    "4 KiB at random, 4 readers, image cached",
                    Unit::ReadsPerSecond,
                ),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        for case in &CASES {
            let mount = if case.is_image_cached {
                rig.mount_with_image_cached(contender)?
            } else {
                let mount = rig.mount(contender)?;
                rig.drop_caches()?;
                mount
            };
            let before = mount.meter().read_bytes()?;
            let bytes_per_job = rig.random_bytes_per_job();
            record(
                case.key,
                reads_per_second(&mount, case.jobs, bytes_per_job)?,
            );
            if case.jobs == 1 && !case.is_image_cached {
                let read_bytes = mount.meter().read_bytes()?.saturating_sub(before);
                record(
                    KEY_AMPLIFICATION,
                    to_float(read_bytes) / to_float(bytes_per_job),
                );
            }
            mount.unmount()?;
        }
        Ok(())
    }
}

fn reads_per_second(mount: &Mount, jobs: u32, bytes_per_job: u64) -> Result<f64> {
    let mut fio = Command::new("fio");
    fio.args([
        "--name=random",
        "--readonly",
        "--rw=randread",
        "--ioengine=psync",
    ]);
    fio.args([
        "--thread",
        "--group_reporting",
        "--output-format=json",
        "--allow_file_create=0",
    ]);
    fio.arg(format!(
        "--filename={}",
        mount.path().join(LARGE_FILE).display()
    ));
    fio.arg(format!("--bs={BLOCK_BYTES}"))
        .arg(format!("--numjobs={jobs}"));
    fio.arg(format!("--io_size={bytes_per_job}"));
    parse(&command::output(&mut fio)?)
}

/// Returns the reads per second from fio's JSON, which warnings may precede.
fn parse(output: &str) -> Result<f64> {
    let start = output.find('{').context("fio printed no JSON")?;
    let report: Value = serde_json::from_str(&output[start..]).context("fio's JSON")?;
    let iops = report.pointer("/jobs/0/read/iops").and_then(Value::as_f64);
    iops.context("fio's JSON has no jobs[0].read.iops")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_before_the_json_are_skipped() {
        let output = "fio: some warning\n{\"jobs\": [{\"read\": {\"iops\": 123.5}}]}";
        assert!((parse(output).unwrap() - 123.5).abs() < 1e-9);
        parse("nothing").unwrap_err();
        parse("{}").unwrap_err();
    }
}
