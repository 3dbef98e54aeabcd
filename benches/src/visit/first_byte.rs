//! The visit from no mount to the first byte: mount, then `cat` of a small file.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::{Record, Row, SMALL_FILE, Unit, Visit, milliseconds};
use crate::command;
use crate::contender::Contender;
use crate::rig::Rig;

const KEY: &str = "first_byte";
const KEY_CACHED: &str = "first_byte_cached";

/// The visit of mount and `cat /etc/os-release`, without the unmount.
#[derive(Debug)]
pub(super) struct FirstByte;

impl Visit for FirstByte {
    fn name(&self) -> &'static str {
        "first-byte"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[
                Row::new(KEY, "time to first byte, cold", Unit::Milliseconds)
                    .within(1.5)
                    .with_machine(350.0),
                Row::new(
                    KEY_CACHED,
                    "time to first byte, image cached",
                    Unit::Milliseconds,
                ),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        for key in [KEY, KEY_CACHED] {
            if key == KEY {
                rig.drop_caches()?;
            }
            let start = Instant::now();
            let mount = rig.mount(contender)?;
            command::timed(Command::new("cat").arg(mount.path().join(SMALL_FILE)))?;
            record(key, milliseconds(start.elapsed()));
            mount.unmount()?;
        }
        Ok(())
    }
}
