//! A filesystem as a FUSE mount: any [`FsRead`], read-only, from several threads.
//!
//! ```no_run
//! # fn open() -> std::sync::Arc<dyn diskfs::vfs::FsRead> { unimplemented!() }
//! use diskfs::export::fuse::{Options, mount};
//!
//! let mounted = mount(open(), "/mnt".as_ref(), &Options::default())?;
//! mounted.serve()?; // until somebody unmounts it
//! # Ok::<(), diskfs::Error>(())
//! ```
//!
//! What it does for speed, and why it is allowed to, is in `src/export/DESIGN.md`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use diskfs_vfs::FsRead;
use fuser::{Config, Session, SessionACL};

use crate::{Error, ErrorKind, Result};

mod adapter;
mod ahead;
mod attributes;
mod device;
mod directory;
mod id_map;
mod mount_table;
mod options;
mod presence;
mod unmount;

pub use device::{Laziness, detach};
pub use id_map::{IdMap, IdMapError, IdMapping, IdRange};
pub use mount_table::{KIND, MountEntry, MountId, mounted_at, mounts};
pub use options::{Access, Effect, Options};
pub use unmount::{Unmounted, unmount};

use adapter::Adapter;
use ahead::{Ahead, Guesses};
use attributes::Nodes;
use device::{Connection, MountPoint};
use presence::Presence;

/// How much the kernel reads ahead of a reader, where we may say so: as much as one request holds.
const READ_AHEAD_KIB: u32 = 1024;

/// A mounted filesystem. The kernel waits for [`serve`](Self::serve); dropped, it is unmounted.
#[derive(Debug)]
pub struct Mounted {
    session: Session<Adapter>,
    fs: Arc<dyn FsRead>,
    guesses: Guesses,
    mount: MountPoint,
    presence: Option<Presence>,
}

/// Mounts `fs` at a directory. It is usable once [`Mounted::serve`] runs.
///
/// # Errors
/// `NotFound` and `NotADirectory` for the mountpoint; `Denied`; `Unsupported` without FUSE in the
/// kernel, or without fusermount3 when not root.
pub fn mount(fs: Arc<dyn FsRead>, mountpoint: &Path, options: &Options) -> Result<Mounted> {
    let Connection { device, mount } = device::connect(mountpoint, options)?;
    let threads = options.thread_count();
    let mut config = Config::default();
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1 && device::can_clone();
    let (ahead, guesses) = Ahead::new();
    // The kernel refuses all others already where they are not wanted.
    let session = Session::from_fd(
        Adapter::new(Arc::clone(&fs), options, ahead),
        device.into(),
        SessionACL::All,
        config,
    )
    .map_err(|error| failed("the kernel refused the connection", &error, mountpoint))?;
    device::raise_read_ahead(mount.id, READ_AHEAD_KIB);
    Ok(Mounted {
        presence: Presence::announce(mount.id),
        session,
        fs,
        guesses,
        mount,
    })
}

fn failed(what: &str, error: &io::Error, mountpoint: &Path) -> Error {
    Error::new(ErrorKind::Other, format!("{what}: {error}")).in_file(mountpoint)
}

impl Mounted {
    /// Which mount it is.
    pub fn id(&self) -> MountId {
        self.mount.id
    }

    /// Where it is mounted: an absolute path without symlinks.
    pub fn mountpoint(&self) -> &Path {
        &self.mount.path
    }

    /// Answers the kernel until the filesystem is unmounted.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn serve(self) -> Result<()> {
        let Self {
            session,
            fs,
            guesses,
            mount,
            presence,
        } = self;
        let nodes = Nodes::new(fs.root());
        let ahead = guesses.hand_over(fs, nodes, session.notifier());
        let ahead = ahead.inspect_err(|error| {
            tracing::debug!("no reading ahead across files: {error}");
        });
        let served = session.run();
        // It ends with the session. Until then it holds the image open, too.
        let _ = ahead.map(std::thread::JoinHandle::join);
        // First unmount, then say that we are gone.
        let result = match served {
            Ok(()) => {
                mount.clear();
                Ok(())
            }
            Err(error) => {
                let error = failed("serving stopped", &error, &mount.path);
                drop(mount);
                Err(error)
            }
        };
        drop(presence);
        result
    }
}
