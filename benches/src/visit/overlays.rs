//! Empty overlays of an image, which are changed instead of the image.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command;

/// Creates `count` overlays, `0.qcow2` and so on, in a new directory; does nothing if the directory
/// exists.
pub(super) fn make(dir: &Path, backing: &Path, format: &str, count: u32) -> Result<()> {
    if dir.exists() {
        return Ok(());
    }
    fs::create_dir(dir)?;
    let first = dir.join("0.qcow2");
    let mut create = Command::new("qemu-img");
    create.args(["create", "-f", "qcow2", "-F", format, "-b"]);
    command::output(create.arg(backing).arg(&first))?;
    for number in 1..count {
        fs::copy(&first, dir.join(format!("{number}.qcow2")))?;
    }
    Ok(())
}
