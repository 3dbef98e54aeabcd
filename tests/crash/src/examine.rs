//! The examination of a crash image by all checkers.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use diskfs_block::{BlockRead, Overlay};

use crate::feature_set::FeatureSet;
use crate::history::{History, Window};
use crate::judge::{Tree, judge};
use crate::layer::{Crashed, Layer};
use crate::{e2fsck, image, writer};

/// The maximum size of an overlay: a few replays of a small journal.
const OVERLAY_BYTES: u64 = 256 << 20;

/// Examines a crash image in all ways. Returns the state that it shows.
///
/// # Errors
/// The first problem that one of the checkers finds, with its name.
pub fn examine(
    set: &FeatureSet,
    layer: Layer,
    history: &History,
    window: Window,
    crashed: &Arc<dyn BlockRead>,
    directory: &Path,
) -> Result<usize> {
    let by_qemu = layer.check(&**crashed, Crashed::Yes, directory);
    by_qemu.context("as the crash left it")?;
    let disk = &layer.open(Arc::clone(crashed))?;
    if !set.traits.journal {
        return repaired(disk, directory).map(|()| window.low);
    }
    let state = replayed_in_memory(history, window, disk).context("replayed in memory")?;
    replayed_by_writer(layer, history, window, crashed, directory)
        .context("replayed by our writer")?;
    replayed_by_e2fsck(set, history, window, disk, directory).context("replayed by e2fsck")?;
    Ok(state)
}

/// Judges what our reader shows, which replays the journal in memory. Returns the state.
///
/// # Errors
/// The errors of the reader; a state that is not allowed.
pub fn replayed_in_memory(
    history: &History,
    window: Window,
    crashed: &Arc<dyn BlockRead>,
) -> Result<usize> {
    let found = Tree::read(&image::read(Arc::clone(crashed))?)?;
    judge(history, window, &found)
}

/// Reads everything that a crash without a journal left. Errors are allowed, panics are not.
pub fn read_unrepaired(crashed: &Arc<dyn BlockRead>) {
    // Nothing is promised before e2fsck has repaired it.
    let _ = image::read(Arc::clone(crashed)).and_then(|fs| Tree::read(&fs));
}

fn replayed_by_writer(
    layer: Layer,
    history: &History,
    window: Window,
    crashed: &Arc<dyn BlockRead>,
    directory: &Path,
) -> Result<()> {
    let device = Arc::new(Overlay::in_memory(Arc::clone(crashed), OVERLAY_BYTES));
    let guest = layer.open_writable(device.clone())?;
    writer::open(guest.disk.clone(), 0)?.close()?;
    guest.close()?;
    // Clusters that the crash leaked may still be leaked.
    layer.check(&*device, Crashed::Yes, directory)?;
    let disk = layer.open(device)?;
    let path = directory.join("ours.img");
    image::write(&*disk, &path)?;
    e2fsck::check(&path)?;
    judge(history, window, &Tree::read(&image::read(disk)?)?)?;
    Ok(())
}

fn replayed_by_e2fsck(
    set: &FeatureSet,
    history: &History,
    window: Window,
    crashed: &Arc<dyn BlockRead>,
    directory: &Path,
) -> Result<()> {
    let path = directory.join("theirs.img");
    image::write(&**crashed, &path)?;
    e2fsck::recover(&path, set.traits)?;
    e2fsck::check(&path)?;
    judge(
        history,
        window,
        &Tree::read(&image::read(image::open(&path)?)?)?,
    )?;
    Ok(())
}

/// Checks that e2fsck can repair the image. Without a journal, nothing more is guaranteed.
fn repaired(crashed: &Arc<dyn BlockRead>, directory: &Path) -> Result<()> {
    let path = directory.join("theirs.img");
    image::write(&**crashed, &path)?;
    e2fsck::repair(&path)?;
    e2fsck::check(&path)
}
