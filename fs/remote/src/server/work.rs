//! The threads that answer requests.

use std::io::{self, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};

use crate::protocol::{
    AgentHello, Checked, Frame, FrameReader, Head, HostHello, Request, Violation, decode,
    write_frame,
};

use super::answer::{Answer, Scratch, ServerState, answer};
use super::filesystems::Filesystems;
use super::machine::Machine;
use super::programs::Programs;

/// The number of requests that are handled at once. Most of them wait for the device or for an
/// fsync, and reads must continue beside all the fsyncs that FUSE's threads (a handful) can
/// request.
const WORKERS: usize = 16;

/// The way in which serving ended. Everything is unmounted then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The client requested it.
    ShutDown,
    /// The stream ended.
    Lost,
}

/// Answers requests from `reader` on `writer`, until the client requests a shutdown or disconnects.
///
/// # Errors
/// Fails if the stream fails or the client breaks the protocol; everything is unmounted then, too.
pub fn serve(
    reader: impl Read + Send,
    mut writer: impl Write + Send,
    machine: &dyn Machine,
) -> io::Result<Ending> {
    let mut frames = FrameReader::new(reader);
    let Some(host_hello) = read_host_hello(&mut frames)? else {
        return Ok(Ending::Lost);
    };
    if let Ok(host_hello) = &host_hello {
        machine.on_handshake(host_hello);
    }
    let mut hello = Frame::default();
    let introduction = AgentHello::new(machine.about(), machine.area().is_some());
    hello.fill(0, &introduction, 0)?;
    write_frame(&mut writer, hello.bytes(), &[])?;
    // A client of another version was already sent our hello, with the version.
    host_hello.map_err(invalid)?;
    let server = Server {
        state: ServerState {
            machine,
            filesystems: Filesystems::default(),
            programs: Programs::default(),
            ending: Mutex::default(),
        },
        reader: Mutex::new(Source {
            frames,
            ending: None,
        }),
        writer: Mutex::new(writer),
        idle: Mutex::default(),
    };
    thread::scope(|scope| {
        for _ in 1..WORKERS {
            scope.spawn(|| server.work(scope));
        }
        server.work(scope);
        // This ends the threads that wait for a program.
        server.state.end_programs();
    });
    let unmounted = server.state.filesystems.unmount_all();
    let ending = lock(&server.reader).ending.take();
    let ending = ending.unwrap_or(Ok(Ending::Lost))?;
    unmounted.map_err(io::Error::other)?;
    Ok(ending)
}

/// Reads the host's first frame. Returns `None` at the end of the stream.
fn read_host_hello(frames: &mut FrameReader<impl Read>) -> io::Result<Option<Checked<HostHello>>> {
    let Some(head) = frames.head()? else {
        return Ok(None);
    };
    if head.bulk_len != 0 {
        return Err(invalid(Violation("invalid handshake from the host")));
    }
    let mut message = Vec::new();
    frames.message(&head, &mut message)?;
    Ok(Some(HostHello::decode(&message)))
}

fn invalid(violation: Violation) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, violation)
}

struct Server<'m, R, W> {
    state: ServerState<'m>,
    reader: Mutex<Source<R>>,
    writer: Mutex<W>,
    /// The buffers that no thread uses: so many as were used at once, because each may grow to
    /// megabytes.
    idle: Mutex<Vec<Scratch>>,
}

struct Source<R> {
    frames: FrameReader<R>,
    ending: Option<io::Result<Ending>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R: Read + Send, W: Write + Send> Server<'_, R, W> {
    /// Handles requests. Normally the next thread may read the next request before this one is
    /// answered. A quick request is answered first, because waking another thread would cost as
    /// much.
    fn work<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        loop {
            let mut source = lock(&self.reader);
            let mut scratch = lock(&self.idle).pop().unwrap_or_default();
            loop {
                if source.ending.is_some() {
                    return;
                }
                let head = match source.receive(&mut scratch) {
                    Ok(Some(head)) => head,
                    Ok(None) => {
                        source.ending = Some(Ok(Ending::Lost));
                        return;
                    }
                    Err(error) => {
                        source.ending = Some(Err(error));
                        return;
                    }
                };
                let is_alone = source.frames.buffered() == 0;
                let message = std::mem::take(&mut scratch.message);
                let request = match decode::<Request<'_>>(&message) {
                    Ok(request) => request,
                    Err(violation) => {
                        source.ending = Some(Err(invalid(violation)));
                        return;
                    }
                };
                let ends = matches!(request, Request::ShutDown);
                if ends {
                    source.ending = Some(Ok(Ending::ShutDown));
                }
                if request.waits_for_a_program() {
                    scratch.message = message;
                    let scratch = std::mem::take(&mut scratch);
                    scope.spawn(move || self.answer_alone(&head, scratch));
                    continue;
                }
                if is_alone && is_quick(&request) {
                    self.answer(&head, request, &mut scratch);
                    scratch.message = message;
                    continue;
                }
                drop(source);
                self.answer(&head, request, &mut scratch);
                scratch.message = message;
                lock(&self.idle).push(scratch);
                break;
            }
        }
    }

    /// Answers a request that may wait without limit, on a thread of its own.
    fn answer_alone(&self, head: &Head, mut scratch: Scratch) {
        let message = std::mem::take(&mut scratch.message);
        if let Ok(request) = decode(&message) {
            self.answer(head, request, &mut scratch);
        }
    }

    fn answer(&self, head: &Head, request: Request<'_>, scratch: &mut Scratch) {
        let Answer { frame, bulk } = answer(&self.state, head, request, scratch);
        let written = write_frame(&mut *lock(&self.writer), frame, bulk);
        if written.is_err() {
            // Nobody receives the answer. The next thread that reads notices that; a stream on
            // which only one direction fails is given up at its next message.
            self.state.filesystems.unmount_all().ok();
        }
    }
}

/// Returns true if a request waits for nothing, or at most for few reads of the device.
fn is_quick(request: &Request<'_>) -> bool {
    use crate::protocol::Operation as O;
    let Request::In { operation, .. } = request else {
        return false;
    };
    matches!(
        operation,
        O::Lookup { .. }
            | O::Metadata { .. }
            | O::List { .. }
            | O::ReadLink { .. }
            | O::Xattr { .. }
            | O::ListXattrs { .. }
            | O::Create { .. }
            | O::Link { .. }
            | O::SetMetadata { .. }
    )
}

impl<R: Read> Source<R> {
    /// Reads the next request and its bulk. Returns `None` at the end of the stream.
    fn receive(&mut self, scratch: &mut Scratch) -> io::Result<Option<Head>> {
        let Some(head) = self.frames.head()? else {
            return Ok(None);
        };
        self.frames.message(&head, &mut scratch.message)?;
        // Bulk in the area is copied by the thread that answers, while the next thread reads on.
        if !head.is_apart {
            self.frames.take(scratch.bulk.room(head.bulk_len))?;
        }
        Ok(Some(head))
    }
}
