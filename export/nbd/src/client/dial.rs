//! Connections that are opened here and used elsewhere.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::time::Duration;

use diskfs_block::{Error, ErrorKind, Result, host_reason};

use super::uri::{Address, Uri};
use crate::stream::{Connection, prepare};

impl Uri {
    /// Opens a connection to the server, for a process that must not open any itself: see
    /// [`Connect`](super::Connect). Each of the host's addresses has `timeout`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the server cannot be reached.
    pub fn dial(&self, timeout: Duration) -> Result<Connection> {
        let opened = match &self.address {
            Address::Tcp(host, port) => dial_tcp(host, *port, timeout).map(Connection::Tcp),
            Address::Unix(path) => dial_unix(path).map(Connection::Unix),
        };
        opened.map_err(|error| {
            let reason = format!("cannot connect: {}", host_reason(&error));
            Error::new(ErrorKind::Io, reason).in_file(self.to_string())
        })
    }
}

fn dial_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
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
fn dial_unix(path: &Path) -> io::Result<UnixStream> {
    match path.as_os_str().as_bytes().strip_prefix(b"\0") {
        Some(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?),
        None => UnixStream::connect(path),
    }
}
