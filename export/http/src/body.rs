//! The bytes of an answer: parts of a file, read while the client takes them.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::images::Image;
use crate::version::Version;

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
}

impl Piece {
    /// Returns the length in bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        match self {
            Self::Text(text) => diskfs_block::len_of(text),
            Self::File(range) => range.end.saturating_sub(range.start),
        }
    }
}

/// A body of known length.
#[derive(Debug)]
pub(crate) struct FileBody {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    left_bytes: u64,
}

impl FileBody {
    /// Starts to read the pieces of an image. `stalled` is notified if the client takes them too
    /// slowly.
    pub(crate) fn new(image: Image, pieces: Vec<Piece>, stalled: Arc<Notify>) -> Self {
        let lens = pieces.iter().map(Piece::len_bytes);
        let left_bytes = lens.fold(0, u64::saturating_add);
        let (sender, chunks) = mpsc::channel(1);
        tokio::spawn(async move {
            let image = Arc::new(image);
            for piece in pieces {
                if send(&image, piece, &sender, &stalled).await.is_none() {
                    break;
                }
            }
        });
        Self { chunks, left_bytes }
    }
}

/// Sends a piece. Returns `None` if the rest must not follow.
async fn send(
    image: &Arc<Image>,
    piece: Piece,
    sender: &mpsc::Sender<io::Result<Bytes>>,
    stalled: &Notify,
) -> Option<()> {
    let range = match piece {
        Piece::Text(text) => return give(Ok(text), sender, stalled).await,
        Piece::File(range) => range,
    };
    let mut at = range.start;
    while at < range.end {
        let end = at.saturating_add(CHUNK_BYTES).min(range.end);
        let (image, part) = (Arc::clone(image), at..end);
        let read = tokio::task::spawn_blocking(move || read(&image, &part)).await;
        let chunk = read.unwrap_or_else(|_| Err(io::Error::other("reading panicked")));
        if let Err(error) = &chunk {
            tracing::warn!(%error, "an answer ends early");
        }
        let failed = chunk.is_err();
        give(chunk, sender, stalled).await?;
        if failed {
            return None;
        }
        at = end;
    }
    Some(())
}

async fn give(
    chunk: io::Result<Bytes>,
    sender: &mpsc::Sender<io::Result<Bytes>>,
    stalled: &Notify,
) -> Option<()> {
    let sent = timeout(CHUNK_TIMEOUT, sender.send(chunk)).await;
    sent.inspect_err(|_| stalled.notify_one()).ok()?.ok()
}

/// Reads a part of an image, of the version that was opened.
fn read(image: &Image, range: &Range<u64>) -> io::Result<Bytes> {
    let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
    let mut chunk = vec![0; len];
    image.file.read_exact_at(&mut chunk, range.start)?;
    if Version::of(&image.file.metadata()?) != image.version {
        return Err(io::Error::other("the image has changed"));
    }
    Ok(chunk.into())
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
            self.left_bytes = self.left_bytes.saturating_sub(diskfs_block::len_of(chunk));
        }
        let frame = match chunk {
            // The client must not take a part for the whole.
            None if self.left_bytes > 0 => Some(Err(io::Error::other("the answer is incomplete"))),
            other => other.map(|chunk| chunk.map(Frame::data)),
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.left_bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}
