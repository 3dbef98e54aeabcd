//! Going into the background.

use std::fs::File;
use std::io::{self, PipeWriter, Write};

use diskfs::Result;

use crate::cli::logging::background;

/// The way of a server into the background.
pub(super) struct Background {
    /// Tells the waiting process that the mount is ready.
    ready: PipeWriter,
    /// `/dev/null`, for standard input and output, which a confined process can't open.
    null: File,
}

impl Background {
    pub(super) fn new(ready: PipeWriter) -> Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        Ok(Self { ready, null })
    }

    /// Signals that the mount is ready, and detaches from the terminal, the session and the
    /// directory.
    pub(super) fn enter(mut self) -> Result<()> {
        rustix::stdio::dup2_stdin(&self.null).map_err(io::Error::from)?;
        rustix::stdio::dup2_stdout(&self.null).map_err(io::Error::from)?;
        background::leave_terminal()?;
        // This fails only for the leader of a process group, which has no terminal to detach from.
        let _ = rustix::process::setsid();
        std::env::set_current_dir("/")?;
        self.ready.write_all(b"\n")?;
        Ok(())
    }
}
