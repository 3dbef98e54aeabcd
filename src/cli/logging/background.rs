//! The log of a server that leaves its terminal.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::OnceLock;

use diskfs::{Error, Result};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::{Form, LEFT_FOR};

/// The log in the background of this process and its forks. A confined process opens no other.
static TARGET: OnceLock<Target> = OnceLock::new();

/// The file or the pipe that standard error becomes in the background.
#[derive(Debug)]
pub(in crate::cli) enum Target {
    File(File),
    /// A pipe to a process that passes lines on to the system's log. A datagram socket in a confined
    /// process could send to every socket of the host.
    Pipe(PipeWriter),
}

impl Target {
    /// Opens a file to append to.
    ///
    /// # Errors
    /// Those of the host.
    pub(in crate::cli) fn file(path: &Path) -> Result<Self> {
        let file = File::options().append(true).create(true).open(path);
        let file = file.map_err(|error| Error::from(error).in_file(path))?;
        Ok(Self::File(file))
    }

    /// Returns a pipe, and its other end. If nobody reads it, the log is lost, and the server goes
    /// on.
    ///
    /// # Errors
    /// If the host has no resources for a pipe.
    pub(in crate::cli) fn pipe() -> io::Result<(Self, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        fcntl_setfl(&writer, fcntl_getfl(&writer)? | OFlags::NONBLOCK)?;
        Ok((Self::Pipe(writer), reader))
    }

    /// Chooses this log for the time after the terminal was left.
    pub(in crate::cli) fn choose(self) {
        // It is chosen once.
        let _ = TARGET.set(self);
    }

    fn form(&self) -> Form {
        match self {
            Self::File(_) => Form::File,
            Self::Pipe(_) => Form::System,
        }
    }
}

impl AsFd for Target {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::File(file) => file.as_fd(),
            Self::Pipe(pipe) => pipe.as_fd(),
        }
    }
}

/// Writes to the chosen log instead of the terminal from now on. Everything that is printed to
/// standard error gets there, too.
///
/// # Errors
/// Those of dup2(2).
pub(in crate::cli) fn leave_terminal() -> io::Result<()> {
    if let Some(target) = TARGET.get() {
        rustix::stdio::dup2_stderr(target)?;
        let _ = LEFT_FOR.set(target.form());
    }
    Ok(())
}
