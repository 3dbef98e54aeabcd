//! Connections, before they are registered with a runtime.

use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use super::Stream;

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
