//! One crash image under every judge.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use diskfs_block::{BlockRead, Overlay};

use crate::feature_set::FeatureSet;
use crate::history::{History, Window};
use crate::judge::{Tree, judge};
use crate::{e2fsck, image, writer};

/// What an overlay may hold: no more than a few replays of a small journal.
const OVERLAY_BYTES: u64 = 256 << 20;

/// Looks at a crash image in every way. Returns the state that it shows.
///
/// # Errors
/// When one of them finds something wrong; it begins with who.
pub fn examine(
    set: &FeatureSet,
    history: &History,
    window: Window,
    crashed: &Arc<dyn BlockRead>,
    directory: &Path,
) -> Result<usize> {
    if !set.traits.journal {
        return repaired(crashed, directory).map(|()| window.low);
    }
    let state = replayed_in_memory(history, window, crashed).context("replayed in memory")?;
    replayed_by_writer(history, window, crashed, directory).context("replayed by our writer")?;
    replayed_by_e2fsck(history, window, crashed, directory).context("replayed by e2fsck")?;
    Ok(state)
}

fn replayed_in_memory(
    history: &History,
    window: Window,
    crashed: &Arc<dyn BlockRead>,
) -> Result<usize> {
    let found = Tree::read(&image::read(Arc::clone(crashed))?)?;
    judge(history, window, &found)
}

fn replayed_by_writer(
    history: &History,
    window: Window,
    crashed: &Arc<dyn BlockRead>,
    directory: &Path,
) -> Result<()> {
    let device = Arc::new(Overlay::in_memory(Arc::clone(crashed), OVERLAY_BYTES));
    writer::open(device.clone(), 0)?.close()?;
    let path = directory.join("ours.img");
    image::write(&*device, &path)?;
    e2fsck::check(&path)?;
    judge(history, window, &Tree::read(&image::read(device)?)?)?;
    Ok(())
}

fn replayed_by_e2fsck(
    history: &History,
    window: Window,
    crashed: &Arc<dyn BlockRead>,
    directory: &Path,
) -> Result<()> {
    let path = directory.join("theirs.img");
    image::write(&**crashed, &path)?;
    e2fsck::recover(&path)?;
    e2fsck::check(&path)?;
    judge(
        history,
        window,
        &Tree::read(&image::read(image::open(&path)?)?)?,
    )?;
    Ok(())
}

/// Without a journal there is no promise but that e2fsck can repair it.
fn repaired(crashed: &Arc<dyn BlockRead>, directory: &Path) -> Result<()> {
    let path = directory.join("theirs.img");
    image::write(&**crashed, &path)?;
    e2fsck::repair(&path)?;
    e2fsck::check(&path)
}
