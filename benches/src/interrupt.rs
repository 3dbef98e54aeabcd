//! Ctrl-C ends a run through its guards, so that no mount or loop device stays behind.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending the process. The child that
/// runs at the time gets the terminal's SIGINT, too, and its end brings us to [`check`].
pub(crate) fn install() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst))
        .context("installing the signal handler")
}

/// Fails once a signal has arrived.
pub(crate) fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::SeqCst) {
        bail!("interrupted");
    }
    Ok(())
}
