//! The streams that NBD is spoken over, and their sending side.

mod buffers;
mod connection;
mod outbox;
mod shared;

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

pub(crate) use buffers::{Buffer, Buffers};
pub use connection::Connection;
pub(crate) use outbox::{Message, Outbox};
use shared::Shared;

/// A stream in both directions.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The sending side of a socket, which any thread may use.
pub(crate) trait DirectWrite: Send + Sync {
    /// Writes as much as the socket takes at once.
    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
}

/// A stream to a peer.
pub(crate) struct Stream {
    /// Both directions.
    pub(crate) duplex: Box<dyn Duplex>,
    /// The sending side, unless TLS or something else is between us and the socket.
    pub(crate) direct: Option<Arc<dyn DirectWrite>>,
}

impl Stream {
    /// Wraps a TCP connection.
    pub(crate) fn tcp(socket: TcpStream) -> Self {
        prepare(&socket);
        let shared = Arc::new(socket);
        Self {
            duplex: Box::new(Shared(Arc::clone(&shared))),
            direct: Some(shared),
        }
    }

    /// Wraps a connection of a Unix socket.
    pub(crate) fn unix(socket: UnixStream) -> Self {
        let shared = Arc::new(socket);
        Self {
            duplex: Box::new(Shared(Arc::clone(&shared))),
            direct: Some(shared),
        }
    }

    /// Wraps any stream.
    #[cfg(feature = "testing")]
    pub(crate) fn other(duplex: impl Duplex + 'static) -> Self {
        Self {
            duplex: Box::new(duplex),
            direct: None,
        }
    }
}

/// Sets the options of a TCP connection: without Nagle's algorithm, as the specification asks for,
/// and a peer that disappears is noticed. The connection also works if one of them fails.
pub(crate) fn prepare(socket: impl AsFd) {
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    let _ = sockopt::set_socket_keepalive(&socket, true);
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
