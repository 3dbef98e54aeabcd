//! A stream of bytes to and from a program in a guest: a virtio console with one port, served by
//! vhost-user.
//!
//! In the guest it is `/dev/vportNp1`, where N counts its virtio devices; the port's name
//! (`/sys/class/virtio-ports/vportNp1/name`) is [`NAME`].
//!
//! Bytes go straight between whoever reads and writes here and the guest's memory, on his own thread. No
//! byte is lost: who writes waits for room that the guest gives.
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

/// What the port is called in the guest.
pub(crate) const NAME: &str = "diskfs.0";

/// A console that is served. Dropped, its streams end, and its socket and threads are gone.
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
    /// The two directions of the stream. Both wait until a program in the guest has opened the port; they
    /// end when it has closed it, or the guest is gone. There is one stream, so this is for one caller.
    pub(crate) fn stream(&self) -> (PortReader, PortWriter) {
        let port = || Arc::clone(&self.port);
        (PortReader::new(port()), PortWriter::new(port()))
    }
}
