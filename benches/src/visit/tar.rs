//! The visit that reads every file below `/usr`.

use std::process::Command;

use anyhow::Result;

use super::{Record, Row, Unit, Visit, mebibytes, milliseconds};
use crate::command;
use crate::contender::Contender;
use crate::mount::Mount;
use crate::rig::Rig;
use crate::samples::to_float;

const KEY_COLD: &str = "tar_cold";
const KEY_AMPLIFICATION: &str = "tar_amplification";
const KEY_MEMORY: &str = "tar_server_memory";
const KEY_CACHED: &str = "tar_cached";
const KEY_WARM: &str = "tar_warm";

/// The visit of `tar -cf - usr` into a pipe.
#[derive(Debug)]
pub(super) struct Tar;

impl Visit for Tar {
    fn name(&self) -> &'static str {
        "tar"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[
                Row::new(KEY_COLD, "tar of /usr, cold", Unit::Milliseconds).within(1.3),
                Row::new(
                    KEY_AMPLIFICATION,
                    "tar of /usr, cold: read per byte asked",
                    Unit::BytesPerByte,
                ),
                Row::new(
                    KEY_MEMORY,
                    "tar of /usr: the server's peak memory",
                    Unit::Mebibytes,
                ),
                Row::new(KEY_CACHED, "tar of /usr, image cached", Unit::Milliseconds),
                Row::new(KEY_WARM, "tar of /usr, warm", Unit::Milliseconds).within(2.0),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        let mount = rig.mount(contender)?;
        rig.drop_caches()?;
        let before = mount.meter().read_bytes()?;
        let (wall, asked_bytes) = tar(&mount)?;
        let read_bytes = mount.meter().read_bytes()?.saturating_sub(before);
        record(KEY_COLD, wall);
        record(
            KEY_AMPLIFICATION,
            to_float(read_bytes) / to_float(asked_bytes),
        );
        if let Some(kib) = mount.server_peak_memory_kib() {
            record(KEY_MEMORY, mebibytes(kib << 10));
        }
        record(KEY_WARM, tar(&mount)?.0);
        mount.unmount()?;

        let mount = rig.mount_with_image_cached(contender)?;
        record(KEY_CACHED, tar(&mount)?.0);
        mount.unmount()
    }
}

/// Returns the milliseconds it took, and the bytes of the archive: those of the files and a header
/// for each.
fn tar(mount: &Mount) -> Result<(f64, u64)> {
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(mount.path()).args(["-cf", "-", "usr"]);
    let (wall, len_bytes) = command::timed_through_pipe(&mut tar)?;
    Ok((milliseconds(wall), len_bytes))
}
