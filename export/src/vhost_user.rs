//! vhost-user-blk: a block device served over a Unix socket to a virtual machine of QEMU,
//! cloud-hypervisor or User Mode Linux. Any [`BlockRead`] is served read-only, any [`BlockWrite`]
//! read-write.
//!
//! ```no_run
//! # fn open() -> std::sync::Arc<dyn diskfs_block::BlockRead> { unimplemented!() }
//! use std::os::unix::net::UnixListener;
//! use diskfs_export::vhost_user::{BlockDevice, Options, serve};
//!
//! let device = BlockDevice::read_only(open()).into();
//! let served = serve(UnixListener::bind("disk.sock")?, &device, &Options::default())?;
//! served.wait()?; // until the virtual machine has gone
//! # Ok::<(), diskfs_disk::Error>(())
//! ```
//!
//! Requests copy bytes between the device and the guest's memory, which the front end shares;
//! several requests run at once. `export/DESIGN.md` lists what is supported and what is refused.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use std::num::{NonZeroU16, NonZeroUsize};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use diskfs_block::{BlockRead, BlockWrite, Error as BlockError};

use device::{FrontEnd, Service};
use diskfs_disk::{Error, ErrorKind, Result};

mod backend;
mod config;
pub mod device;
mod failures;
mod request;
#[cfg(test)]
mod tests;
mod worker;

use backend::Backend;
use failures::Failures;

/// A block device for a virtual machine. After a virtual machine has disconnected, it can be served
/// again.
#[derive(Debug)]
pub struct BlockDevice {
    /// The backing of the device; each request holds the lock for reading while it runs.
    disk: RwLock<Disk>,
    serial: String,
    failures: Failures,
    requests: Requests,
    /// The connected front end, if it accepts notifications of changes.
    front_end: Mutex<Option<Arc<FrontEnd>>>,
}

/// The numbers of requests.
#[derive(Debug, Default)]
struct Requests {
    started: AtomicU64,
    answered: AtomicU64,
}

#[derive(Debug)]
enum Disk {
    ReadOnly(Arc<dyn BlockRead>),
    Writable(Arc<dyn BlockWrite>),
}

impl BlockDevice {
    /// Creates a device that the guest can't write to.
    pub fn read_only(device: Arc<dyn BlockRead>) -> Self {
        Self::new(Disk::ReadOnly(device))
    }

    /// Creates a device that the guest can write to. Data that the guest has flushed is durable.
    pub fn writable(device: Arc<dyn BlockWrite>) -> Self {
        Self::new(Disk::Writable(device))
    }

    fn new(disk: Disk) -> Self {
        Self {
            disk: RwLock::new(disk),
            serial: String::from("diskfs"),
            failures: Failures::default(),
            requests: Requests::default(),
            front_end: Mutex::new(None),
        }
    }

    /// Sets the serial number that the guest reads (`/sys/block/vda/serial`), cut to 20 bytes.
    #[must_use]
    pub fn with_serial(mut self, serial: impl Into<String>) -> Self {
        self.serial = serial.into();
        self
    }

    /// Returns true if the guest can't write to the device.
    pub fn is_read_only(&self) -> bool {
        matches!(*self.disk(), Disk::ReadOnly(_))
    }

    /// Returns the first error of the backing. The guest itself gets only an error status.
    pub fn first_error(&self) -> Option<Arc<BlockError>> {
        self.failures.first()
    }

    /// Returns the number of requests that were answered.
    pub fn answered_requests(&self) -> u64 {
        self.requests.answered.load(Ordering::Relaxed)
    }

    /// Returns true while a request is executed: the guest waits for this process.
    pub fn is_working(&self) -> bool {
        self.requests.started.load(Ordering::Relaxed) != self.answered_requests()
    }

    /// Returns the size of the device.
    pub fn size_bytes(&self) -> u64 {
        self.disk().reader().size_bytes()
    }

    /// Replaces the backing. Requests to the old one have ended then, and no reference to it is
    /// kept.
    pub fn exchange(&self, device: Arc<dyn BlockWrite>) {
        let mut disk = self.disk.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *disk, Disk::Writable(device));
        drop(disk);
        drop(before); // Outside the lock: this may drop the last reference.
    }

    /// Notifies the front end of the current size. Returns false if it accepts no notifications.
    pub fn tell_size(&self) -> bool {
        let front_end = self.front_end().clone();
        front_end.is_some_and(|front_end| front_end.config_changed().is_ok())
    }

    fn front_end(&self) -> std::sync::MutexGuard<'_, Option<Arc<FrontEnd>>> {
        self.front_end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the backing, which can't be replaced while the guard is held.
    fn disk(&self) -> RwLockReadGuard<'_, Disk> {
        self.disk.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    fn reader(&self) -> &dyn BlockRead {
        match self {
            Self::ReadOnly(device) => device.as_ref(),
            Self::Writable(device) => device.as_ref(),
        }
    }

    fn writer(&self) -> Option<&dyn BlockWrite> {
        match self {
            Self::ReadOnly(_) => None,
            Self::Writable(device) => Some(device.as_ref()),
        }
    }
}

/// The options for serving a device.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The number of rings that the guest may use; best is one for each of its processors. User
    /// Mode Linux uses one.
    pub queues: NonZeroU16,
    /// The number of requests that run at once.
    pub threads: NonZeroUsize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: NonZeroU16::MIN,
            // A request that waits for the disk must not stop the others.
            threads: NonZeroUsize::new(4).unwrap_or(NonZeroUsize::MIN),
        }
    }
}

/// The reason why serving has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The virtual machine has closed the connection or has ended.
    Disconnected,
    /// [`Stopper::stop`] was called.
    Stopped,
}

/// A device that background threads serve. Dropping it stops them and waits until threads and
/// connection are gone.
#[derive(Debug)]
pub struct Served(Service);

/// A handle that stops the serving of a device from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(device::Stopper);

/// Serves the first virtual machine that connects to `listener`, until it disconnects. Several
/// can't share a device, so the listener is closed when one has connected. To wait for another one,
/// keep a clone of the listener ([`UnixListener::try_clone`]) and serve again.
///
/// # Errors
/// Fails if the host has no thread or descriptor left.
pub fn serve(
    listener: UnixListener,
    device: &Arc<BlockDevice>,
    options: &Options,
) -> Result<Served> {
    let backend = Backend::new(Arc::clone(device), options);
    Ok(Served(Service::start(listener, Arc::new(backend))?))
}

impl Served {
    /// Returns a handle that stops the serving from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.0.stopper())
    }

    /// Waits until serving has ended; all threads have ended then. Data that the guest has not
    /// flushed is not durable yet.
    ///
    /// # Errors
    /// Fails if the peer does not speak vhost-user as we understand it.
    pub fn wait(self) -> Result<Ended> {
        let ended = self.0.wait();
        let ended = ended.map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
        Ok(match ended {
            device::Ended::Disconnected => Ended::Disconnected,
            device::Ended::Stopped => Ended::Stopped,
        })
    }
}

impl Stopper {
    /// Stops the serving. Requests in flight are still answered.
    pub fn stop(&self) {
        self.0.stop();
    }
}
