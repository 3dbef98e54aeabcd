//! A filesystem as a FUSE mount, from several threads: any [`FsRead`] read-only, any [`FsWrite`] to
//! read and write.
//!
//! ```no_run
//! # fn open() -> std::sync::Arc<dyn diskfs_vfs::FsRead> { unimplemented!() }
//! use diskfs_export::fuse::{Options, mount};
//!
//! let mounted = mount(open(), "/mnt".as_ref(), &Options::default())?;
//! mounted.serve()?; // until somebody unmounts it
//! # Ok::<(), diskfs_disk::Error>(())
//! ```
//!
//! What it does for speed, and why it is allowed to, is in `export/DESIGN.md`.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use diskfs_vfs::{FsRead, FsWrite};
use fuser::{Config, Session, SessionACL};

use diskfs_disk::{Error, ErrorKind, Result};

mod adapter;
mod ahead;
mod attributes;
mod device;
mod directory;
mod ending;
mod flags;
mod id_map;
mod linger;
mod mount_table;
mod options;
mod presence;
mod reading;
mod unmount;
mod writing;

pub use device::{Laziness, detach};
pub use ending::{Ending, HowItEnds};
pub use id_map::{IdMap, IdMapError, IdMapping, IdRange};
pub use mount_table::{KIND, MountEntry, MountId, mounted_at, mounts};
pub use options::{Access, Effect, Options, Writes};
pub use unmount::{Unmounted, unmount, wait_for_servers};

use adapter::Adapter;
use ahead::{Ahead, Guesses};
use attributes::Nodes;
use device::{Connection, MountPoint};
use linger::Linger;
use options::Direction;
use presence::Presence;
use writing::{Served, WritingAdapter};

/// How much the kernel reads ahead of a reader, where we may say so: as much as one request holds.
const READ_AHEAD_KIB: u32 = 1024;

/// A mounted filesystem. The kernel waits for [`serve`](Self::serve); dropped, it is unmounted.
#[derive(Debug)]
pub struct Mounted {
    service: Service,
    mount: MountPoint,
    presence: Arc<Presence>,
}

#[derive(Debug)]
enum Service {
    Reading {
        session: Session<Adapter>,
        fs: Arc<dyn FsRead>,
        guesses: Guesses,
    },
    Writing {
        session: Session<WritingAdapter>,
        served: Served,
    },
}

/// Mounts `fs` at a directory, read-only. It is usable once [`Mounted::serve`] runs.
///
/// # Errors
/// `NotFound` and `NotADirectory` for the mountpoint; `Denied`; `Unsupported` without FUSE in the
/// kernel, or without fusermount3 when not root.
pub fn mount(fs: Arc<dyn FsRead>, mountpoint: &Path, options: &Options) -> Result<Mounted> {
    let connection = device::connect(mountpoint, Direction::ReadOnly, options)?;
    let (ahead, guesses) = Ahead::new();
    let adapter = Adapter::new(
        Arc::clone(&fs),
        options,
        linger(&connection, options)?,
        ahead,
    );
    let (session, mount) = begin(adapter, connection, mountpoint, options)?;
    let service = Service::Reading {
        session,
        fs,
        guesses,
    };
    Ok(Mounted::new(service, mount, options))
}

/// Mounts `fs` at a directory, to read and to write. When [`Mounted::serve`] has returned, it is
/// closed, and everything is durable.
///
/// # Errors
/// As [`mount`].
pub fn mount_writable(
    fs: Arc<dyn FsWrite>,
    mountpoint: &Path,
    options: &Options,
) -> Result<Mounted> {
    let connection = device::connect(mountpoint, Direction::ReadWrite, options)?;
    let notifier = Arc::new(OnceLock::new());
    let linger = linger(&connection, options)?;
    let (adapter, served) = WritingAdapter::new(fs, options, linger, Arc::clone(&notifier))
        .map_err(|error| failed("no thread for syncing", &error, mountpoint))?;
    let (session, mount) = begin(adapter, connection, mountpoint, options)?;
    let _ = notifier.set(session.notifier());
    Ok(Mounted::new(
        Service::Writing { session, served },
        mount,
        options,
    ))
}

fn linger(connection: &Connection, options: &Options) -> Result<Linger> {
    Linger::new(&connection.device, options.thread_count())
        .map_err(|error| failed("no second descriptor", &error, &connection.mount.path))
}

/// Shakes hands with the kernel.
fn begin<A: fuser::Filesystem>(
    adapter: A,
    connection: Connection,
    mountpoint: &Path,
    options: &Options,
) -> Result<(Session<A>, MountPoint)> {
    let Connection { device, mount } = connection;
    let threads = options.thread_count();
    let mut config = Config::default();
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1 && device::can_clone();
    // The kernel refuses all others already where they are not wanted.
    let session = Session::from_fd(adapter, device.into(), SessionACL::All, config)
        .map_err(|error| failed("the kernel refused the connection", &error, mountpoint))?;
    device::raise_read_ahead(mount.id, READ_AHEAD_KIB);
    Ok((session, mount))
}

fn failed(what: &str, error: &io::Error, mountpoint: &Path) -> Error {
    Error::new(ErrorKind::Other, format!("{what}: {error}")).in_file(mountpoint)
}

impl Mounted {
    fn new(service: Service, mount: MountPoint, options: &Options) -> Self {
        Self {
            presence: Arc::new(Presence::announce(mount.id, &options.source)),
            service,
            mount,
        }
    }

    /// Which mount it is.
    pub fn id(&self) -> MountId {
        self.mount.id
    }

    /// Where it is mounted: an absolute path without symlinks.
    pub fn mountpoint(&self) -> &Path {
        &self.mount.path
    }

    /// What can end it from another thread.
    pub fn ending(&self) -> Ending {
        let written = match &self.service {
            Service::Reading { .. } => None,
            Service::Writing { served, .. } => Some(served.for_ending()),
        };
        Ending::new(&self.mount, written, Arc::clone(&self.presence))
    }

    /// Answers the kernel until the filesystem is unmounted.
    ///
    /// # Errors
    /// When the connection breaks, and when not everything that was written could be made durable.
    pub fn serve(self) -> Result<()> {
        let Self {
            service,
            mount,
            presence,
        } = self;
        let path = mount.path.clone();
        let (served, closed) = service.run();
        // First unmount, then say that we are gone.
        match &served {
            Ok(()) => mount.clear(),
            Err(_) => drop(mount),
        }
        if let Err(error) = closed {
            presence.last_words(&error.to_string());
            return Err(Error::from(error).in_file(&path));
        }
        served.map_err(|error| failed("serving stopped", &error, &path))
    }
}

impl Service {
    /// Serves until the end. Returns how that went, and then how closing the filesystem did.
    fn run(self) -> (io::Result<()>, diskfs_vfs::Result<()>) {
        match self {
            Self::Reading {
                session,
                fs,
                guesses,
            } => (read_until_unmounted(session, fs, guesses), Ok(())),
            Self::Writing { session, served } => (session.run(), served.close()),
        }
    }
}

fn read_until_unmounted(
    session: Session<Adapter>,
    fs: Arc<dyn FsRead>,
    guesses: Guesses,
) -> io::Result<()> {
    let nodes = Nodes::new(fs.root());
    let ahead = guesses.hand_over(fs, nodes, session.notifier());
    let ahead = ahead.inspect_err(|error| {
        tracing::debug!("no reading ahead across files: {error}");
    });
    let served = session.run();
    // It ends with the session. Until then it holds the image open, too.
    let _ = ahead.map(std::thread::JoinHandle::join);
    served
}
