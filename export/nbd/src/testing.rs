//! Sessions with arbitrary peers, for the fuzzers: whatever a peer sends, a session ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use diskfs_block::{BlockWrite, Memory};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;

use crate::client::testing::read_replies;
use crate::server::testing::serve_stream;
use crate::server::{Export, Options};
use crate::stream::Stream;

/// The peer of a session: it sends the bytes, and takes everything.
struct Peer {
    bytes: io::Cursor<Vec<u8>>,
}

impl AsyncRead for Peer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(context, buf)
    }
}

impl AsyncWrite for Peer {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn stream(bytes: &[u8]) -> Stream {
    Stream::other(Peer {
        bytes: io::Cursor::new(bytes.to_vec()),
    })
}

/// The runtime of sessions.
#[derive(Debug)]
pub struct Sessions(Runtime);

impl Sessions {
    /// Starts the runtime.
    ///
    /// # Errors
    /// The errors of starting threads.
    pub fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(2)
            .enable_all()
            .build()?;
        Ok(Self(runtime))
    }

    /// Serves a client that sends these bytes: a handshake, then requests.
    pub fn serve(&self, bytes: &[u8]) {
        let device: Arc<dyn BlockWrite> = Arc::new(Memory::new(vec![1; 256 << 10]));
        let exports = vec![
            Arc::new(Export::writable("", Arc::clone(&device))),
            Arc::new(Export::read_only("other", device).description("read-only")),
        ];
        let options = Options::default();
        let served = serve_stream(stream(bytes), &exports, &options);
        let _ = self.0.block_on(served);
    }

    /// Opens an export of a server that sends these bytes: a handshake, then replies to requests
    /// with the cookies 1 to 16.
    pub fn connect(&self, bytes: &[u8]) {
        self.0.block_on(read_replies(stream(bytes)));
    }
}
