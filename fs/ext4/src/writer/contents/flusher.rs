//! The thread that writes back what has been kept in memory for a while.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::writer::Core;

/// Starts it. It ends when writing does.
///
/// # Errors
/// `Io` when the host has no thread to give.
pub(crate) fn start_writing_back(core: &Arc<Core>, interval: Duration) -> Result<JoinHandle<()>> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("ext4-flush".to_owned());
    thread.spawn(move || run(&core, interval)).map_err(|e| {
        Error::new(ErrorKind::Io, "no thread can be started for writing back").with_source(e)
    })
}

fn run(core: &Core, interval: Duration) {
    while !core.transactions.ends_within(interval) {
        core.delayed.age_emptied();
        if let Err(e) = core.write_back_older_than(interval) {
            // It is kept, and whoever syncs is told.
            tracing::warn!("contents of files can't be written back: {e}");
        }
    }
}
