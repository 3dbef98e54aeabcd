//! A worker's connection to its parent, for sending.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use crate::message::ToParent;
use crate::wire::Outgoing;

/// The connection to the parent, for sending.
pub(crate) struct Link {
    socket: UnixStream,
    sending: Mutex<()>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl Link {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            sending: Mutex::new(()),
        }
    }

    /// Sends a whole frame.
    pub(crate) fn send(&self, message: &ToParent, payload: &[u8]) -> io::Result<()> {
        let frame = Outgoing::new(message, payload, None)?;
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        frame.send_all(&self.socket)
    }
}
