//! The visit that walks the whole tree and gets each file's size.

use std::process::Command;

use anyhow::Result;

use super::{Record, Row, Unit, Visit, mebibytes, milliseconds};
use crate::command;
use crate::contender::Contender;
use crate::mount::Mount;
use crate::rig::Rig;

const KEY_COLD: &str = "find_cold";
const KEY_READ: &str = "find_read_mib";
const KEY_CACHED: &str = "find_cached";
const KEY_WARM: &str = "find_warm";

/// The visit of `find -printf '%s'` over the whole tree.
#[derive(Debug)]
pub(super) struct Find;

impl Visit for Find {
    fn name(&self) -> &'static str {
        "find"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[
                Row::new(KEY_COLD, "find, cold", Unit::Milliseconds).within(2.0),
                Row::new(KEY_READ, "find, cold: read from the image", Unit::Mebibytes),
                Row::new(KEY_CACHED, "find, image cached", Unit::Milliseconds),
                Row::new(KEY_WARM, "find, warm", Unit::Milliseconds).within(1.2),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        let mount = rig.mount(contender)?;
        rig.drop_caches()?;
        let before = mount.meter().read_bytes()?;
        record(KEY_COLD, find(&mount)?);
        let after = mount.meter().read_bytes()?;
        record(KEY_READ, mebibytes(after.saturating_sub(before)));
        // The first warm run may still evict or fill caches; the second one shows the steady state.
        find(&mount)?;
        record(KEY_WARM, find(&mount)?);
        mount.unmount()?;

        let mount = rig.mount_with_image_cached(contender)?;
        record(KEY_CACHED, find(&mount)?);
        mount.unmount()
    }
}

fn find(mount: &Mount) -> Result<f64> {
    let mut find = Command::new("find");
    let wall = command::timed(find.arg(mount.path()).args(["-printf", "%s\n"]))?;
    Ok(milliseconds(wall))
}
