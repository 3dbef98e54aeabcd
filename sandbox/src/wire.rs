//! Frames over a stream socket: a message, a payload, and sometimes a descriptor.
//!
//! A frame is the length of the message (4 bytes), the length of the payload (8 bytes), both
//! little-endian, the message, and the payload. The payload is not part of the message so that
//! large ones are neither encoded nor copied. A descriptor travels with the first byte of its frame.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message: paths have at most 4096 bytes (`PATH_MAX`), and lists at most some hundred
/// names of 255 bytes.
const MESSAGE_MAX_BYTES: usize = 256 << 10;
const HEADER_BYTES: usize = 12;
/// The number of bytes to receive of a frame at first: most frames are shorter.
const FIRST_BYTES: usize = 4 << 10;
/// The number of bytes to receive at once of a frame that is longer.
const PIECE_BYTES: usize = 64 << 10;

/// A received frame.
#[derive(Debug)]
pub(crate) struct Frame<M> {
    pub(crate) message: M,
    pub(crate) payload: Vec<u8>,
}

/// A frame to be sent, with the number of bytes that were sent.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    head: Vec<u8>,
    payload: Cow<'a, [u8]>,
    fd: Option<OwnedFd>,
    sent: usize,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(
        message: &impl Serialize,
        payload: impl Into<Cow<'a, [u8]>>,
        fd: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let payload = payload.into();
        let message = postcard::to_allocvec(message).map_err(invalid)?;
        if message.len() > MESSAGE_MAX_BYTES {
            return Err(invalid("the message is too long"));
        }
        let message_len = u32::try_from(message.len()).map_err(invalid)?;
        let payload_len = u64::try_from(payload.len()).map_err(invalid)?;
        let mut head = Vec::with_capacity(message.len().saturating_add(HEADER_BYTES));
        head.extend(message_len.to_le_bytes());
        head.extend(payload_len.to_le_bytes());
        head.extend(message);
        Ok(Self {
            head,
            payload,
            fd,
            sent: 0,
        })
    }

    /// Sends as much as the socket takes. Returns true once everything is sent; fails with
    /// `WouldBlock` if a non-blocking socket takes nothing at present.
    pub(crate) fn send(&mut self, socket: impl AsFd) -> io::Result<bool> {
        let head = self.head.get(self.sent..).unwrap_or_default();
        let in_payload = self.sent.saturating_sub(self.head.len());
        let payload = self.payload.get(in_payload..).unwrap_or_default();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fd = self.fd.as_ref().filter(|_| self.sent == 0);
        let fds = fd.map(|fd| [fd.as_fd()]);
        if let Some(fds) = &fds {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let parts = [IoSlice::new(head), IoSlice::new(payload)];
        match sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL) {
            Ok(count) => self.sent = self.sent.saturating_add(count),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.sent >= self.head.len().saturating_add(self.payload.len()))
    }

    /// Sends everything over a blocking socket.
    pub(crate) fn send_all(mut self, socket: impl AsFd) -> io::Result<()> {
        while !self.send(&socket)? {}
        Ok(())
    }
}

/// The receiving end of a stream.
#[derive(Debug)]
pub(crate) struct Incoming {
    buffer: Vec<u8>,
    fds: VecDeque<OwnedFd>,
    takes_fds: bool,
    payload_max_bytes: u64,
}

impl Incoming {
    /// Creates the end that receives descriptors, from a peer that is trusted.
    pub(crate) fn with_descriptors(payload_max_bytes: u64) -> Self {
        Self {
            buffer: Vec::new(),
            fds: VecDeque::new(),
            takes_fds: true,
            payload_max_bytes,
        }
    }

    /// Creates the end that receives no descriptors: the kernel discards those that are sent.
    pub(crate) fn without_descriptors(payload_max_bytes: u64) -> Self {
        Self {
            takes_fds: false,
            ..Self::with_descriptors(payload_max_bytes)
        }
    }

