//! FUSE mounts that several threads serve: read-only for any [`FsRead`], read-write for any
//! [`FsWrite`].
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
//! `export/DESIGN.md` lists the FUSE settings that make a mount fast, and why each one is safe.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use diskfs_vfs::{FsRead, FsWrite};
use fuser::{Config, IsBeingKilled, Session, SessionACL};

use diskfs_disk::{Error, ErrorKind, Result};

mod adapter;
mod attributes;
mod device;
mod directory;
mod ending;
mod flags;
mod host;
mod id_map;
mod mount_table;
mod options;
mod prefetch;
mod reading;
mod remount;
mod request_waiter;
mod server_sockets;
mod unmount;
mod writing;

pub use device::{DEVICE, Laziness, detach};
pub use ending::{EndState, Ending};
pub use host::{DirectHost, Host, MountPlace, RequestRings};
pub use id_map::{IdMap, IdMapError, IdMapping, IdRange};
pub use mount_table::{KIND, MountEntry, MountId, mounted_at, mounts};
pub use options::{Access, Direction, Effect, Options, Writes};
pub use remount::{Remount, remount};
pub use unmount::{Unmounted, unmount, wait_for_servers};

use adapter::Adapter;
use attributes::Nodes;
use device::{Connection, MountPoint};
use prefetch::{Guesses, Prefetcher};
use request_waiter::RequestWaiter;
use server_sockets::ServerSockets;
use writing::{Served, WritingAdapter};

/// A mounted filesystem. [`serve`](Self::serve) answers the kernel's requests; dropping it
/// unmounts.
#[derive(Debug)]
pub struct Mounted {
    service: Service,
    mount: MountPoint,
    sockets: Arc<ServerSockets>,
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

/// Mounts `fs` read-only at a directory. The mount is usable once [`Mounted::serve`] runs.
///
/// # Errors
/// Fails with `NotFound` or `NotADirectory` for the mount point, with `Denied`, and with
/// `Unsupported` if the kernel has no FUSE or if a user who is not root has no fusermount3.
pub fn mount(fs: Arc<dyn FsRead>, mountpoint: &Path, options: &Options) -> Result<Mounted> {
    let connection = device::connect(mountpoint, Direction::ReadOnly, options)?;
    let (prefetcher, guesses) = Prefetcher::new();
    let adapter = Adapter::new(
        Arc::clone(&fs),
        options,
        request_waiter(&connection, options)?,
        prefetcher,
    );
    let (session, mount) = begin(adapter, connection, mountpoint, options)?;
    let service = Service::Reading {
        session,
        fs,
        guesses,
    };
    Ok(Mounted::new(service, mount, options))
}

/// Mounts `fs` read-write at a directory. When [`Mounted::serve`] has returned, the filesystem is
/// closed and all changes are durable.
///
/// # Errors
/// Fails for the same reasons as [`mount`].
pub fn mount_writable(
    fs: Arc<dyn FsWrite>,
    mountpoint: &Path,
    options: &Options,
) -> Result<Mounted> {
    let connection = device::connect(mountpoint, Direction::ReadWrite, options)?;
    let notifier = Arc::new(OnceLock::new());
    let waiter = request_waiter(&connection, options)?;
    let (adapter, served) = WritingAdapter::new(fs, options, waiter, Arc::clone(&notifier))
        .map_err(|error| failed("cannot start the thread that syncs", &error, mountpoint))?;
    let (session, mount) = begin(adapter, connection, mountpoint, options)?;
    let _ = notifier.set(session.notifier());
    Ok(Mounted::new(
        Service::Writing { session, served },
        mount,
        options,
    ))
}

fn request_waiter(connection: &Connection, options: &Options) -> Result<RequestWaiter> {
    if connection.rings.is_some() {
        return Ok(RequestWaiter::of_rings());
    }
    RequestWaiter::new(&connection.device, options.thread_count()).map_err(|error| {
        failed(
            "cannot duplicate the FUSE descriptor",
            &error,
            &connection.mount.place.path,
        )
    })
}

/// Performs the FUSE handshake with the kernel.
fn begin<A: fuser::Filesystem>(
    adapter: A,
    connection: Connection,
    mountpoint: &Path,
    options: &Options,
) -> Result<(Session<A>, MountPoint)> {
    let Connection {
        device,
        mount,
        rings,
    } = connection;
    let threads = options.thread_count();
    let mut config = Config::default();
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1 && device::can_clone();
    let host = Arc::clone(&mount.host);
    config.is_being_killed = IsBeingKilled(Arc::new(move |thread| host.is_being_killed(thread)));
    // Without `allow_other` the kernel itself refuses the requests of other users.
    let rings = rings.map(|rings| rings.0);
    let session = Session::from_fd(adapter, device.into(), SessionACL::All, config, rings)
        .map_err(|error| failed("the kernel refused the connection", &error, mountpoint))?;
    mount.host.raise_read_ahead(mount.place.id);
    Ok((session, mount))
}

fn failed(what: &str, error: &io::Error, mountpoint: &Path) -> Error {
    Error::new(ErrorKind::Other, format!("{what}: {error}")).in_file(mountpoint)
}

impl Mounted {
    fn new(service: Service, mount: MountPoint, options: &Options) -> Self {
        Self {
            sockets: Arc::new(ServerSockets::announce(
                &*mount.host,
                mount.place.id,
                &options.source,
            )),
            service,
            mount,
        }
    }

    /// Returns the device number that identifies the mount.
    pub fn id(&self) -> MountId {
        self.mount.place.id
    }

    /// Returns the mount point: an absolute path without symlinks.
    pub fn mountpoint(&self) -> &Path {
        &self.mount.place.path
    }

    /// Returns a handle that can end the mount from another thread.
    pub fn ending(&self) -> Ending {
        let written = match &self.service {
            Service::Reading { .. } => None,
            Service::Writing { served, .. } => Some(served.for_ending()),
        };
        Ending::new(&self.mount, written, Arc::clone(&self.sockets))
    }

    /// Answers the kernel until the filesystem is unmounted.
    ///
    /// # Errors
    /// Fails if the connection breaks, or if some of the written data could not be made durable.
    pub fn serve(self) -> Result<()> {
        let Self {
            service,
            mount,
            sockets,
        } = self;
        let path = mount.place.path.clone();
        let (served, closed) = service.run();
        // Unmount first; only then tell the waiting processes that the server has ended.
        match &served {
            Ok(()) => mount.clear(),
            Err(_) => drop(mount),
        }
        if let Err(error) = closed {
            sockets.report_failure(&error.to_string());
            return Err(Error::from(error).in_file(&path));
        }
        served.map_err(|error| failed("serving stopped", &error, &path))
    }
}

impl Service {
    /// Serves until the end. Returns the result of serving, then the result of closing the
    /// filesystem.
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
    let thread = guesses.start(fs, nodes, session.notifier());
    let thread = thread.inspect_err(|error| {
        tracing::debug!("cannot start reading ahead across files: {error}");
    });
    let served = session.run();
    // The thread ends with the session. Until then it keeps the image open, too.
    let _ = thread.map(std::thread::JoinHandle::join);
    served
}
