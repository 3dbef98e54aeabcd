//! Handling of Ctrl-C: it ends a run through its guards, so that no mount or loop device stays
//! behind.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

use crate::limit;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Installs handlers that record SIGINT, SIGTERM and SIGHUP instead of ending the process. The
/// child that is running also gets the terminal's SIGINT, and after its end the run reaches
/// [`check`].
pub(crate) fn install() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst))
        .context("installing the signal handler")
}

/// Returns true if a signal has arrived.
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
