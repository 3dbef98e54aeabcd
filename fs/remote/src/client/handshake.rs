//! How a connection begins.

use std::io::Read;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use diskfs_vfs::{Error, ErrorKind, Result};

use super::connection::Frames;
use crate::protocol::{FrameReader, Hello};

/// Waits for the agent's first frame, on a thread that ends with it.
pub(super) fn wait(reader: Box<dyn Read + Send>, deadline: Duration) -> Result<(Frames, Hello)> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let read = move || {
        // Nobody receives it any more when the deadline has passed.
        sender.send(read_hello(FrameReader::new(reader))).ok();
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
