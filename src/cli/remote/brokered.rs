//! Images on other machines, for a confined process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

#[cfg(feature = "objects")]
use diskfs::block::BlockRead;
use diskfs::block::{BlockWrite, Error, ErrorKind, Result};
use diskfs::nbd::Connection;
use diskfs::nbd::client::{Connect, Nbd, Options};
use diskfs::{RemoteImage, RemoteImages};
#[cfg(feature = "objects")]
use diskfs_oci::{RegistryName, RegistryPart};
use diskfs_sandbox::BrokerClient;

use super::broker::{ConnectRemote, Connected, unencrypted};
#[cfg(feature = "objects")]
use super::direct::DirectImages;
use super::direct::writable;
#[cfg(feature = "objects")]
use super::registry::{ConnectPart, open_disk};
use super::shown;

/// The time that the broker has for a request, if it asks the server itself: it repeats requests, and
/// waits for slow answers.
const BROKER_TIMEOUT: Duration = Duration::from_mins(10);

/// Has the broker connect to images on other machines.
#[derive(Debug)]
pub(super) struct BrokeredImages(pub(super) Arc<BrokerClient>);

/// The connections to one image, or to a part of one.
#[derive(Debug)]
struct Connector {
    broker: Arc<BrokerClient>,
    /// The request to the broker.
    request: Vec<u8>,
    has_broker_ended: AtomicBool,
    /// The version of the image, after the first answer.
    version: OnceLock<Option<String>>,
}

impl Connector {
    fn ask(&self) -> Result<(Connected, Option<OwnedFd>)> {
        let answer = self.broker.ask(&self.request).inspect_err(|_| {
            self.has_broker_ended.store(true, Ordering::Relaxed);
        })?;
        let answered = serde_json::from_slice(&answer.bytes).map_err(io::Error::from)?;
        Ok((answered, answer.descriptor))
    }
}

impl Connect for Connector {
    fn connect(&self) -> Result<Connection> {
        match self.ask()? {
            (Connected::Failed(failure), _) => Err(failure.into()),
            (Connected::Tcp, Some(socket)) => Ok(Connection::Tcp(socket.into())),
            (Connected::Unix { version }, Some(socket)) => {
                self.version.get_or_init(|| version);
                Ok(Connection::Unix(socket.into()))
            }
            (_, None) => Err(Error::new(ErrorKind::Io, "the broker sent no connection")),
        }
    }

    fn has_ended(&self) -> bool {
        self.has_broker_ended.load(Ordering::Relaxed)
    }
}

impl BrokeredImages {
    fn connect(&self, uri: &str, is_written: bool) -> Result<(Nbd, Option<String>)> {
        let (export, request_timeout) = match unencrypted(uri)? {
            Some(uri) => (uri.export, Options::default().request_timeout),
            None => (String::new(), BROKER_TIMEOUT),
        };
        let request = ConnectRemote {
            remote_uri: uri.to_owned(),
            is_written,
        };
        let request = serde_json::to_vec(&request).map_err(io::Error::from)?;
        self.connect_by(request, &shown(uri), &export, request_timeout)
    }

    fn connect_by(
        &self,
        request: Vec<u8>,
        name: &str,
        export: &str,
        request_timeout: Duration,
    ) -> Result<(Nbd, Option<String>)> {
        let options = Options {
            request_timeout,
            ..Options::default()
        };
        let connector = Arc::new(Connector {
            broker: Arc::clone(&self.0),
            request,
            has_broker_ended: AtomicBool::new(false),
            version: OnceLock::new(),
        });
        let by: Arc<dyn Connect> = connector.clone();
        let nbd = Nbd::connect_by(by, name, export, options)?;
        Ok((nbd, connector.version.get().cloned().flatten()))
    }

    /// Opens a part of an OCI image in a registry.
    #[cfg(feature = "objects")]
    fn open_part(&self, uri: &str, part: &RegistryPart) -> Result<Arc<dyn BlockRead>> {
        let request = ConnectPart {
            registry_uri: uri.to_owned(),
            part: part.to_string(),
        };
        let request = serde_json::to_vec(&request).map_err(io::Error::from)?;
        let (part, _) = self.connect_by(request, &shown(uri), "", BROKER_TIMEOUT)?;
        Ok(Arc::new(part))
    }
}

impl RemoteImages for BrokeredImages {
    fn open(&self, uri: &str) -> Result<RemoteImage> {
        #[cfg(feature = "objects")]
        if RegistryName::is_uri(uri) {
            return Ok(RemoteImage {
                device: open_disk(uri, &|part| self.open_part(uri, part))?,
                version: None,
            });
        }
        let (device, version) = self.connect(uri, false)?;
        Ok(RemoteImage {
            device: Arc::new(device),
            version,
        })
    }

    fn open_writable(&self, uri: &str) -> Result<Arc<dyn BlockWrite>> {
        #[cfg(feature = "objects")]
        if RegistryName::is_uri(uri) {
            return DirectImages.open_writable(uri); // It fails without a connection.
        }
        writable(self.connect(uri, true)?.0)
    }
}
