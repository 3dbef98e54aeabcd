//! An agent that sends arbitrary answers to a client's requests.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use diskfs_block::BlockRead;
use diskfs_remote::client::{self, Client};
use diskfs_remote::protocol::{
    About, AgentHello, Ended, Frame, MAX_BULK, MAX_MESSAGE, Program, Stream, TerminalSize,
};
use diskfs_remote::server::{
    self, Location, Machine, MountRequest, ProgramEvent, Running, Served, serve,
};
use diskfs_remote::testing::ask_everything;
use diskfs_vfs::testing::WritableMemoryFs;
use diskfs_vfs::{FsRead, FsWrite, Timestamp};

use crate::Sparse;

/// The time limit of an answer. Answers come from this thread, or never.
const DEADLINE: Duration = Duration::from_secs(10);

/// The maximum length of an input: more than a session needs.
const MAX_INPUT_BYTES: u64 = 1 << 20;

/// The length of a frame's header, and the offset of the request number in it.
const HEAD_BYTES: usize = 16;
const NUMBER_AT: usize = 8;

/// The bit of the length of bulk data that says that the data is in the area, not in the stream. A
/// frame has this bit in the length of its message.
const APART: u32 = 1 << 31;

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
    let area = Some(Arc::new(Area) as Arc<dyn client::BulkArea>);
    if let Ok(client) = Client::connect_beside(area, agent.clone(), agent, DEADLINE) {
        client.on_lost(|| Some("the input ended".to_owned()));
        ask(&client);
        let _ = (client.about(), client.waiting_requests());
    }
}

/// Sends all requests, and mounts once more, only for reading.
fn ask(client: &Client) {
    ask_everything(client);
    let request = MountRequest {
        read_only: true,
        ..MountRequest::new("vda", "xfs")
    };
    if let Ok(fs) = client.mount(&request) {
        let _ = (format!("{client:?} {fs:?}"), fs.identity());
        let _ = fs.unlink(fs.root(), b"f");
    }
}

/// An area of zeroes, which takes everything: contents decide nothing.
#[derive(Debug)]
struct Area;

impl client::BulkArea for Area {
    fn read(&self, _: u64, to: &mut [u8]) -> diskfs_vfs::Result<()> {
        to.fill(0);
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> diskfs_vfs::Result<()> {
        Ok(())
    }
}

impl server::BulkArea for Area {
    fn read(&self, _: u64, to: &mut [u8]) -> io::Result<()> {
        to.fill(0);
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
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
        let head = Head::of(&self.asked)?;
        let number = self.asked.get(NUMBER_AT..HEAD_BYTES)?.try_into().ok()?;
        let len = HEAD_BYTES + head.message_len + head.bulk_in_stream();
        if self.asked.len() < len {
            return None;
        }
        self.asked.drain(..len);
        Some(u64::from_le_bytes(number))
    }

    /// Returns the next length of the input, and whether its bytes are apart.
    fn length(&mut self, at_most: usize) -> Option<(usize, bool)> {
        let length = u32::from_le_bytes(*self.input.get(self.at..)?.first_chunk()?);
        self.at += 4;
        let len = usize::try_from(length & !APART).ok()?;
        Some((len.min(at_most), length & APART != 0))
    }

    /// Returns the next bytes of the input.
    fn bytes(&mut self, len: usize) -> Option<Vec<u8>> {
        let bytes = self.input.get(self.at..)?.get(..len)?.to_vec();
        self.at += len;
        Some(bytes)
    }

