//! Periodic syncing that makes changes durable soon, whatever the filesystem. `sync` and `syncfs`
//! don't reach a FUSE server, so data must become durable after a bounded time without them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diskfs_vfs::{ErrorKind, FsWrite};

/// The time between the first change and the sync that makes it durable.
const INTERVAL: Duration = Duration::from_secs(1);

/// The sender that wakes the syncing thread after a change. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Changed {
    is_noted: Arc<AtomicBool>,
    first: Mutex<Sender<()>>,
}

impl Changed {
    /// Notes a change, before or while it is made.
    pub(super) fn note(&self) {
        if !self.is_noted.load(Ordering::Acquire) && !self.is_noted.swap(true, Ordering::AcqRel) {
            let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            // If the thread has ended, the driver's own commits remain.
            let _ = first.send(());
        }
    }
}

/// Starts the syncing thread.
pub(super) fn start(fs: Arc<dyn FsWrite>) -> io::Result<(Changed, JoinHandle<()>)> {
    start_with(fs, INTERVAL)
}

fn start_with(fs: Arc<dyn FsWrite>, interval: Duration) -> io::Result<(Changed, JoinHandle<()>)> {
    let is_noted = Arc::new(AtomicBool::new(false));
    let (first, changes) = mpsc::channel();
    let noted = Arc::clone(&is_noted);
    let run = move || {
        while changes.recv().is_ok() {
            if changes.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            // Reset before syncing: a change made meanwhile is for the next sync.
            noted.store(false, Ordering::Release);
            match fs.sync() {
                Ok(()) => {}
                // The filesystem was closed, or has reported why it stopped writing.
                Err(error) if error.kind() == ErrorKind::ReadOnly => {}
                Err(error) => tracing::warn!("written data could not be made durable: {error}"),
            }
        }
    };
    let thread = thread::Builder::new()
        .name("fuse-sync".to_owned())
        .spawn(run)?;
    let first = Mutex::new(first);
    Ok((Changed { is_noted, first }, thread))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use diskfs_vfs::testing::{Synced, WritableMemoryFs};

    use super::*;

    #[test]
    fn a_change_is_made_durable_and_nothing_else_is() {
        let fs = Arc::new(WritableMemoryFs::new());
        let (changed, thread) = start_with(fs.clone(), Duration::from_millis(20)).unwrap();
        thread::sleep(Duration::from_millis(100));
        assert!(fs.take_synced().is_empty());
        for _ in 0..2 {
            changed.note();
            changed.note();
            let began = Instant::now();
            let mut synced = Vec::new();
            while synced.is_empty() {
                assert!(began.elapsed() < Duration::from_secs(20));
                thread::sleep(Duration::from_millis(1));
                synced = fs.take_synced();
            }
            assert_eq!(synced, [Synced::All]);
        }
        drop(changed);
        thread.join().unwrap();
    }
}
