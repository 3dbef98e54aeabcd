//! How others learn when the server of a mount is gone, and with it its lock on the image.
//!
//! The server listens at two abstract sockets: one is named after the mount's device number, one
//! after the image's file. Nobody accepts: whoever connects gets the end of the stream when the
//! server's process ends, in whatever way it does. Only a server that ends without having made
//! everything durable accepts first, to say so. Nothing is left behind, and nothing depends on it
//! but waiting.

use std::fs;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use super::mount_table::MountId;

/// The server's end.
#[derive(Debug)]
pub(super) struct Presence(Vec<UnixListener>);

/// How many milliseconds a new server waits for the name of one that is ending. Without it, an
/// unmount only can't wait for the server.
const PATIENCE: u32 = 100;

/// How many servers of one image can be waited for: any number may read it.
const SERVERS: u32 = 64;

/// The most that a server says when it ends.
const LAST_WORDS_BYTES: u64 = 4096;

fn mount_address(id: MountId) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("diskfs/mount/{id}"))
}

/// The names for an image: by its file, whatever path leads there.
fn image_addresses(image: &Path) -> Vec<SocketAddr> {
    let Ok(file) = fs::metadata(image) else {
        return Vec::new();
    };
    let name = |n| format!("diskfs/image/{}:{}/{n}", file.dev(), file.ino());
    (0..SERVERS)
        .filter_map(|n| SocketAddr::from_abstract_name(name(n)).ok())
        .collect()
}

impl Presence {
    pub(super) fn announce(id: MountId, image: &Path) -> Self {
        let by_image = image_addresses(image)
            .iter()
            .find_map(|address| UnixListener::bind_addr(address).ok());
        Self(announce_mount(id).into_iter().chain(by_image).collect())
    }

    /// Tells all who wait that the end is not a good one.
    pub(super) fn last_words(&self, words: &str) {
        for listener in &self.0 {
            let _ = listener.set_nonblocking(true);
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.write_all(words.as_bytes());
            }
        }
    }
}

fn announce_mount(id: MountId) -> Option<UnixListener> {
    let address = mount_address(id).ok()?;
    // The kernel gives a device number away at once; whoever had it may still be ending.
    for _ in 0..PATIENCE {
        match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                std::thread::sleep(Duration::from_millis(1));
            }
            bound => return bound.ok(),
        }
    }
    None
}

/// Somebody who waits for a server's end.
#[derive(Debug)]
pub(super) struct Watch(UnixStream);

/// What came of waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// The server has ended.
    Yes,
    /// It has, and what was written is not durable: its reason.
    Badly(String),
    /// Not yet.
    No,
}

impl Watch {
    /// Begins to watch. `None` when no server is there, or in another network namespace.
    pub(super) fn begin(id: MountId) -> Option<Self> {
        Self::at(&mount_address(id).ok()?)
    }

    /// Begins to watch all servers of an image.
    pub(super) fn begin_image(image: &Path) -> Vec<Self> {
        image_addresses(image).iter().filter_map(Self::at).collect()
    }

    fn at(address: &SocketAddr) -> Option<Self> {
        UnixStream::connect_addr(address).ok().map(Self)
    }

    /// Waits until the server has ended; `None` for as long as it takes.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> Ended {
        if self.0.set_read_timeout(timeout).is_err() {
            return Ended::No;
        }
        let mut words = String::new();
        // The end of the stream or a reset: both mean that nobody is there any more.
        match (&self.0).take(LAST_WORDS_BYTES).read_to_string(&mut words) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ended::No,
            _ if words.is_empty() => Ended::Yes,
            _ => Ended::Badly(words),
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
        let image = tempfile::NamedTempFile::new().unwrap();
        assert!(Watch::begin(id).is_none() && Watch::begin_image(image.path()).is_empty());
        let presence = Presence::announce(id, image.path());
        let mut early = Watch::begin(id).unwrap();
        assert_eq!(early.wait(Some(Duration::from_millis(10))), Ended::No);
        let mut watch = Watch::begin(id).unwrap();
        let mut by_image = Watch::begin_image(image.path());
        assert_eq!(by_image.len(), 1);
        drop(presence);
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
        let presence = Presence::announce(id, image.path());
        let second = Presence::announce(id, image.path());
        let mut watch = Watch::begin(id).unwrap();
        let by_image = Watch::begin_image(image.path());
        assert_eq!(by_image.len(), 2, "both serve the image");
        presence.last_words("disk full");
        drop((presence, second));
        let badly = Ended::Badly("disk full".to_owned());
        assert_eq!(watch.wait(None), badly);
        let ends: Vec<Ended> = by_image.into_iter().map(|mut w| w.wait(None)).collect();
        assert_eq!(ends, [badly, Ended::Yes]);
    }
}
