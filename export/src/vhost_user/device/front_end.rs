//! The back-end channel: messages from the device to the front end.
//!
//! The front end sends a socket for them. `vhost` keeps that socket to itself and cannot send the
//! message that we need, so we peek at each message before `vhost` reads it.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send,
};
use vhost::vhost_user::message::{BackendReq, FrontendReq};

/// The length of a message's number, its first field, in native byte order.
const NUMBER_BYTES: usize = 4;

/// The protocol's version, which is part of every message's flags.
const VERSION: u32 = 1;

/// The socket for messages to the front end.
#[derive(Debug)]
pub struct FrontEnd(OwnedFd);

impl FrontEnd {
    /// Waits for the next message without consuming it. Returns the socket that comes with it, if
    /// it is the one for messages to the front end.
    pub(super) fn peek_socket(stream: &UnixStream) -> Option<Self> {
        let mut number = [0; NUMBER_BYTES];
        let (_, len) = retry_interrupted(|| recv(stream, &mut number[..], RecvFlags::PEEK)).ok()?;
        let is_it = u32::from_ne_bytes(number) == u32::from(FrontendReq::SET_BACKEND_REQ_FD);
        if len < NUMBER_BYTES || !is_it {
            return None;
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::PEEK | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(&mut number)];
        retry_interrupted(|| recvmsg(stream, &mut parts, &mut control, flags)).ok()?;
        control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next().map(Self),
            _ => None,
        })
    }

    /// Makes the front end read the configuration space again and notify its guest. Does not block.
    ///
    /// # Errors
    /// Fails if the front end has ended or does not read its messages.
    pub fn config_changed(&self) -> io::Result<()> {
        let mut message = Vec::with_capacity(12);
        for field in [BackendReq::CONFIG_CHANGE_MSG.into(), VERSION, 0] {
            message.extend_from_slice(&field.to_ne_bytes());
        }
        // The front end may have sent any descriptor; sending fails if it isn't a socket.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match retry_interrupted(|| send(&self.0, &message, flags))? {
            sent if sent == message.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

fn retry_interrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read, Write};
    use std::os::fd::AsFd;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};

    use super::*;

    fn send_socket(stream: &UnixStream, number: u32, socket: &impl AsFd) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let sockets = [socket.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&sockets)));
        let message = [number.to_ne_bytes(), [1, 0, 0, 0], [0; 4]].concat();
        let parts = [IoSlice::new(&message)];
        sendmsg(stream, &parts, &mut control, SendFlags::empty()).unwrap();
    }

    #[test]
    fn the_socket_is_found_and_the_message_stays() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (mut hears, speaks) = UnixStream::pair().unwrap();
        send_socket(&theirs, 21, &speaks);
        drop(speaks);
        let front_end = FrontEnd::peek_socket(&ours).unwrap();
        let mut message = [0; 12];
        ours.read_exact(&mut message).unwrap();
        assert_eq!(message[0], 21);
        front_end.config_changed().unwrap();
        hears.read_exact(&mut message).unwrap();
        assert_eq!(message, [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        drop(hears);
        assert!(front_end.config_changed().is_err());
    }

    #[test]
    fn other_messages_bring_none_and_other_files_take_nothing() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        send_socket(&theirs, 20, &file);
        assert!(FrontEnd::peek_socket(&ours).is_none());
        let mut message = [0; 12];
        (&ours).read_exact(&mut message).unwrap();
        send_socket(&theirs, 21, &file);
        let front_end = FrontEnd::peek_socket(&ours).unwrap();
        assert!(front_end.config_changed().is_err());
        assert_eq!(file.metadata().unwrap().len(), 0);
        (&ours).read_exact(&mut message).unwrap();
        theirs.write_all(&[21, 0]).unwrap();
        assert!(FrontEnd::peek_socket(&ours).is_none());
    }
}
