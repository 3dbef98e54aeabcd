//! Disks of OCI images in registries.
//!
//! The process that opens the disk parses the manifests and the layers. A confined one gets each of
//! these parts from its broker, which has the credentials.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use diskfs::Result;
use diskfs::block::{self, BlockRead};
use diskfs::image::RegistryDisk;
use diskfs::nbd::server::{Export, Options, Server};
use diskfs::objects::{Registry, RegistryAccess};
use diskfs_oci::{Blobs, Digest, RegistryName, RegistryPart};
use serde::{Deserialize, Serialize};

use super::direct::options;
use super::shown;

/// The limit on the parts that the broker serves at once; others are opened again when they are
/// needed. Each has a cache.
const MAX_SERVED: usize = 8;

/// Opens a part of an image: from this process, or by the broker.
pub(super) type OpenPart<'a> = dyn Fn(&RegistryPart) -> block::Result<Arc<dyn BlockRead>> + 'a;

/// The blobs of a registry.
struct Parts<'a>(&'a OpenPart<'a>);

impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl Blobs for Parts<'_> {
    fn open(&self, digest: &Digest) -> block::Result<Arc<dyn BlockRead>> {
        (self.0)(&RegistryPart::Blob(digest.clone()))
    }

    fn open_manifest(&self, digest: &Digest) -> block::Result<Arc<dyn BlockRead>> {
        (self.0)(&RegistryPart::Manifest(digest.clone()))
    }
}

/// Opens the disk of the image that a URI names.
pub(super) fn open_disk(uri: &str, open: &OpenPart<'_>) -> block::Result<Arc<dyn BlockRead>> {
    let opened = || {
        let name = RegistryName::parse(uri)?;
        RegistryDisk::open(&name, open(&RegistryPart::Root)?.as_ref(), &Parts(open))
    };
    let disk = opened().map_err(|e| e.in_file(shown(uri)))?;
    for warning in &disk.warnings {
        tracing::warn!("{}: {warning}", shown(uri));
    }
    Ok(disk.device)
}

/// Opens the disk of the image that a URI names, from this process.
pub(super) fn open_direct(uri: &str) -> block::Result<Arc<dyn BlockRead>> {
    let registry = connect(uri, RegistryAccess::Pull)?;
    open_disk(uri, &|part| registry.open(part))
}

/// Prepares requests to the registry of an image.
pub(super) fn connect(uri: &str, access: RegistryAccess) -> block::Result<Registry> {
    let options = options()?;
    let connected = RegistryName::parse(uri).and_then(|name| Registry::new(name, access, &options));
    connected.map_err(|e| e.in_file(shown(uri)))
}

/// A request for a part of an image, which the broker serves by NBD.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ConnectPart {
    /// The URI of the image.
    pub(super) registry_uri: String,
    /// The part, as [`RegistryPart`] writes it.
    pub(super) part: String,
}

/// The parts of images that the broker serves.
#[derive(Default)]
pub(super) struct PartServers {
    registries: HashMap<String, Registry>,
    /// The last ones, the oldest first.
    served: VecDeque<((String, RegistryPart), Server)>,
}

impl PartServers {
    /// Connects to the server of a part, which is started if there is none.
    pub(super) fn connect(&mut self, uri: &str, part: &str) -> Result<OwnedFd> {
        let wanted = (uri.to_owned(), RegistryPart::parse(part)?);
        let (ours, theirs) = UnixStream::pair()?;
        let found = self.served.iter().position(|(part, _)| *part == wanted);
        let served = match found.and_then(|at| self.served.remove(at)) {
            Some(served) => served,
            None => (wanted.clone(), self.start(uri, &wanted.1)?),
        };
        served.1.serve(ours)?;
        if self.served.len() >= MAX_SERVED {
            self.served.pop_front();
        }
        self.served.push_back(served);
        Ok(theirs.into())
    }

    fn start(&mut self, uri: &str, part: &RegistryPart) -> Result<Server> {
        let registry = match self.registries.get(uri) {
            Some(registry) => registry.clone(),
            None => connect(uri, RegistryAccess::Pull)?,
        };
        self.registries.insert(uri.to_owned(), registry.clone());
        let device = registry.open(part).map_err(|e| e.in_file(shown(uri)))?;
        let export = Export::read_only("", device);
        Ok(Server::start(vec![export], Options::default())?)
    }
}
