//! The encoding of frames.

use std::io::{self, IoSlice, Read, Write};

use super::limits::{MAX_BULK, MAX_FRAME, MAX_MESSAGE};

/// The length of a [`Head`].
pub(super) const HEAD_BYTES: usize = 16;

/// The size of the read buffer.
const READ_BYTES: usize = 256 << 10;

/// The bit of the message length that says that the bulk is in the area, not in the stream.
const APART: u32 = 1 << 31;

/// The header of a frame, little-endian: the frame's length (u32), the message's length (u32; bit
/// 31: the bulk is in the area), and the number of the request that the frame is or answers (u64).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of the request.
    pub request: u64,
    /// The length of the message in bytes.
    pub message_len: usize,
    /// The length of the bulk, which follows the message, in bytes.
    pub bulk_len: usize,
    /// True if the bulk is in the [area](super::BULK_AREA_BYTES) instead.
    pub is_apart: bool,
}

impl Head {
    /// Encodes the header.
    ///
    /// # Errors
    /// Fails if the frame would be too large.
    fn encode(&self) -> io::Result<[u8; HEAD_BYTES]> {
        let total = self.total().filter(|&total| total <= MAX_FRAME);
        if self.message_len > MAX_MESSAGE || self.bulk_len > MAX_BULK {
            return Err(too_large());
        }
        let total = u32::try_from(total.ok_or_else(too_large)?).map_err(|_| too_large())?;
        let mut message_len = u32::try_from(self.message_len).map_err(|_| too_large())?;
        if self.is_apart {
            message_len |= APART;
        }
        let mut head = [0; HEAD_BYTES];
        let fields = [
            &total.to_le_bytes()[..],
            &message_len.to_le_bytes(),
            &self.request.to_le_bytes(),
        ];
        for (to, from) in head.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        Ok(head)
    }

    /// Decodes and checks a header.
    fn decode(head: [u8; HEAD_BYTES]) -> io::Result<Self> {
        let [t0, t1, t2, t3, m0, m1, m2, m3, request @ ..] = head;
        let size = |size| usize::try_from(size).unwrap_or(usize::MAX);
        let total = size(u32::from_le_bytes([t0, t1, t2, t3]));
        let message_len = u32::from_le_bytes([m0, m1, m2, m3]);
        let is_apart = message_len & APART != 0;
        let message_len = size(message_len & !APART);
        let rest = total.checked_sub(HEAD_BYTES);
        let bulk_len = rest.and_then(|rest| rest.checked_sub(message_len));
        match bulk_len {
            Some(bulk_len) if message_len <= MAX_MESSAGE && bulk_len <= MAX_BULK => Ok(Self {
                request: u64::from_le_bytes(request),
                message_len,
                bulk_len,
                is_apart,
            }),
            _ => Err(invalid("invalid frame: inconsistent lengths")),
        }
    }

    fn total(&self) -> Option<usize> {
        HEAD_BYTES
            .checked_add(self.message_len)?
            .checked_add(self.bulk_len)
    }
}

