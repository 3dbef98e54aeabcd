//! Notification of other processes when the server of a mount ends and releases its lock on the
//! image.
//!
//! The server listens at two abstract sockets: one is named after the mount's device number, one
//! after the image's file. It never accepts: a process that connects sees the end of the stream
//! when the server process ends, in whatever way. The exception is a server that ends without
//! having made everything durable: it accepts, to report that. The sockets leave nothing behind,
//! and only waiting depends on them.

use std::fs;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use super::host::Host;
use super::mount_table::MountId;

/// The server's listening sockets.
#[derive(Debug)]
pub(super) struct ServerSockets(Vec<UnixListener>);

/// The number of milliseconds for which a new server waits for a socket name that an ending server
/// still has. Without the name, an unmount can't wait for the server.
const NAME_TIMEOUT_MS: u32 = 100;

/// The number of servers of one image that can be waited for: any number may read it.
const SERVERS_MAX: u32 = 64;

/// The maximum length of a server's final message.
const FAILURE_BYTES_MAX: u64 = 4096;

fn mount_address(id: MountId) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("diskfs/mount/{id}"))
}

/// Returns the socket names for an image. They depend on the file, not on the path that leads to
/// it.
fn image_addresses(image: &Path) -> Vec<SocketAddr> {
    let Ok(file) = fs::metadata(image) else {
        return Vec::new();
    };
    let name = |n| format!("diskfs/image/{}:{}/{n}", file.dev(), file.ino());
    (0..SERVERS_MAX)
        .filter_map(|n| SocketAddr::from_abstract_name(name(n)).ok())
        .collect()
}

impl ServerSockets {
    pub(super) fn announce(host: &dyn Host, id: MountId, image: &Path) -> Self {
        let by_mount = host.announce_mount(id);
        Self(
            by_mount
                .into_iter()
                .chain(host.announce_image(image))
                .collect(),
        )
    }

    /// Sends a failure message to all processes that wait for the end.
    pub(super) fn report_failure(&self, message: &str) {
        for listener in &self.0 {
            let _ = listener.set_nonblocking(true);
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.write_all(message.as_bytes());
            }
        }
    }
}

/// Listens under the name of an image.
pub(super) fn announce_image(image: &Path) -> Option<UnixListener> {
    let addresses = image_addresses(image);
    let mut addresses = addresses.iter();
    addresses.find_map(|address| UnixListener::bind_addr(address).ok())
}

/// Listens under the name of a mount.
pub(super) fn announce_mount(id: MountId) -> Option<UnixListener> {
    let address = mount_address(id).ok()?;
    // The kernel reuses a device number at once; the server that had it may still be ending.
    for _ in 0..NAME_TIMEOUT_MS {
        match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                std::thread::sleep(Duration::from_millis(1));
            }
            bound => return bound.ok(),
        }
    }
    None
}

/// A connection to a server whose end is awaited.
#[derive(Debug)]
pub(super) struct Watch(UnixStream);

/// The result of waiting for a server's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// The server has ended.
    Yes,
    /// The server has ended, and some of the written data is not durable: the reason.
    Failed(String),
    /// The server has not ended yet.
    No,
}

impl Watch {
    /// Connects to a server. Returns `None` if no server listens, or if it is in another network
    /// namespace.
    pub(super) fn begin(id: MountId) -> Option<Self> {
        Self::at(&mount_address(id).ok()?)
    }

    /// Connects to all servers of an image.
    pub(super) fn begin_image(image: &Path) -> Vec<Self> {
        image_addresses(image).iter().filter_map(Self::at).collect()
    }

    fn at(address: &SocketAddr) -> Option<Self> {
        UnixStream::connect_addr(address).ok().map(Self)
    }

    /// Waits until the server has ended; a timeout of `None` means without limit.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> Ended {
        if self.0.set_read_timeout(timeout).is_err() {
            return Ended::No;
        }
        let mut message = String::new();
        // The end of the stream or a reset: both mean that the server has ended.
        match (&self.0)
            .take(FAILURE_BYTES_MAX)
            .read_to_string(&mut message)
        {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ended::No,
            _ if message.is_empty() => Ended::Yes,
            _ => Ended::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::DirectHost;
    use super::*;

    #[test]
    fn the_end_is_noticed() {
        // No real device has this number.
        let id = MountId {
            major: u32::MAX,
            minor: std::process::id(),
        };
        let image = tempfile::NamedTempFile::new().unwrap();
        assert!(Watch::begin(id).is_none() && Watch::begin_image(image.path()).is_empty());
        let sockets = ServerSockets::announce(&DirectHost, id, image.path());
        let mut early = Watch::begin(id).unwrap();
        assert_eq!(early.wait(Some(Duration::from_millis(10))), Ended::No);
        let mut watch = Watch::begin(id).unwrap();
        let mut by_image = Watch::begin_image(image.path());
        assert_eq!(by_image.len(), 1);
        drop(sockets);
        assert_eq!(watch.wait(Some(Duration::from_secs(10))), Ended::Yes);
        assert_eq!(by_image.remove(0).wait(None), Ended::Yes);
    }

    #[test]
    fn a_bad_end_is_told_to_all_who_wait() {
        let id = MountId {
            major: u32::MAX - 1,
            minor: std::process::id(),
        };
        let image = tempfile::NamedTempFile::new().unwrap();
        let sockets = ServerSockets::announce(&DirectHost, id, image.path());
        let second = ServerSockets::announce(&DirectHost, id, image.path());
        let mut watch = Watch::begin(id).unwrap();
        let by_image = Watch::begin_image(image.path());
        assert_eq!(by_image.len(), 2, "both servers of the image are found");
        sockets.report_failure("disk full");
        drop((sockets, second));
        let failed = Ended::Failed("disk full".to_owned());
        assert_eq!(watch.wait(None), failed);
        let ends: Vec<Ended> = by_image.into_iter().map(|mut w| w.wait(None)).collect();
        assert_eq!(ends, [failed, Ended::Yes]);
    }
}
