//! Makes what was written durable soon, whatever the filesystem: `sync` and `syncfs` don't reach a FUSE server, so
//! there has to be a time after which nobody needs them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use diskfs_vfs::{ErrorKind, FsWrite};

/// How long a change may be without being durable, before making it so begins.
const INTERVAL: Duration = Duration::from_secs(1);

/// What tells the thread that something has changed. The thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct Changed {
    is_noted: Arc<AtomicBool>,
    first: Mutex<Sender<()>>,
}

impl Changed {
    /// Notes that the filesystem is changed: before or while that happens.
    pub(super) fn note(&self) {
        if !self.is_noted.load(Ordering::Acquire) && !self.is_noted.swap(true, Ordering::AcqRel) {
            let first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            // Without the thread, the driver's own commits remain.
            let _ = first.send(());
        }
    }
}

/// Starts the thread.
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
            // Before: what is changed meanwhile is for the next time.
            noted.store(false, Ordering::Release);
            match fs.sync() {
                Ok(()) => {}
                // It was closed, or has said why it writes no more.
                Err(error) if error.kind() == ErrorKind::ReadOnly => {}
                Err(error) => tracing::warn!("what was written is not durable: {error}"),
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
