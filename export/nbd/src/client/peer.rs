//! The server of a device, and the ways to connect to it.

use std::fmt::Debug;
use std::sync::Arc;

use diskfs_block::{Error, ErrorKind, Result};
use tokio::net::{TcpStream, UnixStream};

use super::handshake::Refusal;
use super::options::Tls;
use super::uri::{Address, Uri};
use crate::stream::{Connection, Stream};

/// An opener of connections to a server, for processes that must not open any themselves.
pub trait Connect: Debug + Send + Sync {
    /// Opens one more connection to the server.
    ///
    /// # Errors
    /// The reason why the server cannot be reached; [`ErrorKind::Io`] if another attempt may
    /// succeed.
    fn connect(&self) -> Result<Connection>;

    /// Returns true if no further attempt can succeed, whatever the last error was.
    fn has_ended(&self) -> bool {
        false
    }
}

/// The server of a device, and the export there.
#[derive(Debug)]
pub(super) struct Peer {
    /// The name for errors: the URI.
    pub(super) name: String,
    pub(super) export: String,
    pub(super) tls: Option<Tls>,
    way: Way,
}

/// The way to the server.
#[derive(Debug)]
enum Way {
    /// The server's address, and the name in its certificate.
    Address(Address, String),
    Connector(Arc<dyn Connect>),
}

impl Peer {
    /// Returns the server of a URI.
    pub(super) fn of_uri(uri: &Uri, tls: Option<Tls>) -> Self {
        Self {
            name: uri.to_string(),
            export: uri.export.clone(),
            tls,
            way: Way::Address(uri.address.clone(), uri.server_name()),
        }
    }

    /// Returns the server that a connector reaches, without TLS.
    pub(super) fn of_connector(connector: Arc<dyn Connect>, name: &str, export: &str) -> Self {
        Self {
            name: name.to_owned(),
            export: export.to_owned(),
            tls: None,
            way: Way::Connector(connector),
        }
    }

    /// Returns the certificates, and the name that the server's certificate must have; `None` if
    /// the connection is not encrypted.
    pub(super) fn tls(&self) -> Option<(&Tls, &str)> {
        match &self.way {
            Way::Address(_, server) => Some((self.tls.as_ref()?, server)),
            Way::Connector(_) => None,
        }
    }

    /// Returns true if no further connection can be opened.
    pub(super) fn has_ended(&self) -> bool {
        match &self.way {
            Way::Address(..) => false,
            Way::Connector(connector) => connector.has_ended(),
        }
    }

    /// Opens a connection in the current runtime.
    pub(super) async fn connect(&self) -> std::result::Result<Stream, Refusal> {
        Ok(match &self.way {
            Way::Address(Address::Tcp(host, port), _) => {
                Stream::tcp(TcpStream::connect((host.as_str(), *port)).await?)
            }
            Way::Address(Address::Unix(path), _) => Stream::unix(UnixStream::connect(path).await?),
            Way::Connector(connector) => {
                let connector = Arc::clone(connector);
                let opened = tokio::task::spawn_blocking(move || connector.connect()).await;
                let ended = |_| Error::new(ErrorKind::Io, "the connector panicked");
                let connection = opened.map_err(ended).flatten();
                connection.map_err(Refusal::Final)?.stream()?
            }
        })
    }
}