    /// Returns the next answer; `None` if there are no more.
    fn next_answer(&mut self) -> Option<Vec<u8>> {
        let number = self.next_request()?;
        if !self.has_said_hello {
            self.has_said_hello = true;
            let mut hello = Frame::default();
            hello
                .fill(number, &AgentHello::new(About::default(), true), 0)
                .ok()?;
            return Some(hello.bytes().to_vec());
        }
        let (message_len, _) = self.length(MAX_MESSAGE)?;
        let message = self.bytes(message_len)?;
        let (bulk_len, is_apart) = self.length(MAX_BULK)?;
        let total = u32::try_from(HEAD_BYTES + message_len + bulk_len).ok()?;
        let flag = if is_apart { APART } else { 0 };
        let mut answer = total.to_le_bytes().to_vec();
        answer.extend((u32::try_from(message_len).ok()? | flag).to_le_bytes());
        answer.extend(number.to_le_bytes());
        answer.extend(message);
        if !is_apart {
            answer.extend(self.bytes(bulk_len)?);
        }
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

/// The lengths in the head of a frame.
#[derive(Debug, Clone, Copy)]
struct Head {
    message_len: usize,
    bulk_len: usize,
    is_apart: bool,
}

impl Head {
    fn of(frame: &[u8]) -> Option<Self> {
        let total = usize::try_from(u32::from_le_bytes(*frame.first_chunk()?)).ok()?;
        let message = u32::from_le_bytes(frame.get(4..8)?.try_into().ok()?);
        let message_len = usize::try_from(message & !APART).ok()?;
        Some(Self {
            message_len,
            bulk_len: total.checked_sub(HEAD_BYTES + message_len)?,
            is_apart: message & APART != 0,
        })
    }

    fn bulk_in_stream(self) -> usize {
        if self.is_apart { 0 } else { self.bulk_len }
    }
}

/// Returns the answers of a real agent to all requests, without an area and with one.
pub(crate) fn seeds() -> [(&'static str, Sparse); 2] {
    [("a session", false), ("a session with an area", true)].map(|(name, has_area)| {
        let input = input_of(&record(has_area).unwrap_or_default()).unwrap_or_default();
        let mut seed = Sparse::zeroes(input.len() as u64);
        seed.write(0, &input);
        (name, seed)
    })
}

/// Returns the input that repeats these frames after the first one, the hello.
fn input_of(mut frames: &[u8]) -> Option<Vec<u8>> {
    let mut input = Vec::new();
    let mut is_hello = true;
    while let Some(head) = Head::of(frames) {
        let (message, rest) = frames
            .get(HEAD_BYTES..)?
            .split_at_checked(head.message_len)?;
        let (bulk, rest) = rest.split_at_checked(head.bulk_in_stream())?;
        if !is_hello {
            let flag = if head.is_apart { APART } else { 0 };
            input.extend(u32::try_from(head.message_len).ok()?.to_le_bytes());
            input.extend(message);
            input.extend((u32::try_from(head.bulk_len).ok()? | flag).to_le_bytes());
            input.extend(bulk);
        }
        (is_hello, frames) = (false, rest);
    }
    Some(input)
}

/// A machine whose filesystem is in memory. Its clock stands still, so that its answers are always the
/// same.
struct Memory {
    area: Option<Area>,
}

impl Machine for Memory {
    fn area(&self) -> Option<&dyn server::BulkArea> {
        self.area.as_ref().map(|area| area as _)
    }

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
fn record(has_area: bool) -> io::Result<Vec<u8>> {
    let (here, there) = UnixStream::pair()?;
    let machine = Memory {
        area: has_area.then_some(Area),
    };
    let area = has_area.then(|| Arc::new(Area) as Arc<dyn client::BulkArea>);
    let server = thread::spawn(move || serve(there.try_clone()?, there, &machine));
    let received = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder(here.try_clone()?, Arc::clone(&received));
    let client = Client::connect_beside(area, recorder, here, DEADLINE);
    let client = client.map_err(io::Error::other)?;
    ask(&client);
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
    fn the_seeds_are_whole_sessions() {
        for ((name, seed), (_, again)) in seeds().into_iter().zip(seeds()) {
            assert!(seed.size_bytes() > 1000, "{name}");
            // Otherwise mutations of it could not be kept.
            assert!(
                seed.to_input() == again.to_input(),
                "{name}: another session"
            );
            let device: Arc<dyn BlockRead> = Arc::new(seed);
            session(&device);
        }
    }
}
