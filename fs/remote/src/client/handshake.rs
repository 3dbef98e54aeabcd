//! How a connection begins.

use std::io::{Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};

use diskfs_vfs::{Error, ErrorKind, Result, Timestamp};
use rustix::rand::{GetRandomFlags, getrandom};

use super::connection::Frames;
use crate::protocol::{Frame, FrameReader, Greeting, Hello, write_frame};

/// The writing end of the stream.
type Writer = Box<dyn Write + Send>;

/// Greets, and waits for the agent's first frame, on a thread that ends with it.
pub(super) fn shake_hands(
    reader: Box<dyn Read + Send>,
    mut writer: Writer,
    deadline: Duration,
) -> Result<(Frames, Writer, Hello)> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let greeting = Greeting {
        now: now().into(),
        seed: random()?,
    };
    let read = move || {
        let told = greet(&mut writer, &greeting)
            .and_then(|()| read_hello(FrameReader::new(reader)))
            .map(|(frames, hello)| (frames, writer, hello));
        // Nobody receives it any more when the deadline has passed.
        sender.send(told).ok();
    };
    thread::Builder::new()
        .name("agent-hello".into())
        .spawn(read)
        .map_err(|error| {
            Error::new(ErrorKind::Io, "a thread can't be started").with_source(error)
        })?;
    match receiver.recv_timeout(deadline) {
        Ok(read) => read,
        Err(RecvTimeoutError::Timeout) => {
            let reason = format!(
                "the agent did not answer within {} s",
                deadline.as_secs_f32()
            );
            Err(Error::new(ErrorKind::Io, reason))
        }
        Err(RecvTimeoutError::Disconnected) => Err(Error::new(
            ErrorKind::Io,
            "the stream of the agent panicked",
        )),
    }
}

/// A clock before 1970 is as good as none.
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
    // So few bytes come at once or not at all (getrandom(2)).
    getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    Ok(bytes)
}

fn greet(writer: &mut Writer, greeting: &Greeting) -> Result<()> {
    let mut frame = Frame::default();
    let written = frame
        .fill(0, greeting, 0)
        .and_then(|()| write_frame(writer, frame.bytes(), &[]));
    written.map_err(|error| {
        Error::new(ErrorKind::Io, "the agent can't be written to").with_source(error)
    })
}

fn read_hello(mut frames: Frames) -> Result<(Frames, Hello)> {
    let failed = |error| Error::new(ErrorKind::Io, "the agent can't be read").with_source(error);
    let head = frames.head().map_err(failed)?;
    let head = head.ok_or_else(|| {
        Error::new(
            ErrorKind::Io,
            "the stream ended before the agent introduced itself",
        )
    })?;
    let mut message = Vec::new();
    frames.message(&head, &mut message).map_err(failed)?;
    let hello = Hello::decode(&message);
    let hello = hello.map_err(|violation| Error::new(ErrorKind::Unsupported, violation.0))?;
    if head.request != 0 || head.bulk_len != 0 || head.is_apart {
        return Err(Error::new(
            ErrorKind::Io,
            "the agent did not introduce itself",
        ));
    }
    Ok((frames, hello))
}
