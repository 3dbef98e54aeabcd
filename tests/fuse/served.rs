//! A filesystem that a thread of this process serves.

use std::io;
use std::path::Path;
use std::thread::JoinHandle;

use diskfs::export::fuse::{Laziness, Mounted, unmount};

use super::Mountpoint;

/// A served mount; dropping it ends it, and checks the result of serving.
pub(super) struct Served {
    at: Mountpoint,
    server: Option<JoinHandle<diskfs::Result<()>>>,
}

impl Served {
    pub(super) fn start(mount: impl FnOnce(&Path) -> diskfs::Result<Mounted>) -> Self {
        let at = Mountpoint::new();
        let mounted = mount(&at).expect("mount");
        let server = std::thread::spawn(move || mounted.serve());
        Self {
            at,
            server: Some(server),
        }
    }

    fn join(&mut self) {
        if let Some(server) = self.server.take() {
            unmount(&self.at, Laziness::Detach).expect("unmount");
            server
                .join()
                .expect("no panic")
                .expect("serving ends without an error");
        }
    }

    /// Ends it now, expects that data was lost, and returns the error message.
    pub(super) fn end_badly(mut self) -> String {
        let server = self.server.take().expect("the mount is served");
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
    error.raw_os_error().expect("the error has an errno")
}
