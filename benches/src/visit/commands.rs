//! The commands that read an image without a mount.

use std::process::Command;

use anyhow::Result;

use super::{Record, Row, SMALL_FILE, Unit, Visit, mebibytes, milliseconds};
use crate::command;
use crate::contender::Contender;
use crate::rig::Rig;
use crate::samples::to_float;

const KEY_CAT_COLD: &str = "cat_cold";
const KEY_CAT: &str = "cat";
const KEY_CAT_MEMORY: &str = "cat_memory";
const KEY_CAT_READ: &str = "cat_read_mib";
const KEY_LS_COLD: &str = "ls_cold";
const KEY_LS: &str = "ls";
const KEY_LS_MEMORY: &str = "ls_memory";
const KEY_LARGE: &str = "cat_large";
const KEY_LARGE_MEMORY: &str = "cat_large_memory";
const KEY_LARGE_AMPLIFICATION: &str = "cat_large_amplification";

/// The number of runs in one visit, for a command that takes milliseconds.
const WARM_RUNS: u32 = 10;

/// A directory with several hundred entries.
const DIRECTORY: &str = "/usr/bin";

/// The visit of `cat` and `ls -l`, as whole processes.
#[derive(Debug)]
pub(super) struct Commands;

impl Visit for Commands {
    fn name(&self) -> &'static str {
        "commands"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[
                Row::new(
                    KEY_CAT_COLD,
                    "`cat /etc/os-release`, cold",
                    Unit::Milliseconds,
                ),
                Row::new(
                    KEY_CAT,
                    "`cat /etc/os-release`, image cached",
                    Unit::Milliseconds,
                ),
                Row::new(
                    KEY_CAT_MEMORY,
                    "`cat /etc/os-release`: peak memory",
                    Unit::Mebibytes,
                ),
                Row::new(
                    KEY_CAT_READ,
                    "`cat /etc/os-release`: read in all",
                    Unit::Mebibytes,
                ),
                Row::new(KEY_LS_COLD, "`ls -l /usr/bin`, cold", Unit::Milliseconds),
                Row::new(KEY_LS, "`ls -l /usr/bin`, image cached", Unit::Milliseconds),
                Row::new(
                    KEY_LS_MEMORY,
                    "`ls -l /usr/bin`: peak memory",
                    Unit::Mebibytes,
                ),
                Row::new(
                    KEY_LARGE,
                    "`cat` of 1 GiB, image cached",
                    Unit::Milliseconds,
                ),
                Row::new(
                    KEY_LARGE_MEMORY,
                    "`cat` of 1 GiB: peak memory",
                    Unit::Mebibytes,
                ),
                Row::new(
                    KEY_LARGE_AMPLIFICATION,
                    "`cat` of 1 GiB: read per byte asked",
                    Unit::BytesPerByte,
                ),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        let image = rig.image(contender);
        let runs = contender.most_repetitions().min(WARM_RUNS);
        let small = format!("/{SMALL_FILE}");
        if let Some(mut cat) = contender.cat(&image, &small) {
            rig.drop_caches()?;
            record(KEY_CAT_COLD, milliseconds(command::used(&mut cat)?.wall));
            let read_bytes = warm(&mut cat, runs, KEY_CAT, KEY_CAT_MEMORY, record)?;
            record(KEY_CAT_READ, mebibytes(read_bytes));
        }
        if let Some(mut list) = contender.list(&image, DIRECTORY) {
            rig.drop_caches()?;
            record(KEY_LS_COLD, milliseconds(command::used(&mut list)?.wall));
            warm(&mut list, runs, KEY_LS, KEY_LS_MEMORY, record)?;
        }
        if let Some(mut cat) = contender.cat(&image, &format!("/{}", crate::image::LARGE_FILE)) {
            rig.cache_image(contender)?;
            let used = command::used(&mut cat)?;
            record(KEY_LARGE, milliseconds(used.wall));
            record(KEY_LARGE_MEMORY, mebibytes(used.peak_memory_kib << 10));
            record(
                KEY_LARGE_AMPLIFICATION,
                to_float(used.read_bytes) / to_float(crate::image::LARGE_FILE_BYTES),
            );
        }
        Ok(())
    }
}

/// Runs a command several times, and returns the bytes that one run read.
fn warm(
    command: &mut Command,
    runs: u32,
    key: &'static str,
    key_memory: &'static str,
    record: &mut Record<'_>,
) -> Result<u64> {
    let mut read_bytes = 0;
    for _ in 0..runs {
        let used = command::used(command)?;
        record(key, milliseconds(used.wall));
        record(key_memory, mebibytes(used.peak_memory_kib << 10));
        read_bytes = used.read_bytes;
    }
    Ok(read_bytes)
}
