//! The host's part of a mount whose server is confined: the broker does it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diskfs::export::fuse::{DirectHost, Host, MountId, MountPlace, Options};
use diskfs::{Error, ErrorKind, Result};
use diskfs_sandbox::{BrokerClient, OtherAnswer};
use serde::{Deserialize, Serialize};

/// A request to the broker. None has an argument: the broker knows the command line, and a server
/// that was taken over can mount nothing else.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum HostRequest {
    Mount,
    Detach,
    RaiseReadAhead,
    AnnounceMount,
    AnnounceImage,
    LeaveTerminal,
}

#[derive(Debug, Serialize, Deserialize)]
enum HostAnswer {
    Done,
    Mounted {
        path: Vec<u8>,
        /// The major and the minor number of the mount's device.
        id: (u32, u32),
    },
    Failed(Failure),
}

/// The parts of an error.
#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    kind: String,
    reason: String,
    hint: Option<String>,
    path: Option<Vec<u8>>,
}

/// The broker's end.
#[derive(Debug, Clone)]
pub(in crate::cli) struct HostServer {
    mountpoint: PathBuf,
    options: Options,
    place: Option<MountPlace>,
}

impl HostServer {
    /// Creates the end for a mount with these options at `mountpoint`.
    pub(super) fn new(mountpoint: &Path, options: Options) -> Self {
        Self {
            mountpoint: mountpoint.to_owned(),
            options,
            place: None,
        }
    }

    /// Answers a request; `None` if it is a request to somebody else.
    pub(in crate::cli) fn answer(&mut self, request: &[u8]) -> Option<OtherAnswer> {
        let request = serde_json::from_slice(request).ok()?;
        let (answer, descriptor) = self
            .handle(request)
            .unwrap_or_else(|error| (HostAnswer::Failed(Failure::of(&error)), None));
        Some(OtherAnswer {
            // An enum of numbers and texts can always be encoded.
            bytes: serde_json::to_vec(&answer).unwrap_or_default(),
            descriptor,
        })
    }

    fn handle(&mut self, request: HostRequest) -> Result<(HostAnswer, Option<OwnedFd>)> {
        if let HostRequest::Mount = request {
            return self.mount();
        }
        let none = || Error::new(ErrorKind::Invalid, "nothing is mounted");
        let place = self.place.as_ref().ok_or_else(none)?;
        let socket = match request {
            HostRequest::Mount => None,
            HostRequest::Detach => {
                DirectHost.detach(place)?;
                None
            }
            HostRequest::RaiseReadAhead => {
                DirectHost.raise_read_ahead(place.id);
                None
            }
            HostRequest::LeaveTerminal => {
                let null = File::options().write(true).open("/dev/null")?;
                rustix::stdio::dup2_stderr(&null).map_err(io::Error::from)?;
                let _ = rustix::process::setsid(); // It leads no group of processes.
                std::env::set_current_dir("/")?;
                None
            }
            HostRequest::AnnounceMount => DirectHost.announce_mount(place.id),
            HostRequest::AnnounceImage => DirectHost.announce_image(&self.options.source),
        };
        Ok((HostAnswer::Done, socket.map(Into::into)))
    }

    /// Mounts, once.
    fn mount(&mut self) -> Result<(HostAnswer, Option<OwnedFd>)> {
        if self.place.is_some() {
            return Err(Error::new(ErrorKind::Denied, "mounted already"));
        }
        let (device, place) = DirectHost.mount(&self.mountpoint, &self.options)?;
        let place = self.place.insert(place);
        let mounted = HostAnswer::Mounted {
            path: place.path.as_os_str().as_bytes().to_vec(),
            id: (place.id.major, place.id.minor),
        };
        Ok((mounted, Some(device)))
    }
}

/// The server's end.
#[derive(Debug)]
pub(super) struct BrokeredHost(pub(super) Arc<BrokerClient>);

impl BrokeredHost {
    fn ask(&self, request: HostRequest) -> Result<(HostAnswer, Option<OwnedFd>)> {
        let request = serde_json::to_vec(&request).map_err(io::Error::from)?;
        let answer = self.0.ask(&request)?;
        match serde_json::from_slice(&answer.bytes).map_err(io::Error::from)? {
            HostAnswer::Failed(failure) => Err(failure.into()),
            done => Ok((done, answer.descriptor)),
        }
    }

    /// Detaches the broker from the terminal, when the server goes into the background.
    pub(super) fn leave_terminal(&self) -> Result<()> {
        self.ask(HostRequest::LeaveTerminal).map(drop)
    }

    fn socket(&self, request: HostRequest) -> Option<UnixListener> {
        let (_, socket) = self.ask(request).ok()?;
        socket.map(Into::into)
    }
}

impl Host for BrokeredHost {
    fn mount(&self, _: &Path, _: &Options) -> Result<(OwnedFd, MountPlace)> {
        let (
            HostAnswer::Mounted {
                path,
                id: (major, minor),
            },
            Some(device),
        ) = self.ask(HostRequest::Mount)?
        else {
            return Err(Error::new(ErrorKind::Other, "the broker sent no mount"));
        };
        let path = OsString::from_vec(path).into();
        let id = MountId { major, minor };
        Ok((device, MountPlace { path, id }))
    }

    fn detach(&self, _: &MountPlace) -> Result<()> {
        self.ask(HostRequest::Detach).map(drop)
    }

    fn raise_read_ahead(&self, _: MountId) {
        // A failure only costs speed.
        let _ = self.ask(HostRequest::RaiseReadAhead);
    }

    fn announce_mount(&self, _: MountId) -> Option<UnixListener> {
        self.socket(HostRequest::AnnounceMount)
    }

    fn announce_image(&self, _: &Path) -> Option<UnixListener> {
        self.socket(HostRequest::AnnounceImage)
    }
}

impl Failure {
    fn of(error: &Error) -> Self {
        Self {
            kind: error.kind().name().to_owned(),
            reason: error.reason(),
            hint: error.next_step().map(Into::into),
            path: error
                .path()
                .map(|path| path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let kind = ErrorKind::named(&failure.kind).unwrap_or(ErrorKind::Other);
        let mut error = Self::new(kind, failure.reason);
        if let Some(path) = failure.path {
            error = error.in_file(Path::new(OsStr::from_bytes(&path)));
        }
        match failure.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}
