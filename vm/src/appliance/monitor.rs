//! QEMU's monitor: the QEMU Machine Protocol (QMP), as far as a machine is saved by it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use diskfs_disk::{Error, ErrorKind, Result};

/// A connection with a monitor, whose machine is ours: what it says is believed.
#[derive(Debug)]
pub(super) struct Monitor {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    /// Those that came while something else was waited for.
    events: Vec<Value>,
    at_most: Duration,
}

impl Monitor {
    /// Takes up a connection; from then on whatever is waited for must come within `at_most`.
    ///
    /// # Errors
    /// When the other end is no monitor.
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
            return Err(Error::new(ErrorKind::Unsupported, "QEMU has no monitor"));
        }
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Has a command executed, and returns what that returned.
    ///
    /// # Errors
    /// `Unsupported` with QEMU's words when it refuses; what the stream meets.
    pub(super) fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let line = json!({ "execute": command, "arguments": arguments });
        writeln!(self.writer, "{line}")?;
        loop {
            let mut answer = self.receive()?;
            if let Some(error) = answer.pointer("/error/desc") {
                let reason = format!("QEMU refuses {command}: {error}");
                return Err(Error::new(ErrorKind::Unsupported, reason));
            }
            match answer.get_mut("return") {
                Some(value) => return Ok(value.take()),
                None => self.events.push(answer),
            }
        }
    }

    /// Waits for an event that `is_it`, and returns its data.
    ///
    /// # Errors
    /// What the stream meets.
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
        let reason = format!("QEMU said nothing for {} s", self.at_most.as_secs_f32());
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
