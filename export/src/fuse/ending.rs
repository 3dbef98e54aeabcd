//! The end of a mount by a signal instead of an unmount.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use diskfs_vfs::FsWrite;

use super::device::MountPoint;
use super::host::{Host, MountPlace};
use super::server_sockets::ServerSockets;
use super::writing::Losses;
use diskfs_disk::{Error, ErrorKind, Result};

/// The pause between attempts to unmount a filesystem that is in use.
const PAUSE: Duration = Duration::from_millis(50);

/// A handle that ends a mount from a thread that doesn't serve it.
#[derive(Debug)]
pub struct Ending {
    place: MountPlace,
    host: Arc<dyn Host>,
    /// The filesystem, if it is mounted read-write.
    written: Option<Written>,
    sockets: Arc<ServerSockets>,
}

/// A filesystem that is mounted read-write.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) fs: Weak<dyn FsWrite>,
    pub(super) losses: Arc<Losses>,
}

impl Written {
    /// Ends writing. Fails if some of the written data is not durable.
    fn close(&self) -> diskfs_vfs::Result<()> {
        let Some(fs) = self.fs.upgrade() else {
            return Ok(());
        };
        let kept = self.losses.check(&*fs);
        fs.close().and(kept)
    }
}

/// The state of a mount after [`Ending::end`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndState {
    /// The filesystem is unmounted, and the thread that serves it returns.
    ByItself,
    /// The filesystem is still in use. All changes are durable, and every later write fails: the
    /// process can end.
    Now,
}

impl Ending {
    pub(super) fn new(
        mount: &MountPoint,
        written: Option<Written>,
        sockets: Arc<ServerSockets>,
    ) -> Self {
        Self {
            place: mount.place.clone(),
            host: Arc::clone(&mount.host),
            written,
            sockets,
        }
    }

    /// Ends the mount. Processes that use it have `grace` to finish.
    ///
    /// # Errors
    /// Fails if the kernel refuses, or if some of the written data could not be made durable.
    pub fn end(&self, grace: Duration) -> Result<EndState> {
        match &self.written {
            None => {
                self.host.detach(&self.place)?;
                thread::sleep(grace);
                Ok(EndState::Now)
            }
            Some(written) => self.end_written(written, grace),
        }
    }

    /// Ends a read-write mount. Processes that use it have `grace` to finish before it is detached:
    /// a detached mount can't be synced any more, so what they write later would stay in the
    /// kernel.
    fn end_written(&self, written: &Written, grace: Duration) -> Result<EndState> {
        let deadline = Instant::now() + grace;
        loop {
            match self.host.unmount(&self.place) {
                Ok(()) => return Ok(EndState::ByItself),
                Err(error) if error.kind() == ErrorKind::Locked && Instant::now() < deadline => {
                    thread::sleep(PAUSE);
                }
                Err(_) => break,
            }
        }
        // Whatever fails, what was written is made durable.
        let synced = self.detach_synced();
        let closed = written.close().map_err(Error::from);
        closed.and(synced).map_err(|error| {
            self.report_failure(&error);
            error.in_file(&self.place.path)
        })?;
        Ok(EndState::Now)
    }

    /// Detaches the mount, and makes the kernel write back everything.
    fn detach_synced(&self) -> Result<()> {
        let root = self.host.open_root(&self.place)?;
        self.host.detach(&self.place)?;
        Ok(rustix::fs::syncfs(&root).map_err(io::Error::from)?)
    }

    /// Reports to the waiting processes that not everything is durable, and why.
    pub fn report_failure(&self, error: &Error) {
        self.sockets.report_failure(&error.to_string());
    }
}
