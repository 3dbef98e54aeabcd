//! The host's part of a mount whose server is confined: the broker does it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use diskfs::export::fuse::{
    DirectHost, Direction, Host, MountId, MountPlace, Options, RequestRings,
};
use diskfs::{Error, ErrorKind, OverlaidImage, Result, create_overlay};
use diskfs_sandbox::{BrokerClient, OtherAnswer};
use serde::{Deserialize, Serialize};

use crate::cli::failure::Failure;
use crate::cli::logging::background;
use crate::cli::target::remove_new_overlay;

/// A request to the broker. None names a file: the broker knows the command line, and a server that
/// was taken over can mount nothing else.
#[derive(Debug, Serialize, Deserialize)]
enum HostRequest {
    /// Create the overlay, which must be missing. The image has these properties.
    CreateOverlay {
        format: String,
        size_bytes: u64,
        file_size_bytes: u64,
        version: Option<String>,
    },
    /// Remove the overlay, if it was created for this mount.
    RemoveOverlay,
    Mount,
    Unmount,
    OpenRoot,
    Detach,
    RaiseReadAhead,
    AnnounceMount,
    AnnounceImage,
    LeaveTerminal,
    IsInGroup {
        pid: u32,
        gid: u32,
    },
    IsBeingKilled {
        thread: u32,
    },
}

#[derive(Debug, Serialize, Deserialize)]
enum HostAnswer {
    Done,
    /// `None` if it can't be found out.
    Is(Option<bool>),
    Mounted {
        path: Vec<u8>,
        /// The major and the minor number of the mount's device.
        id: (u32, u32),
    },
    Failed(Failure),
}

/// The overlay of an image.
#[derive(Debug, Clone)]
struct OverlayOf {
    path: PathBuf,
    image: PathBuf,
    /// True if it was created for this mount.
    is_new: bool,
}

/// The broker's end.
#[derive(Debug, Clone)]
pub(in crate::cli) struct HostServer {
    mountpoint: PathBuf,
    direction: Direction,
    options: Options,
    overlay: Option<OverlayOf>,
    place: Option<MountPlace>,
}

impl HostServer {
    /// Creates the end for a mount with these options at `mountpoint`.
    pub(super) fn new(mountpoint: &Path, direction: Direction, options: Options) -> Self {
        Self {
            mountpoint: mountpoint.to_owned(),
            direction,
            options,
            overlay: None,
            place: None,
        }
    }

    /// Sets the overlay that stores the changes of `image`.
    pub(super) fn overlay(self, overlay: &Path, image: &Path) -> Self {
        Self {
            overlay: Some(OverlayOf {
                path: overlay.to_owned(),
                image: image.to_owned(),
                is_new: false,
            }),
            ..self
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
        let mut descriptor = None;
        match request {
            HostRequest::Mount => return self.mount(),
            HostRequest::CreateOverlay {
                format,
                size_bytes,
                file_size_bytes,
                version,
            } => self.create_overlay(&OverlaidImage {
                format: format.parse()?,
                size_bytes,
                file_size_bytes,
                version,
            })?,
            HostRequest::RemoveOverlay => self.remove_overlay(),
            HostRequest::Unmount => DirectHost.unmount(self.place()?)?,
            HostRequest::OpenRoot => descriptor = Some(DirectHost.open_root(self.place()?)?),
            HostRequest::Detach => DirectHost.detach(self.place()?)?,
            HostRequest::RaiseReadAhead => DirectHost.raise_read_ahead(self.place()?.id),
            HostRequest::LeaveTerminal => leave_terminal()?,
            HostRequest::AnnounceMount => {
                descriptor = DirectHost.announce_mount(self.place()?.id).map(Into::into);
            }
            HostRequest::AnnounceImage => {
                descriptor = DirectHost
                    .announce_image(&self.options.source)
                    .map(Into::into);
            }
            HostRequest::IsInGroup { pid, gid } => {
                let is_member = DirectHost.is_in_group(pid, gid);
                return Ok((HostAnswer::Is(Some(is_member)), None));
            }
            HostRequest::IsBeingKilled { thread } => {
                return Ok((HostAnswer::Is(DirectHost.is_being_killed(thread)), None));
            }
        }
        Ok((HostAnswer::Done, descriptor))
    }

    fn place(&self) -> Result<&MountPlace> {
        let none = || Error::new(ErrorKind::Invalid, "nothing is mounted");
        self.place.as_ref().ok_or_else(none)
    }

    /// Creates the overlay. The image is not opened: what the server says about it is written into
    /// a file that the server may change anyway.
    fn create_overlay(&mut self, image: &OverlaidImage) -> Result<()> {
        let none = || Error::new(ErrorKind::Denied, "the mount has no overlay");
        let overlay = self.overlay.as_mut().ok_or_else(none)?;
        create_overlay(&overlay.path, &overlay.image, image)?;
        overlay.is_new = true;
        Ok(())
    }

    fn remove_overlay(&mut self) {
        let overlay = self.overlay.take_if(|overlay| overlay.is_new);
        remove_new_overlay(overlay.as_ref().map(|overlay| &*overlay.path));
    }

    /// Mounts, once.
    fn mount(&mut self) -> Result<(HostAnswer, Option<OwnedFd>)> {
        if self.place.is_some() {
            return Err(Error::new(ErrorKind::Denied, "mounted already"));
        }
        let (device, place) = DirectHost.mount(&self.mountpoint, self.direction, &self.options)?;
        let place = self.place.insert(place);
        let mounted = HostAnswer::Mounted {
            path: place.path.as_os_str().as_bytes().to_vec(),
            id: (place.id.major, place.id.minor),
        };
        Ok((mounted, Some(device)))
    }
}

/// Detaches this process from the terminal.
fn leave_terminal() -> Result<()> {
    background::leave_terminal()?;
    let _ = rustix::process::setsid(); // It leads no group of processes.
    Ok(std::env::set_current_dir("/")?)
}

/// The server's end.
#[derive(Debug)]
pub(super) struct BrokeredHost {
    broker: Arc<BrokerClient>,
    /// Made before this process was confined.
    rings: Mutex<Option<RequestRings>>,
}

impl BrokeredHost {
    pub(super) fn new(broker: Arc<BrokerClient>) -> Self {
        Self {
            broker,
            rings: Mutex::default(),
        }
    }

