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
use diskfs_oci::RegistryName;
use diskfs_sandbox::OtherAnswer;
use serde::{Deserialize, Serialize};

use super::direct::DirectImages;
#[cfg(feature = "objects")]
use super::registry::{ConnectPart, PartServers};
use super::shown;
#[cfg(feature = "objects")]
use super::uploads::{PushRequest, Uploads};
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

/// A request of the command: its fields tell which.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Request {
    Image(ConnectRemote),
    #[cfg(feature = "objects")]
    Part(ConnectPart),
    #[cfg(feature = "objects")]
    Push(PushRequest),
}

/// The answer to a request, whose socket comes with it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Connected {
    /// A TCP connection.
    Tcp,
    /// A connection of a Unix socket.
    Unix {
        /// The version of the image, if its server names one.
        version: Option<String>,
    },
    Failed(Failure),
}

/// An image that the broker has opened.
struct ServedImage {
    server: Server,
    version: Option<String>,
}

/// Connects a confined command to the images of its command line.
pub(crate) struct RemoteServer {
    granted: Vec<String>,
    may_write: bool,
    /// The image of a registry to which the command uploads.
    #[cfg(feature = "objects")]
    push: Option<String>,
    /// The images that the broker has opened itself.
    served: HashMap<(String, bool), ServedImage>,
    #[cfg(feature = "objects")]
    parts: PartServers,
    #[cfg(feature = "objects")]
    uploads: Uploads,
}

impl RemoteServer {
    /// Creates the end for the images of these URIs.
    pub(crate) fn new(granted: Vec<String>, may_write: bool) -> Self {
        Self {
            granted,
            may_write,
            #[cfg(feature = "objects")]
            push: None,
            served: HashMap::new(),
            #[cfg(feature = "objects")]
            parts: PartServers::default(),
            #[cfg(feature = "objects")]
            uploads: Uploads::default(),
        }
    }

    /// Allows uploads to the image of a registry.
    #[cfg(feature = "objects")]
    pub(crate) fn allow_push(&mut self, uri: Option<&str>) {
        self.push = uri.map(Into::into);
    }

    /// Answers a request; `None` if it is a request to somebody else.
    pub(crate) fn answer(&mut self, request: &[u8]) -> Option<OtherAnswer> {
        let request: Request = serde_json::from_slice(request).ok()?;
        let (answer, descriptor) = match self.answer_to(request) {
            Ok((answer, socket)) => (answer, Some(socket)),
            Err(error) => (Connected::Failed(Failure::of(&error)), None),
        };
        Some(OtherAnswer {
            // An enum of numbers and texts can always be encoded.
            bytes: serde_json::to_vec(&answer).unwrap_or_default(),
            descriptor,
        })
    }

    fn answer_to(&mut self, request: Request) -> Result<(Connected, OwnedFd)> {
        match request {
            Request::Image(request) => self.connect(request),
            #[cfg(feature = "objects")]
            Request::Part(ConnectPart { registry_uri, part }) => {
                if !self.granted.contains(&registry_uri) {
                    return Err(refused(&registry_uri));
                }
                let socket = self.parts.connect(&registry_uri, &part)?;
                Ok((unix(None), socket))
            }
            #[cfg(feature = "objects")]
            Request::Push(request) => {
                if self.push.as_ref() != Some(&request.push_uri) {
                    return Err(refused(&request.push_uri));
                }
                Ok((unix(None), self.uploads.begin(request)?))
            }
        }
    }

    fn connect(&mut self, request: ConnectRemote) -> Result<(Connected, OwnedFd)> {
        let ConnectRemote {
            remote_uri,
            is_written,
        } = request;
        // The broker does not read OCI images: the command does, in parts.
        let is_granted = self.granted.contains(&remote_uri) && !RegistryName::is_uri(&remote_uri);
        if !is_granted || is_written && !self.may_write {
            return Err(refused(&remote_uri));
        }
        if let Some(uri) = unencrypted(&remote_uri)? {
            return Ok(match uri.dial(CONNECT_TIMEOUT)? {
                Connection::Tcp(socket) => (Connected::Tcp, socket.into()),
                Connection::Unix(socket) => (unix(None), socket.into()),
            });
        }
        let (ours, theirs) = UnixStream::pair()?;
        let served = self.served_image((remote_uri, is_written))?;
        served.server.serve(ours)?;
        Ok((unix(served.version.clone()), theirs.into()))
    }

    /// Returns an image that the broker opens itself, with its server.
    fn served_image(&mut self, image: (String, bool)) -> Result<&ServedImage> {
        let entry = match self.served.entry(image) {
            Entry::Occupied(entry) => return Ok(entry.into_mut()),
            Entry::Vacant(entry) => entry,
        };
        let (uri, is_written) = entry.key();
        let (export, version) = if *is_written {
            (Export::writable("", DirectImages.open_writable(uri)?), None)
        } else {
            let image = DirectImages.open(uri)?;
            (Export::read_only("", image.device), image.version)
        };
        let server = Server::start(vec![export], Options::default())?;
        Ok(entry.insert(ServedImage { server, version }))
    }
}

const fn unix(version: Option<String>) -> Connected {
    Connected::Unix { version }
}

/// Returns the error for an image that the command line does not name.
fn refused(uri: &str) -> Error {
    let reason = "the image was not granted to this command";
    Error::new(ErrorKind::Denied, reason).in_file(shown(uri))
}

/// Returns the URI of an export to which the broker only connects: one of NBD without TLS.
pub(super) fn unencrypted(uri: &str) -> block::Result<Option<Uri>> {
    if !Uri::is_uri(uri) {
        return Ok(None);
    }
    let uri: Uri = uri.parse()?;
    Ok((!uri.is_encrypted).then_some(uri))
}
