//! The visit that writes one large file, sequentially and at random.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;
use crate::contender::Contender;
use crate::image::LARGE_FILE_BYTES;
use crate::rig::Rig;

use super::written::Writer;
use super::{Record, Row, Unit, Visit, WRITTEN_TARGET_MS};

const KEY_SEQUENTIAL: &str = "write_sequential";
const KEY_SYNCED: &str = "write_random_synced";
const KEY_RANDOM: &str = "write_random";
const KEY_MEMORY: &str = "write_server_memory";

/// The number of bytes that are written at random with an fsync after each block.
const SYNCED_BYTES: u64 = 8 << 20;
/// The number of bytes that are written at random with one fsync at the end.
const RANDOM_BYTES: u64 = 256 << 20;

/// The visit of dd and fio.
#[derive(Debug)]
pub(super) struct LargeWrite;

impl Visit for LargeWrite {
    fn name(&self) -> &'static str {
        "write"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[
                Row::new(KEY_SEQUENTIAL, "1 GiB written in order", Unit::Milliseconds)
                    .within(1.3)
                    .with_machine(WRITTEN_TARGET_MS),
                Row::new(
                    KEY_RANDOM,
                    "4 KiB written at random into a new file",
                    Unit::WritesPerSecond,
                ),
                Row::new(
                    KEY_SYNCED,
                    "4 KiB written at random, fsync after each",
                    Unit::WritesPerSecond,
                ),
                Row::new(
                    KEY_MEMORY,
                    "large writes: the server's peak memory",
                    Unit::Mebibytes,
                ),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        let Some(writer) = Writer::on_empty(rig, contender)? else {
            return Ok(());
        };
        let in_order = writer.record(KEY_SEQUENTIAL, record, |mount| {
            let mut dd = Command::new("dd");
            dd.args(["if=/dev/zero", "bs=1M", "conv=fsync", "status=none"]);
            dd.arg(format!("count={}", LARGE_FILE_BYTES >> 20));
            dd.arg(format!("of={}", mount.path().join("large").display()));
            command::timed(&mut dd).map(drop)
        })?;
        let synced = writer.timed(|mount| {
            writes_per_second(&mount.path().join("large"), SYNCED_BYTES, &["--fsync=1"])
        })?;
        record(KEY_SYNCED, synced.result);
        let random = writer.timed(|mount| {
            let new = mount.path().join("new");
            writes_per_second(&new, RANDOM_BYTES, &["--end_fsync=1"])
        })?;
        record(KEY_RANDOM, random.result);
        let peaks = [in_order, synced.peak_memory_mib, random.peak_memory_mib];
        if let Some(peak) = peaks.into_iter().flatten().reduce(f64::max) {
            record(KEY_MEMORY, peak);
        }
        Ok(())
    }
}

/// Returns fio's rate, which includes the time until the last write is durable.
fn writes_per_second(file: &Path, len_bytes: u64, sync: &[&str]) -> Result<f64> {
    let mut fio = Command::new("fio");
    fio.args(["--name=write", "--rw=randwrite", "--ioengine=psync"]);
    fio.args(["--thread", "--output-format=json", "--bs=4k"]);
    fio.args(["--fallocate=none"]).args(sync);
    fio.arg(format!("--filename={}", file.display()));
    fio.arg(format!("--size={RANDOM_BYTES}"));
    fio.arg(format!("--io_size={len_bytes}"));
    parse(&command::output(&mut fio)?)
}

/// Returns the writes per second over the whole run time, which includes the final flush.
fn parse(output: &str) -> Result<f64> {
    let start = output.find('{').context("fio printed no JSON")?;
    let report: Value = serde_json::from_str(&output[start..]).context("fio's JSON")?;
    let field = |name: &str| report.pointer(name).and_then(Value::as_f64);
    let writes = field("/jobs/0/write/total_ios").context("fio's JSON has no total_ios")?;
    let runtime = field("/jobs/0/job_runtime").context("fio's JSON has no job_runtime")?;
    Ok(writes * 1e3 / runtime.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flush_at_the_end_counts() {
        let output = r#"{"jobs": [{"job_runtime": 2000, "write": {"total_ios": 500}}]}"#;
        assert!((parse(output).unwrap() - 250.0).abs() < 1e-9);
        parse("nothing").unwrap_err();
    }
}