fn too_large() -> io::Error {
    invalid("frame is too large")
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// The buffer in which a frame is built: header and message.
#[derive(Debug, Default)]
pub struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// Encodes the frame of this message, which `bulk_len` bytes follow.
    ///
    /// # Errors
    /// Fails if the frame is too large.
    pub fn fill(
        &mut self,
        request: u64,
        message: &impl serde::Serialize,
        bulk_len: usize,
    ) -> io::Result<()> {
        self.put_together(request, message, bulk_len, false)
    }

    /// Encodes the frame of this message, whose bulk of `bulk_len` bytes is in the area.
    ///
    /// # Errors
    /// Fails if the frame is too large.
    pub fn fill_apart(
        &mut self,
        request: u64,
        message: &impl serde::Serialize,
        bulk_len: usize,
    ) -> io::Result<()> {
        self.put_together(request, message, bulk_len, true)
    }

    fn put_together(
        &mut self,
        request: u64,
        message: &impl serde::Serialize,
        bulk_len: usize,
        is_apart: bool,
    ) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes.resize(HEAD_BYTES, 0);
        let mut bytes = postcard::to_extend(message, bytes).map_err(|_| too_large())?;
        let head = Head {
            request,
            message_len: bytes.len().saturating_sub(HEAD_BYTES),
            bulk_len,
            is_apart,
        };
        for (to, from) in bytes.iter_mut().zip(head.encode()?) {
            *to = from;
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Returns the encoded header and message, without the bulk.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Writes a frame and its bulk, in as few calls as the stream allows.
///
/// # Errors
/// Fails with the stream's error, and with `WriteZero` if the stream accepts no more.
pub fn write_frame(
    writer: &mut (impl Write + ?Sized),
    frame: &[u8],
    bulk: &[u8],
) -> io::Result<()> {
    let (mut frame, mut bulk) = (frame, bulk);
    while !frame.is_empty() {
        if bulk.is_empty() {
            writer.write_all(frame)?;
            break;
        }
        match writer.write_vectored(&[IoSlice::new(frame), IoSlice::new(bulk)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                let of_bulk = written.saturating_sub(frame.len());
                frame = frame.get(written..).unwrap_or_default();
                bulk = bulk.get(of_bulk..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    writer.write_all(bulk)?;
    writer.flush()
}

/// A reader of frames from a stream.
///
/// Each frame is read by [`head`](Self::head) first; then exactly the announced bytes must be read.
pub struct FrameReader<R> {
    stream: R,
    buffer: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl<R> std::fmt::Debug for FrameReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameReader")
            .field("buffered", &self.buffered())
            .finish_non_exhaustive()
    }
}

impl<R> FrameReader<R> {
    /// Returns the number of bytes that were read from the stream and not consumed yet.
    pub fn buffered(&self) -> usize {
        self.end.saturating_sub(self.begin)
    }
}

impl<R: Read> FrameReader<R> {
    /// Creates a reader for `stream`.
    pub fn new(stream: R) -> Self {
        Self {
            stream,
            buffer: vec![0; READ_BYTES].into(),
            begin: 0,
            end: 0,
        }
    }

    /// Reads the header of the next frame. Returns `None` at the end of the stream.
    ///
    /// # Errors
    /// Fails with the stream's error, and with `InvalidData` if the lengths are invalid.
    pub fn head(&mut self) -> io::Result<Option<Head>> {
        if self.buffered() == 0 && self.refill()? == 0 {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        self.take(&mut head)?;
        Head::decode(head).map(Some)
    }

    /// Reads the message of the frame with this header.
    ///
    /// # Errors
    /// Fails with the stream's error.
    pub fn message(&mut self, head: &Head, message: &mut Vec<u8>) -> io::Result<()> {
        message.clear();
        message.resize(head.message_len, 0);
        self.take(message)
    }

    /// Fills `to` with the next bytes: the bulk after a message. Bytes that aren't buffered yet are
    /// read directly into `to`.
    ///
    /// # Errors
    /// Fails with the stream's error, and with `UnexpectedEof` if the stream ends before.
    pub fn take(&mut self, to: &mut [u8]) -> io::Result<()> {
        let mut to = to;
        while !to.is_empty() {
            if self.buffered() == 0 {
                if to.len() >= self.buffer.len() {
                    return self.stream.read_exact(to);
                }
                if self.refill()? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let from = self.buffer.get(self.begin..self.end).unwrap_or_default();
            let len = from.len().min(to.len());
            let (now, later) = to.split_at_mut(len);
            now.copy_from_slice(from.get(..len).unwrap_or_default());
            self.begin = self.begin.saturating_add(len);
            to = later;
        }
        Ok(())
    }

    fn refill(&mut self) -> io::Result<usize> {
        self.begin = 0;
        self.end = 0;
        loop {
            match self.stream.read(&mut self.buffer) {
                Ok(read) => {
                    // Don't trust a stream that claims to have read more than the buffer has room
                    // for.
                    self.end = read.min(self.buffer.len());
                    return Ok(self.end);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
