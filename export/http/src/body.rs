//! The bytes of an answer: parts of a file, read while the client takes them.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::frame;
use crate::images::Image;

/// The number of bytes that are read from a file at once.
const CHUNK_BYTES: u64 = 512 << 10;

/// The time in which a client must take a chunk. Slower ones keep a connection from others.
const CHUNK_TIMEOUT: Duration = Duration::from_mins(1);

/// A piece of a body.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    /// Bytes of the protocol.
    Text(Bytes),
    /// A range of the file.
    File(Range<u64>),
    /// A range of the file, compressed.
    Packed(Range<u64>),
}

/// A part of a body.
#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
    /// The length before the compression.
    plain_bytes: u64,
}

impl Piece {
    /// Returns the length in bytes, before the compression.
    pub(crate) fn len_bytes(&self) -> u64 {
        match self {
            Self::Text(text) => diskfs_block::len_of(text),
            Self::File(range) | Self::Packed(range) => range.end.saturating_sub(range.start),
        }
    }
}

/// A body. Its length is known unless a piece is compressed.
#[derive(Debug)]
pub(crate) struct FileBody {
    chunks: mpsc::Receiver<io::Result<Chunk>>,
    /// The number of bytes that are left, before the compression.
    left_bytes: u64,
    is_packed: bool,
}

impl FileBody {
    /// Starts to read the pieces of an image. `stalled` is notified if the client takes them too
    /// slowly.
    pub(crate) fn new(image: Image, pieces: Vec<Piece>, stalled: Arc<Notify>) -> Self {
        let lens = pieces.iter().map(Piece::len_bytes);
        let left_bytes = lens.fold(0, u64::saturating_add);
        let is_packed = pieces.iter().any(|it| matches!(it, Piece::Packed(_)));
        let (sender, chunks) = mpsc::channel(1);
        tokio::spawn(async move {
            let image = Arc::new(image);
            for piece in pieces {
                if send(&image, piece, &sender, &stalled).await.is_none() {
                    break;
                }
            }
        });
        Self {
            chunks,
            left_bytes,
            is_packed,
        }
    }
}

/// Sends a piece. Returns `None` if the rest must not follow.
async fn send(
    image: &Arc<Image>,
    piece: Piece,
    sender: &mpsc::Sender<io::Result<Chunk>>,
    stalled: &Notify,
) -> Option<()> {
    let plain_bytes = piece.len_bytes();
    let (mut range, is_packed) = match piece {
        Piece::Text(bytes) => {
            let chunk = Chunk { bytes, plain_bytes };
            return give(Ok(chunk), sender, stalled).await;
        }
        Piece::File(range) => (range, false),
        Piece::Packed(range) => (range, true),
    };
    while !range.is_empty() {
        let (image, rest) = (Arc::clone(image), range.clone());
        let read = tokio::task::spawn_blocking(move || read(&image, &rest, is_packed)).await;
        let chunk = read.unwrap_or_else(|_| Err(io::Error::other("reading panicked")));
        let done = chunk.as_ref().map(|chunk| chunk.plain_bytes);
        let done = done.inspect_err(|error| tracing::warn!(%error, "an answer ends early"));
        let done = done.ok();
        give(chunk, sender, stalled).await?;
        range.start = range.start.saturating_add(done?);
    }
    Some(())
}

async fn give(
    chunk: io::Result<Chunk>,
    sender: &mpsc::Sender<io::Result<Chunk>>,
    stalled: &Notify,
) -> Option<()> {
    let sent = timeout(CHUNK_TIMEOUT, sender.send(chunk)).await;
    sent.inspect_err(|_| stalled.notify_one()).ok()?.ok()
}

/// Reads the first chunk of a part of an image.
fn read(image: &Image, range: &Range<u64>, is_packed: bool) -> io::Result<Chunk> {
    let (bytes, end) = if is_packed {
        frame::first(image, range)?
    } else {
        let end = range.start.saturating_add(CHUNK_BYTES).min(range.end);
        (image.read(&(range.start..end))?.into(), end)
    };
    Ok(Chunk {
        bytes,
        plain_bytes: end.saturating_sub(range.start),
    })
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = std::task::ready!(self.chunks.poll_recv(context));
        if let Some(Ok(chunk)) = &chunk {
            self.left_bytes = self.left_bytes.saturating_sub(chunk.plain_bytes);
        }
        let frame = match chunk {
            // The client must not take a part for the whole.
            None if self.left_bytes > 0 => Some(Err(io::Error::other("the answer is incomplete"))),
            other => other.map(|chunk| chunk.map(|chunk| Frame::data(chunk.bytes))),
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_packed {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.left_bytes)
    }
}
