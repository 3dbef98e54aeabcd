//! An agent that sends arbitrary answers to a client's requests.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use diskfs_block::BlockRead;
use diskfs_remote::client::Client;
use diskfs_remote::protocol::{
    About, AgentHello, Ended, Frame, MAX_BULK, MAX_MESSAGE, Program, Stream, TerminalSize,
};
use diskfs_remote::server::{
    Location, Machine, MountRequest, ProgramEvent, Running, Served, serve,
};
use diskfs_remote::testing::ask_everything;
use diskfs_vfs::Timestamp;
use diskfs_vfs::testing::WritableMemoryFs;

use crate::Sparse;

/// The time limit of an answer. Answers come from this thread, or never.
const DEADLINE: Duration = Duration::from_secs(10);

/// The maximum length of an input: more than a session needs.
const MAX_INPUT_BYTES: u64 = 1 << 20;

/// The length of a frame's header, and the offset of the request number in it.
const HEAD_BYTES: usize = 16;
const NUMBER_AT: usize = 8;

/// Runs a session with an agent whose answers are the input: pairs of a message and its bulk data,
/// each with its length (u32, little-endian) before it. They are sent in valid frames.
pub(crate) fn session(device: &Arc<dyn BlockRead>) {
    let len = device.size_bytes().min(MAX_INPUT_BYTES);
    let mut input = vec![0; usize::try_from(len).unwrap_or_default()];
    if device.read_at(0, &mut input).is_err() {
        return;
    }
    let line = Arc::new(Mutex::new(Line {
        input,
        ..Line::default()
    }));
    let agent = Agent(line);
    if let Ok(client) = Client::connect(agent.clone(), agent, DEADLINE) {
        ask_everything(&client);
    }
}

/// Both directions of the stream.
#[derive(Debug, Clone)]
struct Agent(Arc<Mutex<Line>>);

#[derive(Debug, Default)]
struct Line {
    input: Vec<u8>,
    at: usize,
    /// The bytes of requests that have not been answered.
    asked: Vec<u8>,
    /// The bytes of answers that the client has not read.
    answer: Vec<u8>,
    has_said_hello: bool,
}

impl Line {
    /// Returns the number of the next request, if it is complete.
    fn next_request(&mut self) -> Option<u64> {
        let total = u32::from_le_bytes(*self.asked.first_chunk()?);
        let number = self.asked.get(NUMBER_AT..HEAD_BYTES)?.try_into().ok()?;
        let total = usize::try_from(total).ok()?;
        if self.asked.len() < total {
            return None;
        }
        self.asked.drain(..total);
        Some(u64::from_le_bytes(number))
    }

    /// Returns the next piece of the input.
    fn piece(&mut self, at_most: usize) -> Option<Vec<u8>> {
        let rest = self.input.get(self.at..)?;
        let len = usize::try_from(u32::from_le_bytes(*rest.first_chunk()?)).ok()?;
        let len = len.min(at_most);
        let piece = rest.get(4..)?.get(..len)?.to_vec();
        self.at += 4 + len;
        Some(piece)
    }

    /// Returns the next answer; `None` if there are no more.
    fn next_answer(&mut self) -> Option<Vec<u8>> {
        let number = self.next_request()?;
        if !self.has_said_hello {
            self.has_said_hello = true;
            let mut hello = Frame::default();
            hello
                .fill(number, &AgentHello::new(About::default(), false), 0)
                .ok()?;
            return Some(hello.bytes().to_vec());
        }
        let message = self.piece(MAX_MESSAGE)?;
        let bulk = self.piece(MAX_BULK)?;
        let total = u32::try_from(HEAD_BYTES + message.len() + bulk.len()).ok()?;
        let message_len = u32::try_from(message.len()).ok()?;
        let mut answer = total.to_le_bytes().to_vec();
        answer.extend(message_len.to_le_bytes());
        answer.extend(number.to_le_bytes());
        answer.extend(message);
        answer.extend(bulk);
        Some(answer)
    }
}

impl Agent {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read for Agent {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut line = self.lock();
        if line.answer.is_empty() {
            line.answer = line.next_answer().unwrap_or_default();
        }
        let len = line.answer.len().min(buf.len());
        for (to, from) in buf.iter_mut().zip(line.answer.drain(..len)) {
            *to = from;
        }
        Ok(len)
    }
}

