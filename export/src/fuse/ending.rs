//! The end of a mount that is not asked for through the mount table: a signal.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use diskfs_vfs::FsWrite;

use super::device::{Laziness, MountPoint, detach, unmount_if};
use super::mount_table::MountId;
use super::presence::Presence;
use super::writing::Losses;
use diskfs_disk::{Error, ErrorKind, Result};

/// How often it is tried again to unmount what is in use.
const PAUSE: Duration = Duration::from_millis(50);

/// What can end a mount from a thread that doesn't serve it.
#[derive(Debug)]
pub struct Ending {
    path: PathBuf,
    id: MountId,
    /// The filesystem, if it is written.
    written: Option<Written>,
    presence: Arc<Presence>,
}

/// A filesystem that is written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) fs: Weak<dyn FsWrite>,
    pub(super) losses: Arc<Losses>,
}

impl Written {
    /// Ends writing. Fails if not all that was written is durable.
    fn close(&self) -> diskfs_vfs::Result<()> {
        let Some(fs) = self.fs.upgrade() else {
            return Ok(());
        };
        let kept = self.losses.check(&*fs);
        fs.close().and(kept)
    }
}

/// How a mount goes on when it was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowItEnds {
    /// It is unmounted, and whoever serves it returns.
    ByItself,
    /// It is still in use. Everything is durable, and what is written from now on fails: the
    /// process can end.
    Now,
}

impl Ending {
    pub(super) fn new(
        mount: &MountPoint,
        written: Option<Written>,
        presence: Arc<Presence>,
    ) -> Self {
        Self {
            path: mount.path.clone(),
            id: mount.id,
            written,
            presence,
        }
    }

    /// Ends the mount. Who uses it has a moment to finish.
    ///
    /// # Errors
    /// When the kernel refuses, or not everything could be made durable.
    pub fn end(&self, grace: Duration) -> Result<HowItEnds> {
        match &self.written {
            None => {
                detach(&self.path, self.id)?;
                thread::sleep(grace);
                Ok(HowItEnds::Now)
            }
            Some(written) => self.end_written(written, grace),
        }
    }

    /// Detached, a mount can't be synced any more: what is written by those who use it stays in
    /// the kernel. So they have their moment before that.
    fn end_written(&self, written: &Written, grace: Duration) -> Result<HowItEnds> {
        let deadline = Instant::now() + grace;
        loop {
            match unmount_if(&self.path, self.id, Laziness::Refuse) {
                Ok(()) => return Ok(HowItEnds::ByItself),
                Err(error) if error.kind() == ErrorKind::Locked && Instant::now() < deadline => {
                    thread::sleep(PAUSE);
                }
                Err(_) => break,
            }
        }
        let root = File::open(&self.path)?;
        detach(&self.path, self.id)?;
        let synced = rustix::fs::syncfs(&root).map_err(io::Error::from);
        let closed = written.close();
        let result = match (synced, closed) {
            (_, Err(error)) => Err(error.into()),
            (Err(error), Ok(())) => Err(error.into()),
            (Ok(()), Ok(())) => Ok(HowItEnds::Now),
        };
        result.map_err(|error: Error| {
            self.went_badly(&error);
            error.in_file(&self.path)
        })
    }

    /// Tells those who wait for the end that not everything is durable, and why.
    pub fn went_badly(&self, error: &Error) {
        self.presence.last_words(&error.to_string());
    }
}
