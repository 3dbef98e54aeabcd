//! A device at the other end of a stream.
//!
//! A request is an operation (1 byte), an offset and a length (8 bytes each), little-endian, and the
//! bytes to be written; the answer is a byte that says how it ended, and the bytes that were read.

use std::io::{self, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diskfs_block::bytes::{index, le64, len_u64};
use diskfs_block::{BlockRead, BlockWrite, Error, ErrorKind, Result, check_bounds};

use super::read_ahead::ReadAhead;

/// The longest piece that is read or written at once.
const PIECE_BYTES: usize = 1 << 20;
const REQUEST_BYTES: usize = 17;

/// The operations.
const READ: u8 = 0;
const WRITE: u8 = 1;
const WRITE_ZEROES: u8 = 2;
const DISCARD: u8 = 3;
const FLUSH: u8 = 4;

/// The first byte of an answer.
const SUCCEEDED: u8 = 0;
const FAILED: u8 = 1;
const NO_SPACE: u8 = 2;

/// A device whose bytes are in another process.
#[derive(Debug)]
pub(super) struct StreamDevice {
    /// Locked for each request.
    connection: Mutex<DeviceConnection>,
    size_bytes: u64,
    /// A token, whose clones count the devices.
    _token: Arc<()>,
}

#[derive(Debug)]
struct DeviceConnection {
    stream: UnixStream,
    ahead: ReadAhead,
}

impl StreamDevice {
    pub(super) fn new(
        stream: UnixStream,
        size_bytes: u64,
        deadline: Option<Duration>,
        token: Arc<()>,
    ) -> io::Result<Self> {
        stream.set_read_timeout(deadline)?;
        stream.set_write_timeout(deadline)?;
        Ok(Self {
            connection: Mutex::new(DeviceConnection {
                stream,
                ahead: ReadAhead::default(),
            }),
            size_bytes,
            _token: token,
        })
    }

    /// Sends a request that changes the device.
    fn change(&self, request: (u8, u64, u64), written: &[u8]) -> Result<()> {
        let (_, offset, len_bytes) = request;
        let mut connection = self.connection();
        connection.ahead.drop_range(offset, len_bytes);
        connection.exchange(request, written, &mut [])
    }

    /// Reads a piece, or copies it from what was read ahead.
    fn read_piece(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut connection = self.connection();
        if connection.ahead.read(offset, buf) {
            return Ok(());
        }
        let wanted = connection.ahead.wanted(offset, buf.len(), self.size_bytes);
        if let Some(wanted) = wanted {
            let mut bytes = vec![0; wanted];
            let request = (READ, offset, len_u64(wanted));
            // If a byte that nobody has asked for can't be read, the piece is read alone.
            if connection.exchange(request, b"", &mut bytes).is_ok() {
                buf.copy_from_slice(bytes.get(..buf.len()).unwrap_or_default());
                connection.ahead.store(offset, bytes);
                return Ok(());
            }
        }
        connection.exchange((READ, offset, len_u64(buf.len())), b"", buf)
    }

    fn connection(&self) -> MutexGuard<'_, DeviceConnection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, offset: u64, len_bytes: u64) -> Result<()> {
        check_bounds(offset, len_bytes, self.size_bytes)
    }
}

impl DeviceConnection {
    fn exchange(
        &mut self,
        (operation, offset, len_bytes): (u8, u64, u64),
        written: &[u8],
        read: &mut [u8],
    ) -> Result<()> {
        let stream = &mut self.stream;
        let mut exchange = || {
            let mut request = [0; REQUEST_BYTES];
            request[0] = operation;
            request[1..9].copy_from_slice(&offset.to_le_bytes());
            request[9..].copy_from_slice(&len_bytes.to_le_bytes());
            stream.write_all(&request)?;
            stream.write_all(written)?;
            let mut ended = [FAILED];
            // Usually status and bytes arrive together.
            let mut parts = [IoSliceMut::new(&mut ended), IoSliceMut::new(read)];
            let arrived = loop {
                match stream.read_vectored(&mut parts) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    arrived => break arrived?,
                }
            };
            let read_len = arrived.checked_sub(1).ok_or(io::ErrorKind::UnexpectedEof)?;
            match ended {
                [SUCCEEDED] => stream.read_exact(read.get_mut(read_len..).unwrap_or_default())?,
                _ if read_len > 0 => return Err(io::ErrorKind::InvalidData.into()),
                _ => {}
            }
            io::Result::Ok(ended)
        };
        let (kind, reason) = match exchange() {
            Ok([SUCCEEDED]) => return Ok(()),
            Ok([NO_SPACE]) => (
                ErrorKind::NoSpace,
                "the host has no space left for the disk",
            ),
            Ok(_) => (ErrorKind::Io, "the confined process cannot use the disk"),
            Err(_) => {
                // An answer that comes later would be taken for that of the next request.
                let _ = stream.shutdown(Shutdown::Both);
                let reason = "the confined process has ended, or does not answer";
                (ErrorKind::Io, reason)
            }
        };
        Err(Error::new(kind, reason).at(offset))
    }
}

