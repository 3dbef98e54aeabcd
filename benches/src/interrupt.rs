//! Ctrl-C ends a run through its guards, so that no mount or loop device stays behind.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

use crate::limit;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGTERM and SIGHUP are noted instead of ending the process. The child that
/// runs at the time gets the terminal's SIGINT, too, and its end brings us to [`check`].
pub(crate) fn install() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst))
        .context("installing the signal handler")
}

/// Whether a signal has arrived.
pub(crate) fn has_come() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Fails once a signal has arrived, or the visit has taken too long.
pub(crate) fn check() -> Result<()> {
    if has_come() {
        bail!("interrupted");
    }
    limit::check()
}
