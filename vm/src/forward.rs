//! Machines of another process: for a process that is confined and can start none.
//!
//! The confined process has the images. It serves the volume as a device over one stream, and the
//! other process, which was there before the confinement, serves the filesystem over a second one.
//! Both are created by that other process, which trusts nothing that it is asked for: it offers
//! nothing but filesystems of the device that it is given, and programs for it.

mod device;
mod read_ahead;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diskfs_block::{BlockRead, BlockWrite};
use diskfs_disk::{DiskId, Error, ErrorKind, Fallback, FallbackRequest, Result};
use diskfs_remote::client::{Client, MountRequest, Remote};
use diskfs_remote::server::{self, Machine, Served};
use diskfs_vfs::{Driver, FsRead, FsWrite, MountTree};
use serde::{Deserialize, Serialize};

use super::tools::{FilesystemTools, Work};
use device::{Device, StreamDevice};

/// The time for the handshake with the other process, which only starts a thread for it.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// The largest number of devices that one process has at the same time. Each has its own threads.
const DEVICES_MAX: usize = 256;

/// A request to the other process.
#[derive(Debug, Serialize, Deserialize)]
enum ForwardRequest {
    /// Create the stream for a device. It follows the devices so far, or replaces them.
    Device { size_bytes: u64, follows: bool },
    /// Open the filesystem of the devices so far.
    Open {
        volume: String,
        kind: String,
        disk: usize,
        volumes_of_disk: usize,
        writes: bool,
    },
    /// Check that programs for filesystems are there and may run.
    CheckTools,
    /// Run a program on the last device.
    Work { kind: String, work: Work },
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
enum ForwardAnswer {
    /// A stream comes with it.
    Stream,
    Done,
    Failed {
        kind: String,
        reason: String,
        hint: Option<String>,
    },
}

/// Sends a request to the other process and returns its answer.
type Ask = dyn Fn(&[u8]) -> io::Result<(Vec<u8>, Option<OwnedFd>)> + Send + Sync;

/// A [`Fallback`] and [programs](FilesystemTools) that another process provides.
pub struct Forwarded {
    /// A fallback in this process, which knows what the other one supports but can open nothing.
    local: Arc<dyn Fallback>,
    ask: Box<Ask>,
    /// The disks so far; locked from the first request for a filesystem to the last one.
    disks: Mutex<Vec<DiskId>>,
}

impl fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarded").finish_non_exhaustive()
    }
}

impl Forwarded {
    /// Creates one that sends its requests by `ask`, to a [`ForwardServer`].
    pub fn new(
        local: Arc<dyn Fallback>,
        ask: impl Fn(&[u8]) -> io::Result<(Vec<u8>, Option<OwnedFd>)> + Send + Sync + 'static,
    ) -> Self {
        Self {
            local,
            ask: Box::new(ask),
            disks: Mutex::default(),
        }
    }

    fn request(&self, request: &ForwardRequest) -> Result<Option<UnixStream>> {
        let request = serde_json::to_vec(request).map_err(io::Error::from)?;
        let (answer, stream) = (self.ask)(&request)?;
        match serde_json::from_slice(&answer).map_err(io::Error::from)? {
            ForwardAnswer::Stream => Ok(stream.map(Into::into)),
            ForwardAnswer::Done => Ok(None),
            ForwardAnswer::Failed { kind, reason, hint } => {
                let error = Error::new(ErrorKind::named(&kind).unwrap_or(ErrorKind::Other), reason);
                Err(match hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                })
            }
        }
    }

    fn stream(&self, request: &ForwardRequest) -> Result<UnixStream> {
        let lost = || Error::new(ErrorKind::Io, "the other process sent no stream");
        self.request(request)?.ok_or_else(lost)
    }

    /// Serves the devices, until the other process needs them no longer.
    fn give(&self, devices: impl IntoIterator<Item = Device>) -> Result<()> {
        let mut devices = devices.into_iter().enumerate();
        devices.try_for_each(|(index, device)| self.give_one(device, index > 0))
    }

    fn give_one(&self, device: Device, follows: bool) -> Result<()> {
        let size_bytes = device.size_bytes();
        let request = ForwardRequest::Device {
            size_bytes,
            follows,
        };
        let requests = self.stream(&request)?;
        std::thread::Builder::new()
            .name("forwarded disk".to_owned())
            .spawn(move || device.serve(&requests))?;
        Ok(())
    }

    fn mount(&self, wanted: &FallbackRequest<'_>, devices: Vec<Device>) -> Result<Remote> {
        let mut disks = self.disks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = disks.iter().position(|disk| *disk == wanted.disk);
        let disk = known.unwrap_or(disks.len());
        if known.is_none() {
            disks.push(wanted.disk);
        }
        let writes = matches!(*devices, [Device::Writable(_), ..]);
        self.give(devices)?;
        let files = self.stream(&ForwardRequest::Open {
            volume: wanted.volume.to_owned(),
            kind: wanted.kind.to_owned(),
            disk,
            volumes_of_disk: wanted.volumes_of_disk,
            writes,
        })?;
        let client = Client::connect(files.try_clone()?, files, HANDSHAKE_DEADLINE)?;
        let request = MountRequest {
            read_only: !writes,
            ..MountRequest::new("forwarded", wanted.kind)
        };
        Ok(client.mount(&request)?)
    }
}