    /// Sets the rings of the mount.
    pub(super) fn with_rings(self, rings: Option<RequestRings>) -> Self {
        Self {
            rings: Mutex::new(rings),
            ..self
        }
    }

    fn ask(&self, request: &HostRequest) -> Result<(HostAnswer, Option<OwnedFd>)> {
        let request = serde_json::to_vec(request).map_err(io::Error::from)?;
        let answer = self.broker.ask(&request)?;
        match serde_json::from_slice(&answer.bytes).map_err(io::Error::from)? {
            HostAnswer::Failed(failure) => Err(failure.into()),
            done => Ok((done, answer.descriptor)),
        }
    }

    /// Detaches the broker from the terminal, when the server goes into the background.
    pub(super) fn leave_terminal(&self) -> Result<()> {
        self.ask(&HostRequest::LeaveTerminal).map(drop)
    }

    /// Creates the overlay of an image.
    pub(super) fn create_overlay(&self, image: OverlaidImage) -> Result<()> {
        let request = HostRequest::CreateOverlay {
            format: image.format.name().to_owned(),
            size_bytes: image.size_bytes,
            file_size_bytes: image.file_size_bytes,
            version: image.version,
        };
        self.ask(&request).map(drop)
    }

    /// Removes the overlay, if it was created for this mount.
    pub(super) fn remove_overlay(&self) {
        // What fails in the broker has failed before, and was reported.
        let _ = self.ask(&HostRequest::RemoveOverlay);
    }

    fn socket(&self, request: &HostRequest) -> Option<UnixListener> {
        let (_, socket) = self.ask(request).ok()?;
        socket.map(Into::into)
    }
}

impl Host for BrokeredHost {
    fn mount(&self, _: &Path, _: Direction, _: &Options) -> Result<(OwnedFd, MountPlace)> {
        let (
            HostAnswer::Mounted {
                path,
                id: (major, minor),
            },
            Some(device),
        ) = self.ask(&HostRequest::Mount)?
        else {
            return Err(Error::new(ErrorKind::Other, "the broker sent no mount"));
        };
        let path = OsString::from_vec(path).into();
        let id = MountId { major, minor };
        Ok((device, MountPlace { path, id }))
    }

    fn unmount(&self, _: &MountPlace) -> Result<()> {
        self.ask(&HostRequest::Unmount).map(drop)
    }

    fn open_root(&self, _: &MountPlace) -> Result<OwnedFd> {
        let (_, root) = self.ask(&HostRequest::OpenRoot)?;
        root.ok_or_else(|| Error::new(ErrorKind::Other, "the broker sent no directory"))
    }

    fn detach(&self, _: &MountPlace) -> Result<()> {
        self.ask(&HostRequest::Detach).map(drop)
    }

    fn raise_read_ahead(&self, _: MountId) {
        // A failure only costs speed.
        let _ = self.ask(&HostRequest::RaiseReadAhead);
    }

    fn announce_mount(&self, _: MountId) -> Option<UnixListener> {
        self.socket(&HostRequest::AnnounceMount)
    }

    fn announce_image(&self, _: &Path) -> Option<UnixListener> {
        self.socket(&HostRequest::AnnounceImage)
    }

    fn is_in_group(&self, pid: u32, gid: u32) -> bool {
        let answer = self.ask(&HostRequest::IsInGroup { pid, gid });
        matches!(answer, Ok((HostAnswer::Is(Some(true)), _)))
    }

    fn is_being_killed(&self, thread: u32) -> Option<bool> {
        match self.ask(&HostRequest::IsBeingKilled { thread }).ok()? {
            (HostAnswer::Is(answer), _) => answer,
            _ => None,
        }
    }

    fn request_rings(&self, _: &Options) -> Option<RequestRings> {
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.take()
    }
}
