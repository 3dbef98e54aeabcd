//! How others learn when the server of a mount is gone, and with it its lock on the image.
//!
//! The server listens at an abstract socket that is named after the mount's device number. Nobody
//! ever accepts: whoever connects gets the end of the stream when the server's process ends, in
//! whatever way it does. Nothing is left behind, and nothing depends on it but waiting.

use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use super::mount_table::MountId;

/// The server's end.
#[derive(Debug)]
pub(super) struct Presence(#[expect(dead_code, reason = "held open")] UnixListener);

/// How many milliseconds a new server waits for the name of one that is ending. Without it, an
/// unmount only can't wait for the server.
const PATIENCE: u32 = 100;

fn address(id: MountId) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("diskfs/mount/{id}"))
}

impl Presence {
    pub(super) fn announce(id: MountId) -> Option<Self> {
        let address = address(id).ok()?;
        // The kernel gives a device number away at once; whoever had it may still be ending.
        for _ in 0..PATIENCE {
            match UnixListener::bind_addr(&address) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                bound => return bound.ok().map(Self),
            }
        }
        None
    }
}

/// Somebody who waits for a server's end.
#[derive(Debug)]
pub(super) struct Watch(UnixStream);

impl Watch {
    /// Begins to watch. `None` when no server is there, or in another network namespace.
    pub(super) fn begin(id: MountId) -> Option<Self> {
        let stream = address(id).and_then(|address| UnixStream::connect_addr(&address));
        stream.ok().map(Self)
    }

    /// Waits until the server has ended. Returns whether it has.
    pub(super) fn wait(mut self, timeout: Duration) -> bool {
        if self.0.set_read_timeout(Some(timeout)).is_err() {
            return false;
        }
        // The end of the stream or a reset: both mean that nobody is there any more.
        match self.0.read_exact(&mut [0]) {
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            Ok(()) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_noticed() {
        // No real device has this number.
        let id = MountId {
            major: u32::MAX,
            minor: std::process::id(),
        };
        assert!(Watch::begin(id).is_none());
        let presence = Presence::announce(id).unwrap();
        let early = Watch::begin(id).unwrap();
        assert!(!early.wait(Duration::from_millis(10)));
        let watch = Watch::begin(id).unwrap();
        drop(presence);
        assert!(watch.wait(Duration::from_secs(10)));
    }
}