impl BlockRead for StreamDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.check(offset, len_u64(buf.len()))?;
        let mut at = offset;
        for piece in buf.chunks_mut(PIECE_BYTES) {
            self.read_piece(at, piece)?;
            at = at.saturating_add(len_u64(piece.len()));
        }
        Ok(())
    }
}

impl BlockWrite for StreamDevice {
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.check(offset, len_u64(buf.len()))?;
        let mut at = offset;
        for piece in buf.chunks(PIECE_BYTES) {
            let len_bytes = len_u64(piece.len());
            self.change((WRITE, at, len_bytes), piece)?;
            at = at.saturating_add(len_bytes);
        }
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.check(offset, len_bytes)?;
        self.change((WRITE_ZEROES, offset, len_bytes), b"")
    }

    fn discard(&self, offset: u64, len_bytes: u64) -> Result<()> {
        self.check(offset, len_bytes)?;
        self.change((DISCARD, offset, len_bytes), b"")
    }

    fn flush(&self) -> Result<()> {
        self.change((FLUSH, 0, 0), b"")
    }
}

/// A device that is served.
#[derive(Debug, Clone)]
pub(super) enum Device {
    ReadOnly(Arc<dyn BlockRead>),
    Writable(Arc<dyn BlockWrite>),
}

impl Device {
    pub(super) fn size_bytes(&self) -> u64 {
        match self {
            Self::ReadOnly(device) => device.size_bytes(),
            Self::Writable(device) => device.size_bytes(),
        }
    }

    /// Serves the device until the stream ends.
    pub(super) fn serve(&self, mut stream: &UnixStream) -> io::Result<()> {
        // The status and the bytes of an answer.
        let mut answer = vec![0];
        let mut request = [0; REQUEST_BYTES];
        loop {
            stream.read_exact(&mut request)?;
            let operation = request[0];
            let numbers = le64(&request, 1).zip(le64(&request, 9));
            let (offset, len_bytes) = numbers.ok_or(io::ErrorKind::InvalidData)?;
            let has_bytes = matches!(operation, READ | WRITE);
            let len = if has_bytes { index(len_bytes) } else { 0 };
            if len > PIECE_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            // Not cleared: each byte that is sent was read from the device, or was sent before.
            if answer.len() <= len {
                answer.resize(len.saturating_add(1), 0);
            }
            let Some((status, rest)) = answer.split_first_mut() else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let piece = rest.get_mut(..len).unwrap_or_default();
            if operation == WRITE {
                stream.read_exact(piece)?;
            }
            let ended = self.perform(operation, (offset, len_bytes), piece);
            *status = match &ended {
                Ok(()) => SUCCEEDED,
                Err(error) if error.kind() == ErrorKind::NoSpace => NO_SPACE,
                Err(_) => FAILED,
            };
            let sent = if operation == READ && ended.is_ok() {
                len
            } else {
                0
            };
            stream.write_all(answer.get(..=sent).unwrap_or_default())?;
            if let Err(error) = ended {
                tracing::warn!(%error, "cannot use a volume for the microVM");
            }
        }
    }

    fn perform(
        &self,
        operation: u8,
        (offset, len_bytes): (u64, u64),
        piece: &mut [u8],
    ) -> Result<()> {
        let device = match self {
            Self::ReadOnly(device) if operation == READ => return device.read_at(offset, piece),
            Self::ReadOnly(_) => {
                let reason = "the microVM writes to a volume that is only read";
                return Err(Error::new(ErrorKind::ReadOnly, reason));
            }
            Self::Writable(device) => device,
        };
        match operation {
            READ => device.read_at(offset, piece),
            WRITE => device.write_at(offset, piece),
            WRITE_ZEROES => device.write_zeroes(offset, len_bytes),
            DISCARD => device.discard(offset, len_bytes),
            FLUSH => device.flush(),
            _ => Err(Error::new(ErrorKind::Invalid, "an unknown operation")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_process_that_does_not_answer_is_given_up() {
        let (ours, silent) = UnixStream::pair().unwrap();
        let deadline = Duration::from_millis(50);
        let device = StreamDevice::new(ours, 1 << 20, Some(deadline), Arc::default()).unwrap();
        let started = Instant::now();
        for _ in 0..100 {
            let error = device.read_at(0, &mut [0; 512]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert_eq!(device.flush().unwrap_err().kind(), ErrorKind::Io);
        }
        // Only the first request waits, and the other process notices the end.
        assert!((deadline..100 * deadline).contains(&started.elapsed()));
        let mut asked = Vec::new();
        (&silent).read_to_end(&mut asked).unwrap();
        assert_eq!(asked.len(), REQUEST_BYTES);
    }
}
