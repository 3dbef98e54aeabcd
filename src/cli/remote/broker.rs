//! The broker's end of images on other machines.
//!
//! The confined command speaks NBD in any case. For an export without TLS, the broker only
//! connects, so that the command, and not the broker, reads what the server sends. All other images
//! are opened by the broker, and served by NBD over a pair of sockets: keys and passwords stay in the
//! broker.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use diskfs::nbd::Connection;
use diskfs::nbd::client::Uri;
use diskfs::nbd::server::{Export, Options, Server};
use diskfs::{Error, ErrorKind, RemoteImages, Result, block};
use diskfs_sandbox::OtherAnswer;
use serde::{Deserialize, Serialize};

use super::direct::DirectImages;
use crate::cli::failure::Failure;

/// The time that a server has to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request for a connection. The broker compares the URI with those of the command line, so a
/// process that was taken over cannot reach other places.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ConnectRemote {
    /// The URI of the image.
    pub(super) remote_uri: String,
    /// True if the command will write to the image.
    pub(super) is_written: bool,
}

/// The answer to a request, whose socket comes with it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Connected {
    /// A TCP connection.
    Tcp,
    /// A connection of a Unix socket.
    Unix,
    Failed(Failure),
}

/// Connects a confined command to the images of its command line.
pub(crate) struct RemoteServer {
    granted: Vec<String>,
    may_write: bool,
    /// The images that the broker has opened itself.
    served: HashMap<(String, bool), Server>,
}

impl RemoteServer {
    /// Creates the end for the images of these URIs.
    pub(crate) fn new(granted: Vec<String>, may_write: bool) -> Self {
        Self {
            granted,
            may_write,
            served: HashMap::new(),
        }
    }

    /// Answers a request; `None` if it is a request to somebody else.
    pub(crate) fn answer(&mut self, request: &[u8]) -> Option<OtherAnswer> {
        let request: ConnectRemote = serde_json::from_slice(request).ok()?;
        let (answer, descriptor) = match self.connect(request) {
            Ok((answer, socket)) => (answer, Some(socket)),
            Err(error) => (Connected::Failed(Failure::of(&error)), None),
        };
        Some(OtherAnswer {
            // An enum of numbers and texts can always be encoded.
            bytes: serde_json::to_vec(&answer).unwrap_or_default(),
            descriptor,
        })
    }

    fn connect(&mut self, request: ConnectRemote) -> Result<(Connected, OwnedFd)> {
        let ConnectRemote {
            remote_uri,
            is_written,
        } = request;
        if !self.granted.contains(&remote_uri) || is_written && !self.may_write {
            let reason = "the image was not granted to this command";
            return Err(Error::new(ErrorKind::Denied, reason).in_file(remote_uri));
        }
        if let Some(uri) = unencrypted(&remote_uri)? {
            return Ok(match uri.dial(CONNECT_TIMEOUT)? {
                Connection::Tcp(socket) => (Connected::Tcp, socket.into()),
                Connection::Unix(socket) => (Connected::Unix, socket.into()),
            });
        }
        let (ours, theirs) = UnixStream::pair()?;
        self.server_of((remote_uri, is_written))?.serve(ours)?;
        Ok((Connected::Unix, theirs.into()))
    }

    /// Returns the server of an image that the broker opens itself.
    fn server_of(&mut self, image: (String, bool)) -> Result<&Server> {
        let entry = match self.served.entry(image) {
            Entry::Occupied(entry) => return Ok(entry.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let (uri, is_written) = entry.key();
        let export = if *is_written {
            Export::writable("", DirectImages.open_writable(uri)?)
        } else {
            Export::read_only("", DirectImages.open(uri)?)
        };
        Ok(entry.insert(Server::start(vec![export], Options::default())?))
    }
}

/// Returns the URI of an export to which the broker only connects: one of NBD without TLS.
pub(super) fn unencrypted(uri: &str) -> block::Result<Option<Uri>> {
    if !Uri::is_uri(uri) {
        return Ok(None);
    }
    let uri: Uri = uri.parse()?;
    Ok((!uri.is_encrypted).then_some(uri))
}
