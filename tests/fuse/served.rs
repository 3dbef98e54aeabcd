//! A filesystem that is served from a thread of this process.

use std::io;
use std::path::Path;
use std::thread::JoinHandle;

use diskfs::export::fuse::{Laziness, Mounted, unmount};

use super::Mountpoint;

/// A served mount; dropped, it ends, and what serving it returned is looked at.
pub(super) struct Served {
    at: Mountpoint,
    server: Option<JoinHandle<diskfs::Result<()>>>,
}

impl Served {
    pub(super) fn start(mount: impl FnOnce(&Path) -> diskfs::Result<Mounted>) -> Self {
        let at = Mountpoint::new();
        let mounted = mount(&at).expect("it mounts");
        let server = std::thread::spawn(move || mounted.serve());
        Self {
            at,
            server: Some(server),
        }
    }

    fn join(&mut self) {
        if let Some(server) = self.server.take() {
            unmount(&self.at, Laziness::Detach).expect("it unmounts");
            server.join().expect("no panic").expect("it ends well");
        }
    }

    /// Ends it now, and something was lost. Returns what is said of it.
    pub(super) fn end_badly(mut self) -> String {
        let server = self.server.take().expect("it is served");
        unmount(&self.at, Laziness::Detach).expect_err("it tells what was lost");
        let served = server.join().expect("no panic");
        served.expect_err("something was lost").to_string()
    }

    /// Ends it now.
    pub(super) fn end(mut self) {
        self.join();
    }
}

impl std::ops::Deref for Served {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.at
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}

pub(super) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().expect("an errno")
}