impl Fallback for Forwarded {
    fn supports(&self, kind: &str) -> bool {
        self.local.supports(kind)
    }

    fn open(
        &self,
        wanted: &FallbackRequest<'_>,
        devices: Vec<Arc<dyn BlockRead>>,
    ) -> Result<Arc<dyn FsRead>> {
        let devices = devices.into_iter().map(Device::ReadOnly).collect();
        Ok(Arc::new(self.mount(wanted, devices)?))
    }

    fn open_for_writing(
        &self,
        wanted: &FallbackRequest<'_>,
        devices: Vec<Arc<dyn BlockWrite>>,
    ) -> Result<Arc<dyn FsWrite>> {
        let devices = devices.into_iter().map(Device::Writable).collect();
        Ok(Arc::new(self.mount(wanted, devices)?))
    }
}

impl FilesystemTools for Forwarded {
    fn check(&self) -> Result<()> {
        self.request(&ForwardRequest::CheckTools).map(drop)
    }

    fn work(&self, kind: &str, device: Arc<dyn BlockWrite>, work: &Work) -> Result<()> {
        // The next device is not given before the program has this one.
        let _disks = self.disks.lock().unwrap_or_else(PoisonError::into_inner);
        self.give([Device::Writable(device)])?;
        let (kind, work) = (kind.to_owned(), work.clone());
        self.request(&ForwardRequest::Work { kind, work }).map(drop)
    }
}

/// The other process's end of a [`Forwarded`].
#[derive(Debug)]
pub struct ForwardServer<F> {
    /// Creates the fallback when it is first needed.
    create: F,
    fallback: Option<Arc<dyn Fallback>>,
    tools: Option<Arc<dyn FilesystemTools>>,
    /// The devices that wait for a request which uses them.
    given: Vec<StreamDevice>,
    /// The time for an answer about a device; `None` for no limit.
    device_deadline: Option<Duration>,
    /// A token of which each device has a clone.
    devices: Arc<()>,
    disks: HashMap<usize, DiskId>,
}

impl<F: FnMut() -> Result<Arc<dyn Fallback>>> ForwardServer<F> {
    /// Creates a server whose fallback `create` makes when it is first needed.
    pub fn new(create: F) -> Self {
        Self {
            create,
            fallback: None,
            tools: None,
            given: Vec::new(),
            device_deadline: None,
            devices: Arc::default(),
            disks: HashMap::new(),
        }
    }

    /// Also runs these programs.
    #[must_use]
    pub fn with_tools(self, tools: Option<Arc<dyn FilesystemTools>>) -> Self {
        Self { tools, ..self }
    }

    /// Gives a device up whose process has not answered for this time. Others may wait for this
    /// process, or for its machine. Without a deadline, a slow disk has any time.
    #[must_use]
    pub fn with_device_deadline(self, deadline: Duration) -> Self {
        Self {
            device_deadline: Some(deadline),
            ..self
        }
    }

