//! Images on other machines, for a confined process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use diskfs::RemoteImages;
use diskfs::block::{BlockRead, BlockWrite, Error, ErrorKind, Result};
use diskfs::nbd::Connection;
use diskfs::nbd::client::{Connect, Nbd, Options};
use diskfs_sandbox::BrokerClient;

use super::broker::{ConnectRemote, Connected, unencrypted};
use super::direct::writable;
use super::shown;

/// The time that the broker has for a request, if it asks the server itself: it repeats requests, and
/// waits for slow answers.
const BROKER_TIMEOUT: Duration = Duration::from_mins(10);

/// Has the broker connect to images on other machines.
#[derive(Debug)]
pub(super) struct BrokeredImages(pub(super) Arc<BrokerClient>);

/// The connections to one image.
#[derive(Debug)]
struct Connector {
    broker: Arc<BrokerClient>,
    uri: String,
    is_written: bool,
}

impl Connector {
    fn ask(&self) -> io::Result<(Connected, Option<OwnedFd>)> {
        let request = ConnectRemote {
            remote_uri: self.uri.clone(),
            is_written: self.is_written,
        };
        let answer = self.broker.ask(&serde_json::to_vec(&request)?)?;
        Ok((serde_json::from_slice(&answer.bytes)?, answer.descriptor))
    }
}

impl Connect for Connector {
    fn connect(&self) -> Result<Connection> {
        match self.ask()? {
            (Connected::Failed(failure), _) => Err(failure.into()),
            (Connected::Tcp, Some(socket)) => Ok(Connection::Tcp(socket.into())),
            (Connected::Unix, Some(socket)) => Ok(Connection::Unix(socket.into())),
            (_, None) => Err(Error::new(ErrorKind::Io, "the broker sent no connection")),
        }
    }
}

impl BrokeredImages {
    fn connect(&self, uri: &str, is_written: bool) -> Result<Nbd> {
        let (export, request_timeout) = match unencrypted(uri)? {
            Some(uri) => (uri.export, Options::default().request_timeout),
            None => (String::new(), BROKER_TIMEOUT),
        };
        let options = Options {
            request_timeout,
            ..Options::default()
        };
        let connector = Arc::new(Connector {
            broker: Arc::clone(&self.0),
            uri: uri.to_owned(),
            is_written,
        });
        Nbd::connect_by(connector, &shown(uri), &export, options)
    }
}

impl RemoteImages for BrokeredImages {
    fn open(&self, uri: &str) -> Result<Arc<dyn BlockRead>> {
        Ok(Arc::new(self.connect(uri, false)?))
    }

    fn open_writable(&self, uri: &str) -> Result<Arc<dyn BlockWrite>> {
        writable(self.connect(uri, true)?)
    }
}
