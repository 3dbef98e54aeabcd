//! Programs that run there.

use std::sync::Arc;

use diskfs_vfs::{Error, ErrorKind, Result};

use super::connection::{Call, Connection, MISMATCH, done};
use super::{Client, Remote};
use crate::protocol::{
    Ended, MAX_BULK, MAX_OUTPUT, Place, Program, Reply, Request, Stream, Violation,
};

/// A program that was started there. Dropped, it goes on.
#[derive(Debug, Clone)]
pub struct Running {
    connection: Arc<Connection>,
    program: u32,
}

/// What a program did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened<'b> {
    /// It wrote this.
    Wrote(Stream, &'b [u8]),
    /// It ended; this is told once.
    Ended(Ended),
}

impl Remote {
    /// A directory of the system whose root is at `root` in it, as [`Client::bind`] and
    /// [`Client::start`] take it.
    pub fn place(&self, root: impl Into<Vec<u8>>, path: impl Into<Vec<u8>>) -> Place {
        Place {
            filesystem: self.filesystem,
            root: root.into(),
            path: path.into(),
        }
    }
}

impl Client {
    /// Shows a directory at a second place, for programs.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    pub fn bind(&self, from: Place, to: Place) -> Result<()> {
        let call = Call::new(Request::Bind { from, to });
        self.connection.call(call, done)
    }

    /// Sets the machine's network up, for programs.
    ///
    /// # Errors
    /// `Unsupported` when it has none.
    pub fn connect_network(&self) -> Result<()> {
        self.connection.call(Call::new(Request::Connect), done)
    }

    /// Starts a program with this root directory. What is known of the filesystems there may be wrong
    /// from then on: programs change files without telling.
    ///
    /// # Errors
    /// `NotFound` without the program, `Denied` when it may not be run, `Unsupported` when it is for
    /// another architecture; `Busy` when too many run already.
    pub fn start(&self, root: Place, program: Program) -> Result<Running> {
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
    /// How much there must be room for in [`output`](Self::output).
    pub const ROOM: usize = MAX_OUTPUT;

    /// Waits until it has written something or has ended. One thread at a time asks.
    ///
    /// # Errors
    /// `Invalid` without [`ROOM`](Self::ROOM); `NotFound` when it was told that it has ended; `Io` when
    /// the machine is gone.
    pub fn output<'b>(&self, room: &'b mut [u8]) -> Result<Happened<'b>> {
        if room.len() < Self::ROOM {
            let reason = "there is no room for a program's output";
            return Err(Error::new(ErrorKind::Invalid, reason));
        }
        let call = Call {
            request: Request::Output {
                program: self.program,
            },
            data: &[],
            into: room,
        };
        let told = self.connection.call(call, |answer| match answer.reply {
            Reply::Output { stream } if !answer.bulk.is_empty() => {
                Ok(Told::Wrote(stream, answer.bulk.len()))
            }
            Reply::Ended(ended) if answer.bulk.is_empty() => Ok(Told::Ended(ended.checked()?)),
            _ => Err(MISMATCH),
        })?;
        Ok(match told {
            Told::Wrote(stream, len) => {
                Happened::Wrote(stream, room.get(..len).unwrap_or_default())
            }
            Told::Ended(ended) => Happened::Ended(ended),
        })
    }

    /// Waits until it has ended, and hands on what it writes until then.
    ///
    /// # Errors
    /// As [`output`](Self::output), and those of `take`, after which it goes on.
    pub fn wait<E: From<Error>>(
        &self,
        mut take: impl FnMut(Stream, &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<Ended, E> {
        let mut room = vec![0; Self::ROOM];
        loop {
            match self.output(&mut room)? {
                Happened::Wrote(stream, bytes) => take(stream, bytes)?,
                Happened::Ended(ended) => return Ok(ended),
            }
        }
    }

    /// Writes all of this to its standard input.
    ///
    /// # Errors
    /// `Io` when it does not read it any more; `NotFound` when it has ended.
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
                .ok_or(Violation("more was taken than there was, or nothing")),
            _ => Err(MISMATCH),
        })
    }

    /// Lets its standard input end.
    ///
    /// # Errors
    /// `NotFound` when it has ended.
    pub fn close_input(&self) -> Result<()> {
        let call = Call::new(Request::Input {
            program: self.program,
        });
        self.connection.call(call, done)
    }

    /// Sends a signal to it and to what it started.
    ///
    /// # Errors
    /// `NotFound` when it has ended.
    pub fn signal(&self, signal: i32) -> Result<()> {
        let call = Call::new(Request::Signal {
            program: self.program,
            signal,
        });
        self.connection.call(call, done)
    }
}

enum Told {
    Wrote(Stream, usize),
    Ended(Ended),
}
