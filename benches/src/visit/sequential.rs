//! The visit that reads 1 GiB sequentially.

use std::process::Command;

use anyhow::Result;

use crate::command;
use crate::contender::Contender;
use crate::image::{LARGE_FILE, LARGE_FILE_BYTES};
use crate::mount::Mount;
use crate::rig::Rig;
use crate::samples::to_float;

use super::{READ_TARGET_MS, Record, Row, Unit, Visit, milliseconds};

const KEY_COLD: &str = "sequential_cold";
const KEY_AMPLIFICATION: &str = "sequential_amplification";
const KEY_CACHED: &str = "sequential_cached";

/// The visit of `dd bs=1M` on the large file.
#[derive(Debug)]
pub(super) struct Sequential;

impl Visit for Sequential {
    fn name(&self) -> &'static str {
        "sequential"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[
                Row::new(KEY_COLD, "1 GiB in order, cold", Unit::Milliseconds)
                    .within(1.2)
                    .with_machine(READ_TARGET_MS),
                Row::new(
                    KEY_AMPLIFICATION,
                    "1 GiB in order, cold: read per byte asked",
                    Unit::BytesPerByte,
                ),
                Row::new(
                    KEY_CACHED,
                    "1 GiB in order, image cached",
                    Unit::Milliseconds,
                ),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        let mount = rig.mount(contender)?;
        rig.drop_caches()?;
        let before = mount.meter().read_bytes()?;
        record(KEY_COLD, read(&mount)?);
        let read_bytes = mount.meter().read_bytes()?.saturating_sub(before);
        record(
            KEY_AMPLIFICATION,
            to_float(read_bytes) / to_float(LARGE_FILE_BYTES),
        );
        mount.unmount()?;

        let mount = rig.mount_with_image_cached(contender)?;
        record(KEY_CACHED, read(&mount)?);
        mount.unmount()
    }
}

fn read(mount: &Mount) -> Result<f64> {
    let mut source = std::ffi::OsString::from("if=");
    source.push(mount.path().join(LARGE_FILE));
    let mut dd = Command::new("dd");
    let wall = command::timed(dd.arg(source).args(["of=/dev/null", "bs=1M"]))?;
    Ok(milliseconds(wall))
}
