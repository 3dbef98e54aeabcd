//! The programs that run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diskfs_vfs::{Error, ErrorKind, Result};

use crate::protocol::{Ended, MAX_PROGRAMS, Stream};

/// A program that was started. Each method may be called beside the others.
pub trait Running: Send + Sync {
    /// Waits until it has written something, of which as much as there is room for is put into `room`,
    /// or until it has ended and nothing is left of what it wrote.
    ///
    /// # Errors
    /// `Io`.
    fn output(&self, room: &mut [u8]) -> Result<Happened>;

    /// Waits until its standard input takes some of these bytes, and tells how many.
    ///
    /// # Errors
    /// `Io` when nobody reads it any more.
    fn input(&self, data: &[u8]) -> Result<usize>;

    /// Lets its standard input end.
    ///
    /// # Errors
    /// `Io`.
    fn close_input(&self) -> Result<()>;

    /// Sends it a signal. One that has ended gets none, which is no error.
    ///
    /// # Errors
    /// `Invalid` for a signal that can't be sent.
    fn signal(&self, signal: i32) -> Result<()>;
}

/// What a program did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// It wrote so many bytes.
    Wrote(Stream, usize),
    /// It ended.
    Ended(Ended),
}

/// All that run, by number.
#[derive(Default)]
pub(super) struct Programs {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u32,
    /// `None` while it is being started.
    running: BTreeMap<u32, Option<Arc<dyn Running>>>,
}

impl Programs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up what `start` starts, and gives it its number.
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
        let number = number.ok_or(Error::new(ErrorKind::Busy, "too many programs run"))?;
        state.last = number;
        state.running.insert(number, None);
        Ok(number)
    }

    pub(super) fn get(&self, number: u32) -> Result<Arc<dyn Running>> {
        let found = self.state().running.get(&number).cloned().flatten();
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "no such program runs"))
    }

    pub(super) fn forget(&self, number: u32) {
        self.state().running.remove(&number);
    }
}
