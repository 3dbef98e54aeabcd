//! The console: a stream of bytes to and from a program in a guest. It is a virtio console with one
//! port, served by vhost-user.
//!
//! In the guest the port is `/dev/vportNp1`, where N counts the virtio devices; its name
//! (`/sys/class/virtio-ports/vportNp1/name`) is [`NAME`].
//!
//! Readers and writers copy directly between their buffers and the guest's memory, on their own
//! threads. No byte is lost: a writer waits until the guest provides buffers.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use std::os::unix::net::UnixListener;
use std::sync::Arc;

use diskfs_disk::Result;
use diskfs_export::vhost_user::device::Service;

mod control;
mod device;
mod port;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use device::Device;
use port::Port;
pub(crate) use reader::PortReader;
pub(crate) use writer::PortWriter;

/// The name of the port in the guest.
pub(crate) const NAME: &str = "diskfs.0";

/// A console that is being served. Dropping it ends its streams, its socket and its threads.
#[derive(Debug)]
pub(crate) struct Console {
    _service: Service,
    port: Arc<Port>,
}

/// Serves a console to the first front end that connects.
pub(crate) fn serve(listener: UnixListener) -> Result<Console> {
    let port = Arc::new(Port::default());
    let device = Arc::new(Device::new(Arc::clone(&port)));
    let service = Service::start(listener, device)?;
    Ok(Console {
        _service: service,
        port,
    })
}

impl Console {
    /// Returns the two directions of the stream. Reads and writes wait until a program in the guest
    /// has opened the port; they end when it has closed the port or the guest has ended. There is
    /// one stream, so only one caller may use this.
    pub(crate) fn stream(&self) -> (PortReader, PortWriter) {
        let port = || Arc::clone(&self.port);
        (PortReader::new(port()), PortWriter::new(port()))
    }

    /// Returns a function that ends the stream in both directions: for a guest that has ended
    /// before it has connected.
    pub(crate) fn closer(&self) -> impl FnOnce() + Send + 'static {
        let port = Arc::clone(&self.port);
        move || port.close()
    }
}
