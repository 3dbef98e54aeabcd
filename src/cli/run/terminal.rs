//! The terminal of the user, while a program of a guest uses it.

use std::io::{self, IsTerminal as _};

use diskfs::vm::TerminalSize;
use diskfs::{Error, ErrorKind, Result};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal in raw mode: what is typed goes to the program's own terminal, which echoes it, and
/// turns Ctrl-C into a signal. Dropping it restores the mode.
#[derive(Debug)]
pub(super) struct RawTerminal {
    before: Termios,
}

impl RawTerminal {
    /// Checks that standard input is a terminal.
    ///
    /// # Errors
    /// Fails with `Invalid` if it is not.
    pub(super) fn check() -> Result<()> {
        if io::stdin().is_terminal() {
            return Ok(());
        }
        let reason = "standard input is not a terminal";
        Err(Error::new(ErrorKind::Invalid, reason).with_hint("leave out --terminal"))
    }

    /// Sets the mode.
    ///
    /// # Errors
    /// Those of tcsetattr(3).
    pub(super) fn begin() -> Result<Self> {
        let before = tcgetattr(stdin()).map_err(io::Error::from)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Drain, &raw).map_err(io::Error::from)?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no mode.
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.before);
    }
}

/// Returns the size of the terminal.
///
/// # Errors
/// Those of the terminal.
pub(super) fn size() -> Result<TerminalSize> {
    let size = tcgetwinsize(stdin()).map_err(io::Error::from)?;
    Ok(TerminalSize {
        rows: size.ws_row,
        columns: size.ws_col,
    })
}
