//! The handshake at the beginning of a connection.

use std::io::{Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use diskfs_vfs::{Error, ErrorKind, Result, Timestamp};
use rustix::rand::{GetRandomFlags, getrandom};

use super::connection::Frames;
use crate::protocol::{AgentHello, Frame, FrameReader, HostHello, write_frame};

/// The write half of the stream.
type Writer = Box<dyn Write + Send>;

/// Performs the handshake on a thread of its own that ends with it, so that a deadline can apply.
pub(super) fn shake_hands(
    reader: Box<dyn Read + Send>,
    mut writer: Writer,
    deadline: Duration,
) -> Result<(Frames, Writer, AgentHello)> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let host_hello = HostHello {
        now: now().into(),
        seed: random()?,
    };
    let read = move || {
        let answered = send_host_hello(&mut writer, &host_hello)
            .and_then(|()| read_hello(FrameReader::new(reader)))
            .map(|(frames, hello)| (frames, writer, hello));
        // Fails if the deadline has passed and nobody receives.
        sender.send(answered).ok();
    };
    thread::Builder::new()
        .name("agent-hello".into())
        .spawn(read)
        .map_err(|error| Error::new(ErrorKind::Io, "cannot start a thread").with_source(error))?;
    match receiver.recv_timeout(deadline) {
        Ok(read) => read,
        Err(RecvTimeoutError::Timeout) => {
            let reason = format!(
                "the agent did not answer within {} s",
                deadline.as_secs_f32()
            );
            Err(Error::new(ErrorKind::Io, reason))
        }
        Err(RecvTimeoutError::Disconnected) => {
            Err(Error::new(ErrorKind::Io, "the handshake thread panicked"))
        }
    }
}

/// Returns the time; a clock before 1970 counts as 1970.
fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(now.as_secs()).unwrap_or_default(),
        nanoseconds: now.subsec_nanos(),
    }
}

fn random() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    // So few bytes are returned completely or not at all (getrandom(2)).
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    Ok(bytes)
}

fn send_host_hello(writer: &mut Writer, host_hello: &HostHello) -> Result<()> {
    let mut frame = Frame::default();
    let written = frame
        .fill(0, host_hello, 0)
        .and_then(|()| write_frame(writer, frame.bytes(), &[]));
    written
        .map_err(|error| Error::new(ErrorKind::Io, "cannot write to the agent").with_source(error))
}

fn read_hello(mut frames: Frames) -> Result<(Frames, AgentHello)> {
    let failed = |error| Error::new(ErrorKind::Io, "cannot read from the agent").with_source(error);
    let head = frames.head().map_err(failed)?;
    let head =
        head.ok_or_else(|| Error::new(ErrorKind::Io, "the stream ended during the handshake"))?;
    let mut message = Vec::new();
    frames.message(&head, &mut message).map_err(failed)?;
    let hello = AgentHello::decode(&message);
    let hello = hello.map_err(|violation| Error::new(ErrorKind::Unsupported, violation.0))?;
    if head.request != 0 || head.bulk_len != 0 || head.is_apart {
        return Err(Error::new(
            ErrorKind::Io,
            "invalid handshake: the first frame of the agent is not its hello",
        ));
    }
    Ok((frames, hello))
}
