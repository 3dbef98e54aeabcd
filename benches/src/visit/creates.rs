//! The visit that makes many files in one directory.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::written::Writer;
use super::{Record, Row, Unit, Visit};
use crate::contender::Contender;
use crate::interrupt;
use crate::rig::Rig;

/// The numbers of files, each with its row. If all rates are equal, the time for one more name does
/// not grow with the directory.
const CASES: [(u32, &str); 4] = [
    (2_000, "creates_2000"),
    (10_000, "creates_10000"),
    (20_000, "creates_20000"),
    (100_000, "creates_100000"),
];
const KEY_MEMORY: &str = "creates_server_memory";

/// The longest time for one case; a contender that needs longer skips the next case, which has at
/// least twice as many files. Some contenders scan the whole directory for each new name, and would
/// take an hour.
const LONGEST: Duration = Duration::from_secs(15);

/// The visit that makes empty files with `O_CREAT`, from one thread.
#[derive(Debug)]
pub(super) struct Creates;

impl Visit for Creates {
    fn name(&self) -> &'static str {
        "creates"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[
                Row::new(
                    CASES[0].1,
                    "2,000 files made in one directory",
                    Unit::FilesPerSecond,
                ),
                Row::new(
                    CASES[1].1,
                    "10,000 files made in one directory",
                    Unit::FilesPerSecond,
                )
                .with_machine(5000.0),
                Row::new(
                    CASES[2].1,
                    "20,000 files made in one directory",
                    Unit::FilesPerSecond,
                ),
                Row::new(
                    CASES[3].1,
                    "100,000 files made in one directory",
                    Unit::FilesPerSecond,
                ),
                Row::new(
                    KEY_MEMORY,
                    "100,000 files made: the server's peak memory",
                    Unit::Mebibytes,
                ),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        for (count, key) in CASES {
            let Some(writer) = Writer::on_empty(rig, contender)? else {
                return Ok(());
            };
            let timed = writer.timed(|mount| make_files(&mount.path().join("many"), count))?;
            record(key, f64::from(count) / timed.wall.as_secs_f64());
            if let Some(peak) = timed.peak_memory_mib
                && count == CASES[3].0
            {
                record(KEY_MEMORY, peak);
            }
            if timed.wall > LONGEST {
                break;
            }
        }
        Ok(())
    }
}

fn make_files(dir: &Path, count: u32) -> Result<()> {
    std::fs::create_dir(dir)?;
    for n in 0..count {
        if n % 100 == 0 {
            interrupt::check()?;
        }
        File::create_new(dir.join(format!("file-{n:07}")))?;
    }
    Ok(())
}
