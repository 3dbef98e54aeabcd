//! A device at the other end of a stream.
//!
//! A request is an offset (8 bytes) and a length (4 bytes), little-endian; the answer is a byte
//! that is 1 for success, and the bytes.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use diskfs_block::{BlockRead, Error, ErrorKind, Result, check_bounds};

/// The longest piece that is read at once.
const PIECE_BYTES: usize = 1 << 20;

/// A device whose bytes another process reads.
#[derive(Debug)]
pub(super) struct StreamDevice {
    stream: Mutex<UnixStream>,
    size_bytes: u64,
}

impl StreamDevice {
    pub(super) fn new(stream: UnixStream, size_bytes: u64) -> Self {
        Self {
            stream: Mutex::new(stream),
            size_bytes,
        }
    }

    fn read_piece(&self, offset: u64, piece: &mut [u8]) -> io::Result<bool> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let len = u32::try_from(piece.len()).map_err(io::Error::other)?;
        let mut request = [0; 12];
        request[..8].copy_from_slice(&offset.to_le_bytes());
        request[8..].copy_from_slice(&len.to_le_bytes());
        stream.write_all(&request)?;
        let mut succeeded = [0];
        stream.read_exact(&mut succeeded)?;
        if succeeded == [1] {
            stream.read_exact(piece)?;
        }
        Ok(succeeded == [1])
    }
}

impl BlockRead for StreamDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let len = u64::try_from(buf.len()).unwrap_or(u64::MAX);
        check_bounds(offset, len, self.size_bytes)?;
        let mut at = offset;
        for piece in buf.chunks_mut(PIECE_BYTES) {
            let failed = |reason| Error::new(ErrorKind::Io, reason).at(at);
            match self.read_piece(at, piece) {
                Ok(true) => {}
                Ok(false) => return Err(failed("the confined process cannot read the disk")),
                Err(_) => return Err(failed("the confined process has ended")),
            }
            at = at.saturating_add(u64::try_from(piece.len()).unwrap_or(0));
        }
        Ok(())
    }
}

/// Serves `device` until the stream ends.
pub(super) fn serve_device(mut stream: UnixStream, device: &dyn BlockRead) {
    let mut piece = Vec::new();
    let mut request = [0; 12];
    while stream.read_exact(&mut request).is_ok() {
        let ([offset @ .., _, _, _, _], [.., a, b, c, d]) = (&request, &request);
        let offset = u64::from_le_bytes(*offset);
        let len = usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX);
        if len > PIECE_BYTES {
            return;
        }
        piece.resize(len, 0);
        let answered = match device.read_at(offset, &mut piece) {
            Ok(()) => stream
                .write_all(&[1])
                .and_then(|()| stream.write_all(&piece)),
            Err(error) => {
                tracing::warn!(%error, "cannot read a volume for the microVM");
                stream.write_all(&[0])
            }
        };
        if answered.is_err() {
            return;
        }
    }
}
