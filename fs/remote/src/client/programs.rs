//! Programs that run in the machine of the agent.

use std::sync::Arc;

use diskfs_vfs::{Error, ErrorKind, Result};

use super::connection::{Call, Connection, MISMATCH, done};
use super::{Client, Remote};
use crate::protocol::{
    Ended, MAX_BULK, MAX_OUTPUT, Program, ProgramDir, Reply, Request, Stream, TerminalSize,
    Violation,
};

/// A program that was started there. Dropping this does not end it.
#[derive(Debug, Clone)]
pub struct Running {
    connection: Arc<Connection>,
    program: u32,
}

/// An event of a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEvent<'b> {
    /// The program has written this.
    Wrote(Stream, &'b [u8]),
    /// The program has ended; this is returned once.
    Ended(Ended),
}

impl Remote {
    /// Returns the directory `path` of the system whose root directory in this filesystem is
    /// `root`, for [`Client::bind`] and [`Client::start`].
    pub fn program_dir(&self, root: impl Into<Vec<u8>>, path: impl Into<Vec<u8>>) -> ProgramDir {
        ProgramDir {
            filesystem: self.filesystem,
            root: root.into(),
            path: path.into(),
        }
    }
}

impl Client {
    /// Bind-mounts a directory at a second place, for programs.
    ///
    /// # Errors
    /// Fails with `NotFound` or `NotADirectory`.
    pub fn bind(&self, from: ProgramDir, to: ProgramDir) -> Result<()> {
        let call = Call::new(Request::Bind { from, to });
        self.connection.call(call, done)
    }

    /// Sets up the machine's network, for programs.
    ///
    /// # Errors
    /// Fails with `Unsupported` if it has none.
    pub fn connect_network(&self) -> Result<()> {
        self.connection.call(Call::new(Request::Connect), done)
    }

    /// Starts a program with this root directory. From then on, cached data of the filesystems
    /// there may be stale: programs change files without notice.
    ///
    /// # Errors
    /// Fails with `NotFound` if the program does not exist, `Denied` if it may not be executed,
    /// `Unsupported` if it is for another architecture, and `Busy` if too many programs run.
    pub fn start(&self, root: ProgramDir, program: Program) -> Result<Running> {
        let call = Call::new(Request::Start { root, program });
        let program = self.connection.call(call, |answer| match answer.reply {
            Reply::Started { program } => Ok(program),
            _ => Err(MISMATCH),
        })?;
        Ok(Running {
            connection: Arc::clone(&self.connection),
            program,
        })
    }
}

impl Running {
    /// The minimum length of the buffer for [`output`](Self::output).
    pub const ROOM: usize = MAX_OUTPUT;

    /// Waits until the program has written something or has ended. Only one thread at a time may
    /// call this.
    ///
    /// # Errors
    /// Fails with `Invalid` if the buffer is smaller than [`ROOM`](Self::ROOM), with `NotFound`
    /// after the end was returned, and with `Io` if the machine is gone.
    pub fn output<'b>(&self, room: &'b mut [u8]) -> Result<ProgramEvent<'b>> {
        if room.len() < Self::ROOM {
            let reason = "buffer for a program's output is too small";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let call = Call {
            request: Request::Output {
                program: self.program,
            },
            data: &[],
            into: room,
        };
        let event = self.connection.call(call, |answer| match answer.reply {
            Reply::Output { stream } if !answer.bulk.is_empty() => {
                Ok(ReceivedEvent::Wrote(stream, answer.bulk.len()))
            }
            Reply::Ended(ended) if answer.bulk.is_empty() => {
                Ok(ReceivedEvent::Ended(ended.checked()?))
            }
            _ => Err(MISMATCH),
        })?;
        Ok(match event {
            ReceivedEvent::Wrote(stream, len) => {
                ProgramEvent::Wrote(stream, room.get(..len).unwrap_or_default())
            }
            ReceivedEvent::Ended(ended) => ProgramEvent::Ended(ended),
        })
    }

    /// Waits until the program has ended, and passes on what it writes until then.
    ///
    /// # Errors
    /// Fails for the same reasons as [`output`](Self::output), and with the errors of `take`; the
    /// program then continues.
    pub fn wait<E: From<Error>>(
        &self,
        mut take: impl FnMut(Stream, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Ended, E> {
        let mut room = vec![0; Self::ROOM];
        loop {
            match self.output(&mut room)? {
                ProgramEvent::Wrote(stream, bytes) => take(stream, bytes)?,
                ProgramEvent::Ended(ended) => return Ok(ended),
            }
        }
    }

    /// Writes all of this to the program's standard input.
    ///
    /// # Errors
    /// Fails with `Io` if the program does not read it any more, and with `NotFound` if it has
    /// ended.
    pub fn input(&self, data: &[u8]) -> Result<()> {
        let mut left = data;
        while !left.is_empty() {
            let chunk = left.get(..left.len().min(MAX_BULK)).unwrap_or_default();
            let taken = self.send_input(chunk)?;
            left = left.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    fn send_input(&self, chunk: &[u8]) -> Result<usize> {
        let call = Call {
            request: Request::Input {
                program: self.program,
            },
            data: chunk,
            into: &mut [],
        };
        self.connection.call(call, |answer| match answer.reply {
            Reply::Written { len } => usize::try_from(len)
                .ok()
                .filter(|len| (1..=chunk.len()).contains(len))
                .ok_or(Violation("invalid number of bytes taken from the input")),
            _ => Err(MISMATCH),
        })
    }

    /// Closes the program's standard input.
    ///
    /// # Errors
    /// Fails with `NotFound` if it has ended.
    pub fn close_input(&self) -> Result<()> {
        let call = Call::new(Request::Input {
            program: self.program,
        });
        self.connection.call(call, done)
    }

    /// Sends a signal to the program and its process group.
    ///
    /// # Errors
    /// Fails with `NotFound` if it has ended.
    pub fn signal(&self, signal: i32) -> Result<()> {
        let call = Call::new(Request::Signal {
            program: self.program,
            signal,
        });
        self.connection.call(call, done)
    }

    /// Tells the program that its terminal has another size.
    ///
    /// # Errors
    /// Fails with `NotFound` if it has ended, and with `Invalid` if it has no terminal.
    pub fn resize(&self, size: TerminalSize) -> Result<()> {
        let call = Call::new(Request::Resize {
            program: self.program,
            size,
        });
        self.connection.call(call, done)
    }
}

enum ReceivedEvent {
    Wrote(Stream, usize),
    Ended(Ended),
}