    /// Answers a request; a stream comes with some answers.
    pub fn answer(&mut self, request: &[u8]) -> (Vec<u8>, Option<OwnedFd>) {
        let (answer, stream) = match self.handle(request) {
            Ok(Some(stream)) => (ForwardAnswer::Stream, Some(stream.into())),
            Ok(None) => (ForwardAnswer::Done, None),
            Err(error) => {
                let failed = ForwardAnswer::Failed {
                    kind: error.kind().name().to_owned(),
                    reason: error.reason(),
                    hint: error.next_step().map(Into::into),
                };
                (failed, None)
            }
        };
        // An enum of texts can always be encoded.
        (serde_json::to_vec(&answer).unwrap_or_default(), stream)
    }

    fn handle(&mut self, request: &[u8]) -> Result<Option<UnixStream>> {
        match serde_json::from_slice(request).map_err(io::Error::from)? {
            ForwardRequest::Device {
                size_bytes,
                follows,
            } => {
                if !follows {
                    self.given.clear();
                }
                if Arc::strong_count(&self.devices) > DEVICES_MAX {
                    return Err(Error::new(ErrorKind::Denied, "too many devices"));
                }
                let (ours, theirs) = UnixStream::pair()?;
                let token = Arc::clone(&self.devices);
                let device = StreamDevice::new(ours, size_bytes, self.device_deadline, token)?;
                self.given.push(device);
                Ok(Some(theirs))
            }
            ForwardRequest::Open {
                volume,
                kind,
                disk,
                volumes_of_disk,
                writes,
            } => {
                let disk = *self.disks.entry(disk).or_insert_with(DiskId::new);
                let wanted = FallbackRequest {
                    volume: &volume,
                    kind: &kind,
                    disk,
                    volumes_of_disk,
                };
                let tree = self.open(&wanted, writes)?;
                let (ours, theirs) = UnixStream::pair()?;
                std::thread::Builder::new()
                    .name("forwarded files".to_owned())
                    .spawn(move || serve_files(&ours, tree))?;
                Ok(Some(theirs))
            }
            ForwardRequest::CheckTools => self.tools()?.check().map(|()| None),
            ForwardRequest::Work { kind, work } => {
                let device = self.only_device()?;
                self.tools()?.work(&kind, device, &work).map(|()| None)
            }
        }
    }

    fn tools(&self) -> Result<&dyn FilesystemTools> {
        let none = || Error::new(ErrorKind::Unsupported, "no programs for filesystems here");
        self.tools.as_deref().ok_or_else(none)
    }

    fn only_device(&mut self) -> Result<Arc<dyn BlockWrite>> {
        let mut given = self.given.drain(..);
        match (given.next(), given.next()) {
            (Some(device), None) => Ok(Arc::new(device)),
            _ => Err(Error::new(ErrorKind::Invalid, "expected one device")),
        }
    }

    fn open(&mut self, wanted: &FallbackRequest<'_>, writes: bool) -> Result<MountTree> {
        if self.given.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, "no device"));
        }
        let devices = self.given.drain(..).map(Arc::new);
        let fallback = match &self.fallback {
            Some(fallback) => Arc::clone(fallback),
            None => Arc::clone(self.fallback.insert((self.create)()?)),
        };
        Ok(MountTree::new(if writes {
            let devices = devices.map(|device| device as _).collect();
            Driver::Writable(fallback.open_for_writing(wanted, devices)?)
        } else {
            let devices = devices.map(|device| device as _).collect();
            Driver::ReadOnly(fallback.open(wanted, devices)?)
        }))
    }
}

/// A machine with one filesystem, which can be mounted once. Unmounting drops it before that is
/// answered, so that the same volume can be opened for writing then.
#[derive(Debug)]
struct OneFilesystem(Mutex<Option<MountTree>>);

impl Machine for OneFilesystem {
    fn mount(&self, _request: &MountRequest) -> diskfs_vfs::Result<Arc<dyn Served>> {
        let tree = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let again = diskfs_vfs::Error::new(diskfs_vfs::ErrorKind::Busy, "mounted already");
        Ok(Arc::new(tree.ok_or(again)?))
    }
}

