//! A stream that another thread produces, so that decompression and the writing of files run at the
//! same time.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use diskfs_disk::Result;

use crate::unpack::read_up_to;

/// The size of the pieces that the threads exchange.
const PIECE_BYTES: usize = 1 << 20;

/// The number of pieces that wait for the reader.
const PIECES: usize = 4;

/// The end of the stream that receives the pieces.
#[derive(Debug)]
pub(crate) struct Background {
    /// `None` only while the value is dropped.
    pieces: Option<Receiver<io::Result<Vec<u8>>>>,
    /// The way back for the memory of used pieces.
    spare: std::sync::mpsc::Sender<Vec<u8>>,
    piece: io::Cursor<Vec<u8>>,
    thread: Option<JoinHandle<()>>,
}

/// The end of the stream that sends the pieces.
#[derive(Debug)]
pub(crate) struct Producer {
    pieces: SyncSender<io::Result<Vec<u8>>>,
    spare: Receiver<Vec<u8>>,
}

impl Background {
    /// Starts a thread that runs `produce`. Its error is the last thing that the reader receives.
    ///
    /// # Errors
    /// `Io` if no thread can be started.
    pub(crate) fn start(
        produce: impl FnOnce(&Producer) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let (sender, pieces) = sync_channel(PIECES);
        let (spare, returned) = channel();
        let producer = Producer {
            pieces: sender,
            spare: returned,
        };
        let thread = thread::Builder::new().name("layer".into()).spawn(move || {
            if let Err(error) = produce(&producer) {
                // A reader that is gone does not need the error.
                let _ = producer.pieces.send(Err(error.into()));
            }
        })?;
        Ok(Self {
            pieces: Some(pieces),
            spare,
            piece: io::Cursor::default(),
            thread: Some(thread),
        })
    }

    fn next_piece(&mut self) -> io::Result<()> {
        let Some(next) = self.pieces.as_ref().and_then(|pieces| pieces.recv().ok()) else {
            self.piece = io::Cursor::default();
            return Ok(());
        };
        let used = std::mem::replace(&mut self.piece, io::Cursor::new(next?));
        // A producer that has ended does not need the memory.
        let _ = self.spare.send(used.into_inner());
        Ok(())
    }
}

impl Read for Background {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.piece.read(buf)?;
        if read > 0 || buf.is_empty() {
            return Ok(read);
        }
        self.next_piece()?;
        self.piece.read(buf)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Without a receiver, the thread ends at its next piece.
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Producer {
    /// Sends all bytes of `from`. Returns false if the receiver is gone.
    ///
    /// # Errors
    /// The errors of reading.
    pub(crate) fn send_all(&self, from: &mut dyn Read) -> Result<bool> {
        let mut from = from;
        loop {
            let mut piece = self.spare.try_recv().unwrap_or_default();
            piece.resize(PIECE_BYTES, 0);
            let filled = read_up_to(&mut from, &mut piece)?;
            if filled == 0 {
                return Ok(true);
            }
            piece.truncate(filled);
            if self.pieces.send(Ok(piece)).is_err() {
                return Ok(false);
            }
        }
    }
}

/// A writer that sends its bytes in pieces. A receiver that is gone is an error of the kind
/// `BrokenPipe`.
#[derive(Debug)]
pub(crate) struct PieceWriter<'a> {
    to: &'a Producer,
    piece: Vec<u8>,
}

impl<'a> PieceWriter<'a> {
    pub(crate) fn new(to: &'a Producer) -> Self {
        Self {
            to,
            piece: Vec::with_capacity(PIECE_BYTES),
        }
    }
}

impl Write for PieceWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE_BYTES.saturating_sub(self.piece.len());
        let taken = room.min(bytes.len());
        self.piece
            .extend_from_slice(bytes.get(..taken).unwrap_or_default());
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let mut next = self.to.spare.try_recv().unwrap_or_default();
        next.clear();
        let piece = std::mem::replace(&mut self.piece, next);
        let sent = self.to.pieces.send(Ok(piece));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diskfs_disk::{Error, ErrorKind};

    #[test]
    fn all_bytes_arrive_in_order_and_then_the_error() {
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
        let sent = bytes.clone();
        let mut stream = Background::start(move |producer| {
            producer.send_all(&mut &sent[..])?;
            Err(Error::new(ErrorKind::Corrupt, "the end is damaged"))
        })
        .unwrap();
        let mut read = vec![0; bytes.len()];
        stream.read_exact(&mut read).unwrap();
        assert!(read == bytes);
        let error = Error::from(stream.read(&mut [0]).unwrap_err());
        assert_eq!(error.reason(), "the end is damaged");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_reader_that_leaves_early_ends_the_thread() {
        let mut stream = Background::start(|producer| {
            assert!(!producer.send_all(&mut io::repeat(7))?);
            Ok(())
        })
        .unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
    }
}
