//! The other direction: what the front end is told without having asked.
//!
//! It gives us a socket for that. `vhost` keeps that socket to itself and has no way to say what we have to
//! say, so it is looked for in what comes before `vhost` takes it.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send,
};
use vhost::vhost_user::message::{BackendReq, FrontendReq};

/// A message's number is its first field, in this machine's order of bytes.
const NUMBER_BYTES: usize = 4;

/// The version of the protocol, which all messages have in their flags.
const VERSION: u32 = 1;

/// Where the front end hears us.
#[derive(Debug)]
pub struct FrontEnd(OwnedFd);

impl FrontEnd {
    /// The one whose socket comes with the next message, which stays where it is. Waits for a message.
    pub(super) fn coming(stream: &UnixStream) -> Option<Self> {
        let mut number = [0; NUMBER_BYTES];
        let (_, len) = again(|| recv(stream, &mut number[..], RecvFlags::PEEK)).ok()?;
        let is_it = u32::from_ne_bytes(number) == u32::from(FrontendReq::SET_BACKEND_REQ_FD);
        if len < NUMBER_BYTES || !is_it {
            return None;
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::PEEK | RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(&mut number)];
        again(|| recvmsg(stream, &mut parts, &mut control, flags)).ok()?;
        control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next().map(Self),
            _ => None,
        })
    }

    /// Has it read the configuration space again, and tell its guest. Waits for nothing.
    ///
    /// # Errors
    /// When it has gone, or does not listen.
    pub fn config_changed(&self) -> io::Result<()> {
        let mut message = Vec::with_capacity(12);
        for field in [BackendReq::CONFIG_CHANGE_MSG.into(), VERSION, 0] {
            message.extend_from_slice(&field.to_ne_bytes());
        }
        // It is whatever the front end has sent: one that is no socket takes nothing.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match again(|| send(&self.0, &message, flags))? {
            sent if sent == message.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
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

    fn say(stream: &UnixStream, number: u32, socket: &impl AsFd) {
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
        say(&theirs, 21, &speaks);
        drop(speaks);
        let front_end = FrontEnd::coming(&ours).unwrap();
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
        say(&theirs, 20, &file);
        assert!(FrontEnd::coming(&ours).is_none());
        let mut message = [0; 12];
        (&ours).read_exact(&mut message).unwrap();
        say(&theirs, 21, &file);
        let front_end = FrontEnd::coming(&ours).unwrap();
        assert!(front_end.config_changed().is_err());
        assert_eq!(file.metadata().unwrap().len(), 0);
        (&ours).read_exact(&mut message).unwrap();
        theirs.write_all(&[21, 0]).unwrap();
        assert!(FrontEnd::coming(&ours).is_none());
    }
}
