//! Connections, before they are registered with a runtime.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::time::Duration;

use diskfs_block::{Error, ErrorKind, Result, host_reason};

use super::{Stream, prepare};
use crate::client::{Address, Uri};

/// The connection of a client to a server.
#[derive(Debug)]
pub enum Connection {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection of a Unix socket.
    Unix(UnixStream),
}

impl From<TcpStream> for Connection {
    fn from(socket: TcpStream) -> Self {
        Self::Tcp(socket)
    }
}

impl From<UnixStream> for Connection {
    fn from(socket: UnixStream) -> Self {
        Self::Unix(socket)
    }
}

impl Connection {
    /// Opens a connection to the server of a URI. Each of the host's addresses has `timeout`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the server cannot be reached.
    pub fn open(uri: &Uri, timeout: Duration) -> Result<Self> {
        let opened = match &uri.address {
            Address::Tcp(host, port) => open_tcp(host, *port, timeout).map(Self::Tcp),
            Address::Unix(path) => open_unix(path).map(Self::Unix),
        };
        opened.map_err(|error| {
            let reason = format!("cannot connect: {}", host_reason(&error));
            Error::new(ErrorKind::Io, reason).in_file(uri.to_string())
        })
    }

    /// Registers the connection with the current runtime.
    pub(crate) fn stream(self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Stream::tcp(tokio::net::TcpStream::from_std(socket)?)
            }
            Self::Unix(socket) => {
                socket.set_nonblocking(true)?;
                Stream::unix(tokio::net::UnixStream::from_std(socket)?)
            }
        })
    }
}

fn open_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => {
                prepare(&socket);
                return Ok(socket);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Connects to a Unix socket. A path that begins with NUL is an abstract socket.
fn open_unix(path: &Path) -> io::Result<UnixStream> {
    match path.as_os_str().as_bytes().strip_prefix(b"\0") {
        Some(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?),
        None => UnixStream::connect(path),
    }
}
