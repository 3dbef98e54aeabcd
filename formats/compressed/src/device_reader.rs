//! A device as a stream of bytes.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use diskfs_block::{BlockRead, bytes};

/// A reader of a device from an offset on, which reads in pieces.
#[derive(Debug)]
pub struct DeviceReader {
    device: Arc<dyn BlockRead>,
    /// The offset of the first byte after the buffer.
    next: u64,
    buffer: Vec<u8>,
    used: usize,
    piece_bytes: usize,
}

impl DeviceReader {
    /// Creates a reader of the device from its first byte on, with a buffer of this size.
    pub fn new(device: Arc<dyn BlockRead>, piece_bytes: usize) -> Self {
        Self::at(device, 0, piece_bytes)
    }

    /// Creates a reader of the device from this byte on, with a buffer of this size.
    pub(crate) fn at(device: Arc<dyn BlockRead>, offset: u64, piece_bytes: usize) -> Self {
        Self {
            device,
            next: offset,
            buffer: Vec::new(),
            used: 0,
            piece_bytes,
        }
    }

    /// Returns the offset of the next byte.
    pub fn position(&self) -> u64 {
        self.next.saturating_sub(bytes::len_u64(self.rest().len()))
    }

    /// Skips `count` bytes, without reading those that are not in the buffer.
    pub(crate) fn skip(&mut self, count: u64) {
        let buffered = bytes::len_u64(self.rest().len());
        if count <= buffered {
            self.consume(bytes::index(count));
            return;
        }
        self.next = self.position().saturating_add(count);
        self.buffer.clear();
        self.used = 0;
    }

    /// Returns the next `N` bytes; `None` if the device ends before.
    pub(crate) fn take<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut taken = [0; N];
        match self.read_exact(&mut taken) {
            Ok(()) => Ok(Some(taken)),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.used..).unwrap_or_default()
    }
}

impl BufRead for DeviceReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.rest().is_empty() {
            let there = self.device.size_bytes().saturating_sub(self.next);
            let len = self.piece_bytes.min(bytes::index(there));
            self.buffer.resize(len, 0);
            self.used = 0;
            let read = self.device.read_at(self.next, &mut self.buffer);
            if let Err(e) = read {
                self.buffer.clear();
                return Err(io::Error::other(e));
            }
            self.next = self.next.saturating_add(bytes::len_u64(len));
        }
        Ok(self.rest())
    }

    fn consume(&mut self, count: usize) {
        self.used = self.used.saturating_add(count).min(self.buffer.len());
    }
}

impl Read for DeviceReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut there = self.fill_buf()?;
        let read = there.read(buf)?;
        self.consume(read);
        Ok(read)
    }
}
