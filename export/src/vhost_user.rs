//! A block device served over a Unix socket by vhost-user-blk, to a virtual machine of QEMU,
//! cloud-hypervisor or User Mode Linux: any [`BlockRead`] read-only, any [`BlockWrite`] to read and
//! write.
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
//! The guest's requests move bytes between its memory, which it shares, and the device; several at
//! once. What is promised and what is refused is in `export/src/vhost_user/DESIGN.md`.
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

/// A block device as a virtual machine is to see it. It can be served again when a virtual machine
/// has gone.
#[derive(Debug)]
pub struct BlockDevice {
    /// Locked for reading by each request, as long as it takes.
    disk: RwLock<Disk>,
    serial: String,
    failures: Failures,
    /// The one that it is served to, if it hears of changes.
    front_end: Mutex<Option<Arc<FrontEnd>>>,
}

#[derive(Debug)]
enum Disk {
    ReadOnly(Arc<dyn BlockRead>),
    Writable(Arc<dyn BlockWrite>),
}

impl BlockDevice {
    /// A device that the guest can't write to.
    pub fn read_only(device: Arc<dyn BlockRead>) -> Self {
        Self::new(Disk::ReadOnly(device))
    }

    /// A device that the guest can write to. What it has flushed is durable.
    pub fn writable(device: Arc<dyn BlockWrite>) -> Self {
        Self::new(Disk::Writable(device))
    }

    fn new(disk: Disk) -> Self {
        Self {
            disk: RwLock::new(disk),
            serial: String::from("diskfs"),
            failures: Failures::default(),
            front_end: Mutex::new(None),
        }
    }

    /// The serial number that the guest reads (`/sys/block/vda/serial`), of which it gets 20 bytes.
    #[must_use]
    pub fn with_serial(mut self, serial: impl Into<String>) -> Self {
        self.serial = serial.into();
        self
    }

    /// Whether the guest can't write to it.
    pub fn is_read_only(&self) -> bool {
        matches!(*self.disk(), Disk::ReadOnly(_))
    }

    /// The first error of the device below that a guest was answered with: all that it was told is that
    /// there was one.
    pub fn first_error(&self) -> Option<Arc<BlockError>> {
        self.failures.first()
    }

    /// How large it is.
    pub fn size_bytes(&self) -> u64 {
        self.disk().reader().size_bytes()
    }

    /// Puts another device behind it. What was asked of the one before is done then, and nothing of it is kept.
    pub fn exchange(&self, device: Arc<dyn BlockWrite>) {
        let mut disk = self.disk.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *disk, Disk::Writable(device));
        drop(disk);
        drop(before); // Not under the lock: it may be the last one.
    }

    /// Tells the front end how large it is now. `false` when that hears of no changes.
    pub fn tell_size(&self) -> bool {
        let front_end = self.front_end().clone();
        front_end.is_some_and(|front_end| front_end.config_changed().is_ok())
    }

    fn front_end(&self) -> std::sync::MutexGuard<'_, Option<Arc<FrontEnd>>> {
        self.front_end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What is behind it, and stays so as long as this is held.
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

/// How a device is served.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How many rings the guest may use: one for each of its processors is best. User Mode Linux uses
    /// one.
    pub queues: NonZeroU16,
    /// How many requests are worked on at once.
    pub threads: NonZeroUsize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: NonZeroU16::MIN,
            // One that waits for the disk must not stop the others.
            threads: NonZeroUsize::new(4).unwrap_or(NonZeroUsize::MIN),
        }
    }
}

/// Why serving has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The virtual machine has closed the connection, or is gone.
    Disconnected,
    /// [`Stopper::stop`] was called.
    Stopped,
}

/// A device that is served by threads in the background. Dropped, it is stopped; its threads and its
/// connection are gone then.
#[derive(Debug)]
pub struct Served(Service);

/// Ends the serving of a device, from any thread.
#[derive(Debug, Clone)]
pub struct Stopper(device::Stopper);

/// Serves the first virtual machine that connects to `listener`, until it disconnects. Several can't
/// share a device, so the listener is closed when one has connected. To wait for another one, keep a
/// clone of it ([`UnixListener::try_clone`]) and serve again.
///
/// # Errors
/// When the host has no thread or descriptor left.
pub fn serve(
    listener: UnixListener,
    device: &Arc<BlockDevice>,
    options: &Options,
) -> Result<Served> {
    let backend = Backend::new(Arc::clone(device), options);
    Ok(Served(Service::start(listener, Arc::new(backend))?))
}

impl Served {
    /// What ends it from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.0.stopper())
    }

    /// Waits until it has ended; all threads are gone then. What the guest has not flushed is not
    /// durable yet.
    ///
    /// # Errors
    /// When whoever connected speaks no vhost-user that we understand.
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
    /// Ends it. Requests that are being worked on are still answered.
    pub fn stop(&self) {
        self.0.stop();
    }
}
