//! The client side of QEMU's monitor (QEMU Machine Protocol, QMP). The peer can be anything: answers
//! have a deadline and a limit on their length.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use diskfs::{Error, ErrorKind, Result};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::{Value, json};

use crate::cli::show::name::message;

/// The time for an answer. QEMU answers within milliseconds, unless it opens a slow disk.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The longest line: more than QEMU's longest answer, the list of hundreds of block nodes.
const LINE_MAX_BYTES: usize = 8 << 20;

/// The most events that are kept. The older ones are dropped.
const EVENTS_MAX: usize = 64;

/// A connection to a monitor.
#[derive(Debug)]
pub(super) struct Qmp {
    path: PathBuf,
    stream: UnixStream,
    /// The bytes that were received after the last line.
    received: Vec<u8>,
    /// The number of bytes at its start that are known to have no end of a line.
    searched: usize,
    /// The events about devices that arrived so far.
    events: VecDeque<Event>,
}

/// An event about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) device: String,
}

/// The answer to a command: what it returns, or QEMU's reason for refusing it.
pub(super) type Answer = std::result::Result<Value, String>;

impl Qmp {
    /// Connects to the monitor at a socket, and begins a session.
    pub(super) fn connect(path: &Path) -> Result<Self> {
        let stream = connected(path).map_err(|error| not_connected(error, path))?;
        stream.set_write_timeout(Some(ANSWER_TIME))?;
        let mut qmp = Self {
            path: path.to_owned(),
            stream,
            received: Vec::new(),
            searched: 0,
            events: VecDeque::new(),
        };
        let greeting = qmp.receive(deadline())?;
        if greeting.is_none() {
            let reason = "QEMU's monitor does not answer";
            let error = Error::new(ErrorKind::Locked, reason).in_file(path);
            return Err(error.with_hint("it serves one client at a time: end the other one"));
        }
        if greeting.is_none_or(|greeting| greeting.get("QMP").is_none()) {
            return Err(qmp.odd("it does not greet like QMP"));
        }
        qmp.must("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Executes a command that must succeed.
    pub(super) fn must(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let answer = self.execute(command, arguments)?;
        answer.map_err(|reason| self.refused(command, &reason))
    }

    /// Returns the error for a command that QEMU has refused.
    pub(super) fn refused(&self, command: &str, reason: &str) -> Error {
        let reason = format!("QEMU refused {command}: {}", message(reason));
        Error::new(ErrorKind::Other, reason).in_file(&self.path)
    }

    /// Executes a command.
    pub(super) fn execute(&mut self, command: &str, arguments: &Value) -> Result<Answer> {
        let line = json!({ "execute": command, "arguments": arguments });
        let written = self.stream.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| Error::from(error).in_file(&self.path))?;
        let end = deadline();
        loop {
            let Some(mut answer) = self.receive(end)? else {
                return Err(self.odd(&format!("no answer to {command} within 10 seconds")));
            };
            if let Some(value) = answer.get_mut("return") {
                return Ok(Ok(value.take()));
            }
            if let Some(error) = answer.get("error") {
                let reason = error.get("desc").and_then(Value::as_str);
                return Ok(Err(reason.unwrap_or("unknown error").to_owned()));
            }
            self.keep(&answer);
        }
    }

    /// Waits for an event about a device; `None` if there is none until `end`.
    pub(super) fn wait_for(
        &mut self,
        names: &[&str],
        device: &str,
        end: Instant,
    ) -> Result<Option<Event>> {
        loop {
            while let Some(event) = self.events.pop_front() {
                if event.device == device && names.contains(&event.name.as_str()) {
                    return Ok(Some(event));
                }
            }
            match self.receive(end)? {
                Some(value) => self.keep(&value),
                None => return Ok(None),
            }
        }
    }

    /// Keeps an event about a device. The device is named by its ID.
    fn keep(&mut self, value: &Value) {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
        let Some((name, device)) = text("/event").zip(text("/data/device")) else {
            return;
        };
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            name: name.to_owned(),
            device: device.to_owned(),
        });
    }

    /// Returns the next object; `None` if none is complete at `end`.
    fn receive(&mut self, end: Instant) -> Result<Option<Value>> {
        loop {
            if let Some(line) = self.line() {
                let line = line.trim_ascii();
                if line.is_empty() {
                    continue;
                }
                let parsed = serde_json::from_slice(line);
                return parsed
                    .map(Some)
                    .map_err(|_| self.odd("it does not send JSON"));
            }
            if self.received.len() > LINE_MAX_BYTES {
                return Err(self.odd("a line is longer than 8 MiB"));
            }
            if !self.fill(end)? {
                return Ok(None);
            }
        }
    }

    /// Takes the first line that was received.
    fn line(&mut self) -> Option<Vec<u8>> {
        let unsearched = self.received.get(self.searched..).unwrap_or_default();
        let Some(found) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.received.len();
            return None;
        };
        let end = self.searched.saturating_add(found);
        self.searched = 0;
        let rest = self.received.split_off(end.saturating_add(1));
        Some(std::mem::replace(&mut self.received, rest))
    }

    /// Receives more bytes. Returns false if there are none until `end`.
    fn fill(&mut self, end: Instant) -> Result<bool> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut buffer = vec![0; 64 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(self.odd("it closed the connection")),
            Ok(len) => {
                self.received
                    .extend_from_slice(buffer.get(..len).unwrap_or_default());
                Ok(true)
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(false),
                io::ErrorKind::Interrupted => Ok(true),
                _ => Err(Error::from(error).in_file(&self.path)),
            },
        }
    }

    /// Returns the error for a peer that does not behave like QEMU.
    fn odd(&self, what: &str) -> Error {
        let reason = format!("unexpected answer of QEMU's monitor: {what}");
        let error = Error::new(ErrorKind::Other, reason).in_file(&self.path);
        error.with_hint("give the socket of `qemu-system-... -qmp unix:SOCKET,server,nowait`")
    }
}

fn deadline() -> Instant {
    Instant::now()
        .checked_add(ANSWER_TIME)
        .unwrap_or_else(Instant::now)
}

/// Connects without waiting for a server that accepts nobody.
fn connected(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn not_connected(error: io::Error, path: &Path) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::ConnectionRefused => "the virtual machine has ended",
        io::ErrorKind::WouldBlock => "it serves one client at a time: end the other one",
        _ => "start QEMU with `-qmp unix:SOCKET,server,nowait`",
    };
    let error = match error.kind() {
        io::ErrorKind::WouldBlock => Error::new(
            ErrorKind::Locked,
            "QEMU's monitor is in use by another program",
        ),
        _ => Error::from(error),
    };
    error.in_file(path).with_hint(hint)
}
