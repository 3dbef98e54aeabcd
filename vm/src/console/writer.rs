//! The writer of the stream to the guest.

use std::io::{self, Write};
use std::sync::Arc;

use diskfs_export::vhost_user::device::{Buffers, Notification, Rings, WaitResult};

use super::device::{TO_PORT, WRITER};
use super::port::Port;

/// The stream to the guest.
#[derive(Debug)]
pub(crate) struct PortWriter {
    port: Arc<Port>,
    rings: Option<Arc<Rings>>,
    buffers: Buffers,
}

impl PortWriter {
    pub(super) fn new(port: Arc<Port>) -> Self {
        Self {
            port,
            rings: None,
            buffers: Buffers::default(),
        }
    }

    /// Writes into the guest's buffers. Returns the number of bytes. Does not block.
    fn put(&mut self, rings: &Rings, bytes: &[u8]) -> Option<usize> {
        let mut taken = rings.ring(TO_PORT)?.take(&mut self.buffers)?;
        let room = usize::try_from(taken.writable_bytes()).unwrap_or(usize::MAX);
        let now = bytes.get(..room.min(bytes.len()))?;
        let written = taken.writer().write(now);
        if let Err(malformed) = written {
            // The guest offered a buffer outside its memory; these bytes go into the next one.
            taken.log_fault(&malformed);
            return Some(0);
        }
        taken.set_notification(Notification::Later);
        taken.set_written(u64::try_from(now.len()).unwrap_or_default());
        Some(now.len())
    }
}

/// Returns the error for a port that no program in the guest reads any more.
fn port_closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the guest has closed the port")
}

impl Write for PortWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let rings = match &self.rings {
            Some(rings) => Arc::clone(rings),
            None => Arc::clone(self.rings.insert(self.port.wait().ok_or_else(port_closed)?)),
        };
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            if self.port.is_closed() {
                return Err(port_closed());
            }
            match self.put(&rings, rest) {
                Some(len) => written = written.saturating_add(len),
                None if written > 0 => break,
                None if rings.wait(WRITER) == WaitResult::Ended => self.port.close(),
                None => {}
            }
        }
        if let Some(ring) = rings.ring(TO_PORT) {
            ring.notify();
        }
        Ok(written)
    }

    /// Does nothing: written bytes are already in the guest's memory.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
