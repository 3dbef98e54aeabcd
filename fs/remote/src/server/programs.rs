//! The running programs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{Error, ErrorKind, Result};

use crate::protocol::{Ended, MAX_PROGRAMS, Stream, TerminalSize};

/// A program that was started. Its methods may be called concurrently.
pub trait Running: Send + Sync {
    /// Waits until the program has written something, which is stored in `room` as far as it fits,
    /// or until it has ended and all its output was returned.
    ///
    /// # Errors
    /// Fails with `Io`.
    fn output(&self, room: &mut [u8]) -> Result<ProgramEvent>;

    /// Waits until the program's standard input takes some of these bytes. Returns how many.
    ///
    /// # Errors
    /// Fails with `Io` if nobody reads the input any more.
    fn input(&self, data: &[u8]) -> Result<usize>;

    /// Closes the program's standard input.
    ///
    /// # Errors
    /// Fails with `Io`.
    fn close_input(&self) -> Result<()>;

    /// Sends a signal to the program. A program that has ended is ignored.
    ///
    /// # Errors
    /// Fails with `Invalid` if the signal can't be sent.
    fn signal(&self, signal: i32) -> Result<()>;

    /// Sets the size of the program's terminal, which tells the program.
    ///
    /// # Errors
    /// Fails with `Invalid` if the program has no terminal.
    fn resize(&self, size: TerminalSize) -> Result<()>;
}

/// An event of a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEvent {
    /// The program has written this many bytes.
    Wrote(Stream, usize),
    /// The program has ended.
    Ended(Ended),
}

/// The running programs by number.
#[derive(Default)]
pub(super) struct Programs {
    state: Mutex<ProgramTable>,
}

#[derive(Default)]
struct ProgramTable {
    last: u32,
    /// The programs by number; `None` while one is being started.
    running: BTreeMap<u32, Option<Arc<dyn Running>>>,
}

impl Programs {
    fn state(&self) -> MutexGuard<'_, ProgramTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the program that `start` starts. Returns its number.
    pub(super) fn add(&self, start: impl FnOnce() -> Result<Arc<dyn Running>>) -> Result<u32> {
        let number = self.reserve()?;
        let started = start();
        let mut state = self.state();
        match started {
            Ok(running) => {
                state.running.insert(number, Some(running));
                Ok(number)
            }
            Err(error) => {
                state.running.remove(&number);
                Err(error)
            }
        }
    }

    fn reserve(&self) -> Result<u32> {
        let mut state = self.state();
        let number = state.last.checked_add(1);
        let number = number.filter(|_| state.running.len() < MAX_PROGRAMS);
        let number = number.ok_or(Error::new(ErrorKind::Busy, "too many running programs"))?;
        state.last = number;
        state.running.insert(number, None);
        Ok(number)
    }

    pub(super) fn get(&self, number: u32) -> Result<Arc<dyn Running>> {
        let found = self.state().running.get(&number).cloned().flatten();
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such program is running"))
    }

    pub(super) fn forget(&self, number: u32) {
        self.state().running.remove(&number);
    }
}
