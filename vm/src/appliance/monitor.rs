//! The client side of QEMU's monitor (QEMU Machine Protocol, QMP), as far as saving a machine needs
//! it.

use std::io::{BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use diskfs_disk::{Error, ErrorKind, Result};

fn command_line(command: &str, arguments: &Value) -> String {
    let line = json!({ "execute": command, "arguments": arguments });
    format!("{line}\n")
}

/// A connection to the monitor of a machine that runs our own kernel; its answers are trusted.
#[derive(Debug)]
pub(super) struct Monitor {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    /// Events that arrived while something else was awaited.
    events: Vec<Value>,
    at_most: Duration,
}

impl Monitor {
    /// Begins a session. From then on each answer must arrive within `at_most`.
    ///
    /// # Errors
    /// Fails if the peer is not a QEMU monitor.
    pub(super) fn begin(stream: UnixStream, at_most: Duration) -> Result<Self> {
        stream.set_read_timeout(Some(at_most))?;
        let mut monitor = Self {
            reader: BufReader::new(stream.try_clone()?),
            writer: stream,
            events: Vec::new(),
            at_most,
        };
        let greeting = monitor.receive()?;
        if greeting.get("QMP").is_none() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the peer is not a QEMU monitor",
            ));
        }
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Executes a command and returns its result.
    ///
    /// # Errors
    /// Fails with `Unsupported` and QEMU's message if QEMU refuses the command; with the stream's
    /// error.
    pub(super) fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        self.writer
            .write_all(command_line(command, arguments).as_bytes())?;
        self.answer(command)
    }

    fn answer(&mut self, command: &str) -> Result<Value> {
        loop {
            let mut answer = self.receive()?;
            if let Some(error) = answer.pointer("/error/desc") {
                let reason = format!("QEMU refused {command}: {error}");
                return Err(Error::new(ErrorKind::Unsupported, reason));
            }
            match answer.get_mut("return") {
                Some(value) => return Ok(value.take()),
                None => self.events.push(answer),
            }
        }
    }

    /// Passes a descriptor to QEMU, which keeps it under this name.
    ///
    /// # Errors
    /// Fails for the same reasons as [`execute`](Self::execute).
    pub(super) fn pass(&mut self, fd: BorrowedFd<'_>, name: &str) -> Result<()> {
        let line = command_line("getfd", &json!({ "fdname": name }));
        let fds = [fd];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        // So few bytes are sent completely or not at all.
        let parts = [IoSlice::new(line.as_bytes())];
        sendmsg(&self.writer, &parts, &mut control, SendFlags::NOSIGNAL)
            .map_err(std::io::Error::from)?;
        self.answer("getfd").map(drop)
    }

    /// Waits for an event for which `is_it` returns true. Returns the event's data.
    ///
    /// # Errors
    /// Fails with the stream's error.
    pub(super) fn wait_for(
        &mut self,
        event: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let mut come = std::mem::take(&mut self.events).into_iter();
        loop {
            let mut next = match come.next() {
                Some(next) => next,
                None => self.receive()?,
            };
            let data = next.get_mut("data").map(Value::take).unwrap_or_default();
            if next.get("event").is_some_and(|name| name == event) && is_it(&data) {
                return Ok(data);
            }
        }
    }

    fn silent(&self, error: std::io::Error) -> Error {
        if error.kind() != std::io::ErrorKind::WouldBlock {
            return error.into();
        }
        let reason = format!(
            "no answer from QEMU within {} s",
            self.at_most.as_secs_f32()
        );
        Error::new(ErrorKind::Unsupported, reason)
    }

    fn receive(&mut self) -> Result<Value> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line);
        if read.map_err(|error| self.silent(error))? == 0 {
            return Err(Error::new(ErrorKind::Unsupported, "QEMU has ended"));
        }
        Ok(serde_json::from_str(&line).map_err(std::io::Error::from)?)
    }
}