    /// Receives what has arrived. Returns false at the end of the stream; fails with `WouldBlock`
    /// if nothing has arrived on a non-blocking socket.
    pub(crate) fn receive(&mut self, socket: impl AsFd) -> io::Result<bool> {
        let old_len = self.buffer.len();
        let piece_len = if old_len == 0 {
            FIRST_BYTES
        } else {
            PIECE_BYTES
        };
        self.buffer.resize(old_len.saturating_add(piece_len), 0);
        let result = self.receive_into(socket, old_len);
        let count = *result.as_ref().unwrap_or(&0);
        self.buffer.truncate(old_len.saturating_add(count));
        Ok(result? > 0)
    }

    fn receive_into(&mut self, socket: impl AsFd, at: usize) -> io::Result<usize> {
        let piece = self.buffer.get_mut(at..).unwrap_or_default();
        let mut parts = [IoSliceMut::new(piece)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = if self.takes_fds {
            RecvAncillaryBuffer::new(&mut space)
        } else {
            RecvAncillaryBuffer::default()
        };
        loop {
            match recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) => {
                    for message in control.drain() {
                        if let RecvAncillaryMessage::ScmRights(fds) = message {
                            self.fds.extend(fds);
                        }
                    }
                    return Ok(received.bytes);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the next frame, if all of it has arrived.
    ///
    /// # Errors
    /// `InvalidData` if the peer breaks the protocol. The lengths are checked as soon as the header
    /// has arrived.
    pub(crate) fn take<M: DeserializeOwned>(&mut self) -> io::Result<Option<Frame<M>>> {
        let Some((header, rest)) = self.buffer.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [a, b, c, d, payload_len @ ..] = *header;
        let message_len = usize::try_from(u32::from_le_bytes([a, b, c, d])).map_err(invalid)?;
        let payload_len = u64::from_le_bytes(payload_len);
        if message_len > MESSAGE_MAX_BYTES || payload_len > self.payload_max_bytes {
            return Err(invalid("a frame is too long"));
        }
        let payload_len = usize::try_from(payload_len).map_err(invalid)?;
        let body_len = message_len.saturating_add(payload_len);
        let Some(body) = rest.get(..body_len) else {
            return Ok(None);
        };
        let message = body.get(..message_len).unwrap_or_default();
        let message = postcard::from_bytes(message).map_err(invalid)?;
        let rest = self.buffer.split_off(body_len.saturating_add(HEADER_BYTES));
        let mut payload = std::mem::replace(&mut self.buffer, rest);
        payload
            .drain(..message_len.saturating_add(HEADER_BYTES))
            .for_each(drop);
        Ok(Some(Frame { message, payload }))
    }

    /// Waits for the next frame of a blocking socket; returns `None` at the end of the stream.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub(crate) fn next<M: DeserializeOwned>(
        &mut self,
        socket: impl AsFd,
    ) -> io::Result<Option<Frame<M>>> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(Some(frame));
            }
            match self.receive(&socket) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the descriptor that came first.
    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front()
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn frames_arrive_with_payload_and_descriptor() {
        let (here, there) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let payload = vec![7; 300_000];
        let sender = std::thread::spawn(move || {
            let frame = Outgoing::new(&"one", &payload[..], Some(file.into())).unwrap();
            frame.send_all(&here).unwrap();
            Outgoing::new(&"two", b"", None).unwrap().send_all(&here)
        });
        let mut incoming = Incoming::with_descriptors(1 << 20);
        let mut frames: Vec<Frame<String>> = Vec::new();
        while incoming.receive(&there).unwrap() {
            while let Some(frame) = incoming.take().unwrap() {
                frames.push(frame);
            }
        }
        sender.join().unwrap().unwrap();
        assert_eq!((frames.len(), frames[0].payload.len()), (2, 300_000));
        assert_eq!((&*frames[0].message, &*frames[1].message), ("one", "two"));
        assert!(incoming.take_descriptor().is_some() && incoming.take_descriptor().is_none());
    }

    #[test]
    fn a_parent_takes_no_descriptors_and_no_long_frames() {
        let (here, there) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let frame = Outgoing::new(&"one", b"long", Some(file.into())).unwrap();
        frame.send_all(&here).unwrap();
        let mut incoming = Incoming::without_descriptors(3);
        assert!(incoming.receive(&there).unwrap());
        assert!(incoming.take_descriptor().is_none());
        let error = incoming.take::<String>().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
