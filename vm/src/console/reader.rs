//! The reader of the stream from the guest.

use std::io::{self, Read};
use std::sync::Arc;

use diskfs_export::vhost_user::device::{Buffers, Rings, WaitResult};

use super::device::{FROM_PORT, READER};
use super::port::Port;

/// The maximum length of one request; no guest sends more at once.
const LARGEST: u64 = 1 << 20;

/// The stream from the guest.
#[derive(Debug)]
pub(crate) struct PortReader {
    port: Arc<Port>,
    rings: Option<Arc<Rings>>,
    buffers: Buffers,
    /// Bytes that the caller's buffer had no room for, and the position of the first.
    left_over: Vec<u8>,
    start: usize,
}

impl PortReader {
    pub(super) fn new(port: Arc<Port>) -> Self {
        Self {
            port,
            rings: None,
            buffers: Buffers::default(),
            left_over: Vec::new(),
            start: 0,
        }
    }

    /// Reads the remaining bytes of the previous request.
    fn take_left_over(&mut self, buf: &mut [u8]) -> usize {
        let left = self.left_over.get(self.start..).unwrap_or_default();
        let len = left.len().min(buf.len());
        for (to, from) in buf.iter_mut().zip(left) {
            *to = *from;
        }
        self.start = self.start.saturating_add(len);
        len
    }

    /// Reads the next request of the guest. Returns `None` if no request is available.
    fn take(&mut self, rings: &Rings, buf: &mut [u8]) -> Option<usize> {
        let taken = rings.ring(FROM_PORT)?.take(&mut self.buffers)?;
        let sent = taken.readable_bytes().min(LARGEST);
        let sent = usize::try_from(sent).unwrap_or_default();
        let len = sent.min(buf.len());
        let (now, more) = (buf.get_mut(..len)?, sent.saturating_sub(len));
        self.start = 0;
        self.left_over.resize(more, 0);
        let mut reader = taken.reader();
        let read = reader
            .read(now)
            .and_then(|()| reader.read(&mut self.left_over));
        if let Err(malformed) = read {
            taken.log_fault(&malformed);
            self.left_over.clear();
            return Some(0);
        }
        Some(len)
    }

    /// Fills `buf` as far as data is available. Does not block.
    fn fill(&mut self, rings: &Rings, buf: &mut [u8]) -> usize {
        let mut filled = self.take_left_over(buf);
        while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.take(rings, rest) {
                Some(len) => filled = filled.saturating_add(len),
                None => break,
            }
        }
        filled
    }
}

impl Read for PortReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let rings = match &self.rings {
            Some(rings) => Arc::clone(rings),
            None => match self.port.wait() {
                Some(rings) => Arc::clone(self.rings.insert(rings)),
                None => return Ok(0),
            },
        };
        loop {
            // Read before the rings, so that data that was sent before the end is still read.
            let has_ended = self.port.is_closed();
            let filled = self.fill(&rings, buf);
            if filled > 0 || has_ended {
                return Ok(filled);
            }
            let woken = match rings.ring(FROM_PORT) {
                Some(ring) => rings.poll_and_wait(READER, ring),
                None => WaitResult::Ended,
            };
            if woken == WaitResult::Ended {
                self.port.close();
            }
        }
    }
}