/// Serves a filesystem until the other process ends.
fn serve_files(stream: &UnixStream, tree: MountTree) {
    let machine = OneFilesystem(Mutex::new(Some(tree)));
    let served = server::serve(stream, stream, &machine);
    if let Err(error) = served {
        tracing::debug!(%error, "a forwarded filesystem ended");
    }
}

#[cfg(test)]
mod tests {
    use diskfs_block::Memory;
    use diskfs_vfs::testing::MemoryFs;
    use diskfs_vfs::{Follow, resolve};

    use super::*;

    /// A fallback that finds the name of a file in the first bytes of the device.
    #[derive(Debug)]
    struct Fake;

    impl Fallback for Fake {
        fn supports(&self, kind: &str) -> bool {
            kind == "fake"
        }

        fn open(
            &self,
            wanted: &FallbackRequest<'_>,
            devices: Vec<Arc<dyn BlockRead>>,
        ) -> Result<Arc<dyn FsRead>> {
            let [device] = &*devices else {
                return Err(Error::new(ErrorKind::Other, "several devices"));
            };
            let mut name = [0; 4];
            device.read_at(1 << 20, &mut name)?;
            assert_eq!((wanted.volume, device.size_bytes()), ("p1", 2 << 20));
            if name == [0; 4] {
                let error = Error::new(ErrorKind::Unsupported, "no kernel");
                return Err(error.with_hint("build one"));
            }
            let mut fs = MemoryFs::new();
            fs.file(
                &format!("/{}", String::from_utf8_lossy(&name)),
                &vec![7; 300_000],
            );
            Ok(Arc::new(fs))
        }

        fn open_for_writing(
            &self,
            _wanted: &FallbackRequest<'_>,
            _devices: Vec<Arc<dyn BlockWrite>>,
        ) -> Result<Arc<dyn FsWrite>> {
            Err(Error::new(ErrorKind::Other, "not here"))
        }
    }

    #[test]
    fn filesystems_come_from_the_other_side() {
        let server = ForwardServer::new(|| Ok(Arc::new(Fake) as Arc<dyn Fallback>));
        let server = Mutex::new(server);
        let forwarded = Forwarded::new(Arc::new(Fake), move |request| {
            Ok(server.lock().unwrap().answer(request))
        });
        assert!(forwarded.supports("fake") && !forwarded.supports("ext4"));
        let wanted = FallbackRequest {
            volume: "p1",
            kind: "fake",
            disk: DiskId::new(),
            volumes_of_disk: 1,
        };
        for name in [b"abcd", b"efgh"] {
            let mut bytes = vec![0; 2 << 20];
            bytes[1 << 20..][..4].copy_from_slice(name);
            let fs = forwarded
                .open(&wanted, vec![Arc::new(Memory::new(bytes))])
                .unwrap();
            let file = resolve(&*fs, name, Follow::All).unwrap();
            let mut contents = vec![0; 300_000];
            let mut at = 0;
            while at < contents.len() {
                at += fs.read_at(file, at as u64, &mut contents[at..]).unwrap();
            }
            assert!(contents.iter().all(|byte| *byte == 7));
        }
        let empty = Arc::new(Memory::new(vec![0; 2 << 20]));
        let error = forwarded.open(&wanted, vec![empty]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!(error.next_step(), Some("build one"));
    }

    #[test]
    fn requests_of_a_compromised_process_do_no_harm() {
        let mut server = ForwardServer::new(|| Ok(Arc::new(Fake) as Arc<dyn Fallback>));
        for request in [
            &b""[..],
            b"{",
            br#"{"Open":{"volume":"","kind":"x","disk":0}}"#,
        ] {
            let (answer, stream) = server.answer(request);
            assert!(stream.is_none());
            assert!(String::from_utf8(answer).unwrap().contains("Failed"));
        }
        let device = br#"{"Device":{"size_bytes":18446744073709551615,"follows":false}}"#;
        // A device that nothing uses goes with the next one.
        assert!((0..2 * DEVICES_MAX).all(|_| server.answer(device).1.is_some()));
        let used = vec![Arc::clone(&server.devices); DEVICES_MAX];
        assert!(server.answer(device).1.is_none());
        drop(used);
        assert!(server.answer(device).1.is_some());
    }
}