impl Write for Agent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().asked.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the answers of a real agent to all requests.
pub(crate) fn seed() -> Sparse {
    let answers = record().unwrap_or_default();
    let mut input = Vec::new();
    let mut rest = answers.as_slice();
    let mut is_hello = true;
    while let Some((message, bulk, tail)) = split(rest) {
        if !is_hello {
            for piece in [message, bulk] {
                input.extend(u32::try_from(piece.len()).unwrap_or_default().to_le_bytes());
                input.extend(piece);
            }
        }
        (is_hello, rest) = (false, tail);
    }
    let mut seed = Sparse::zeroes(u64::try_from(input.len()).unwrap_or_default());
    seed.write(0, &input);
    seed
}

/// Splits off the first frame. Returns its message, its bulk data, and the rest.
fn split(frames: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let total = usize::try_from(u32::from_le_bytes(*frames.first_chunk()?)).ok()?;
    let message_len = u32::from_le_bytes(frames.get(4..8)?.try_into().ok()?);
    let (frame, tail) = frames.split_at_checked(total)?;
    let (message, bulk) = frame
        .get(HEAD_BYTES..)?
        .split_at_checked(usize::try_from(message_len).ok()?)?;
    Some((message, bulk, tail))
}

/// A machine whose filesystem is in memory. Its clock stands still, so that its answers are always the
/// same.
struct Memory;

impl Machine for Memory {
    fn mount(&self, _: &MountRequest) -> diskfs_vfs::Result<Arc<dyn Served>> {
        Ok(Arc::new(WritableMemoryFs::with_clock(Timestamp::default)))
    }

    fn bind(&self, _: &Location<'_>, _: &Location<'_>) -> diskfs_vfs::Result<()> {
        Ok(())
    }

    fn start(&self, _: &Location<'_>, _: &Program) -> diskfs_vfs::Result<Arc<dyn Running>> {
        Ok(Arc::new(Script::default()))
    }

    fn connect(&self) -> diskfs_vfs::Result<()> {
        Ok(())
    }
}

/// A program that writes to both streams and ends.
#[derive(Default)]
struct Script(AtomicUsize);

impl Running for Script {
    fn output(&self, room: &mut [u8]) -> diskfs_vfs::Result<ProgramEvent> {
        room[..4].copy_from_slice(b"text");
        Ok(match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => ProgramEvent::Wrote(Stream::Output, 4),
            1 => ProgramEvent::Wrote(Stream::Error, 2),
            _ => ProgramEvent::Ended(Ended::Exited(3)),
        })
    }

    fn input(&self, data: &[u8]) -> diskfs_vfs::Result<usize> {
        Ok(data.len().div_ceil(2))
    }

    fn close_input(&self) -> diskfs_vfs::Result<()> {
        Ok(())
    }

    fn signal(&self, _: i32) -> diskfs_vfs::Result<()> {
        Ok(())
    }

    fn resize(&self, _: TerminalSize) -> diskfs_vfs::Result<()> {
        Ok(())
    }
}

/// Records everything that a real agent sends in a session.
fn record() -> io::Result<Vec<u8>> {
    let (here, there) = UnixStream::pair()?;
    let server = thread::spawn(move || serve(there.try_clone()?, there, &Memory));
    let received = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder(here.try_clone()?, Arc::clone(&received));
    let client = Client::connect(recorder, here, DEADLINE).map_err(io::Error::other)?;
    ask_everything(&client);
    client.shut_down().map_err(io::Error::other)?;
    // The result of the server does not matter: its answers have been recorded.
    server.join().ok();
    let received = received.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(received.clone())
}

/// A stream that records what is read from it.
struct Recorder(UnixStream, Arc<Mutex<Vec<u8>>>);

impl Read for Recorder {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.0.read(buf)?;
        let mut received = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        received.extend(buf.get(..len).unwrap_or_default());
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_a_whole_session() {
        let seed = seed();
        assert!(seed.size_bytes() > 1000);
        // Otherwise mutations of it could not be kept.
        let again = super::seed();
        assert!(seed.to_input() == again.to_input(), "another session");
        let device: Arc<dyn BlockRead> = Arc::new(seed);
        session(&device);
    }
}
