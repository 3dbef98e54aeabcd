//! Sockets that one task reads and any thread writes.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::DirectWrite;

/// A socket that also others write to. Only one task may poll each direction.
pub(super) struct Shared<T>(pub(super) Arc<T>);

/// Writes to a socket without SIGPIPE, which ends programs in C that use our library.
fn send(socket: impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(rustix::net::sendmsg(socket, parts, &mut control, flags)?)
}

/// Implements reading and writing for a kind of socket.
macro_rules! shared {
    ($socket:ty) => {
        impl DirectWrite for $socket {
            fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                self.try_io(Interest::WRITABLE, || send(self, parts))
            }
        }

        impl AsyncRead for Shared<$socket> {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                loop {
                    ready!(self.0.poll_read_ready(context))?;
                    match self.0.try_read(buf.initialize_unfilled()) {
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        Err(e) => return Poll::Ready(Err(e)),
                        Ok(len) => {
                            buf.advance(len);
                            return Poll::Ready(Ok(()));
                        }
                    }
                }
            }
        }

        impl AsyncWrite for Shared<$socket> {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.poll_write_vectored(context, &[IoSlice::new(buf)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                loop {
                    ready!(self.0.poll_write_ready(context))?;
                    match DirectWrite::try_write(&*self.0, parts) {
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        done => return Poll::Ready(done),
                    }
                }
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(
                self: Pin<&mut Self>,
                _context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                _context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Poll::Ready(rustix::net::shutdown(&*self.0, Shutdown::Write).map_err(Into::into))
            }
        }
    };
}

shared!(TcpStream);
shared!(UnixStream);
