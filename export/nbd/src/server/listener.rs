//! The sockets of a server.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::time::Duration;

use diskfs_block::Result;
use tokio::net::{TcpListener, UnixListener};

use crate::stream::Connection;

/// The time without accepting after an error, which is mostly a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A socket that listens for clients.
#[derive(Debug)]
pub enum Listener {
    /// A TCP socket.
    Tcp(StdTcpListener),
    /// A Unix socket.
    Unix(StdUnixListener),
}

impl From<StdTcpListener> for Listener {
    fn from(socket: StdTcpListener) -> Self {
        Self::Tcp(socket)
    }
}

impl From<StdUnixListener> for Listener {
    fn from(socket: StdUnixListener) -> Self {
        Self::Unix(socket)
    }
}

/// A socket that accepts connections in the current runtime.
#[derive(Debug)]
pub(super) enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    pub(super) fn new(listener: Listener) -> Result<Self> {
        Ok(match listener {
            Listener::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Self::Tcp(TcpListener::from_std(socket)?)
            }
            Listener::Unix(socket) => {
                socket.set_nonblocking(true)?;
                Self::Unix(UnixListener::from_std(socket)?)
            }
        })
    }

    async fn accept(&self) -> io::Result<Connection> {
        Ok(match self {
            Self::Tcp(socket) => Connection::Tcp(socket.accept().await?.0.into_std()?),
            Self::Unix(socket) => Connection::Unix(socket.accept().await?.0.into_std()?),
        })
    }

    /// Waits for the next connection.
    pub(super) async fn next(&self) -> Connection {
        loop {
            match self.accept().await {
                Ok(connection) => return connection,
                Err(error) => {
                    tracing::warn!("cannot accept an NBD connection: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}
