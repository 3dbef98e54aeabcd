//! The options of a server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diskfs_block::Result;
use tokio_rustls::rustls::ServerConfig;

use crate::protocol::MAX_PAYLOAD_BYTES;
use crate::tls;

/// The encryption of a server's connections.
#[derive(Debug, Clone, Default)]
pub struct Tls(pub(super) Mode);

#[derive(Debug, Clone, Default)]
pub(super) enum Mode {
    #[default]
    Off,
    Allowed(Arc<ServerConfig>),
    Required(Arc<ServerConfig>),
}

impl Tls {
    /// Returns the mode without TLS.
    pub fn off() -> Self {
        Self::default()
    }

    /// Returns the mode in which clients may use TLS. An attacker between client and server can
    /// prevent it.
    ///
    /// # Errors
    /// Returns the errors of [`required`](Self::required).
    pub fn allowed(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self> {
        let config = tls::server_config(certificate, key, client_ca)?;
        Ok(Self(Mode::Allowed(config)))
    }

    /// Returns the mode in which clients must use TLS, with the server's certificate and key in
    /// PEM. With `client_ca`, a client needs a certificate of this authority.
    ///
    /// # Errors
    /// [`Invalid`](diskfs_block::ErrorKind::Invalid) if a file is not what it should be; the errors
    /// of reading the files.
    pub fn required(certificate: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self> {
        let config = tls::server_config(certificate, key, client_ca)?;
        Ok(Self(Mode::Required(config)))
    }

    /// Returns the configuration with these files, for a server of another protocol beside.
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        match &self.0 {
            Mode::Off => None,
            Mode::Allowed(config) | Mode::Required(config) => Some(Arc::clone(config)),
        }
    }
}

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The encryption of connections.
    pub tls: Tls,
    /// The number of connections at once. Further ones are closed at once.
    pub max_connections: usize,
    /// The number of requests of a connection that are in progress at once. Further ones are not
    /// read from the connection until then.
    pub max_requests: usize,
    /// The bytes of a connection's requests that are in progress at once: at least 32 MiB.
    pub max_request_bytes: usize,
    /// The number of threads that call the devices, for all connections.
    pub threads: usize,
    /// The time that a client has from its connection to its choice of an export.
    pub handshake_timeout: Duration,
    /// The time after which a client that doesn't take its answers is disconnected.
    pub stall_timeout: Duration,
    /// The time that the requests in progress have when the server stops.
    pub stop_timeout: Duration,
    /// The time that a client has to disconnect when the server stops, after its requests in
    /// progress are completed. Requests that it sends meanwhile are answered with `NBD_ESHUTDOWN`.
    pub farewell_time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls: Tls::off(),
            max_connections: 64,
            max_requests: 64,
            max_request_bytes: 64 << 20,
            threads: 16,
            handshake_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_mins(1),
            stop_timeout: Duration::from_secs(30),
            farewell_time: Duration::from_millis(300),
        }
    }
}

impl Options {
    /// Returns the options with limits that allow a connection to work at all.
    pub(super) fn within_limits(mut self) -> Self {
        let least_bytes = usize::try_from(MAX_PAYLOAD_BYTES).unwrap_or(usize::MAX);
        self.max_connections = self.max_connections.clamp(1, 1 << 16);
        self.max_requests = self.max_requests.clamp(1, 1 << 16);
        self.max_request_bytes = self.max_request_bytes.clamp(least_bytes, 1 << 30);
        self.threads = self.threads.clamp(1, 512);
        self
    }
}
