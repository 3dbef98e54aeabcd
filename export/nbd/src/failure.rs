//! The ends of connections.

use std::io;

use crate::protocol::Violation;

/// The reason why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The stream failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The peer violated the protocol.
    #[error("{0}")]
    Violation(#[from] Violation),
}

impl Failure {
    /// Returns true if the peer only closed the connection.
    pub(crate) fn is_end(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        matches!(self, Self::Io(e) if matches!(e.kind(), BrokenPipe | ConnectionReset | UnexpectedEof))
    }
}
