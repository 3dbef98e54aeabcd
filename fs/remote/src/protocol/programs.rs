//! Descriptions of programs in their wire formats.

use serde::{Deserialize, Serialize};

use super::{Checked, Violation};

/// A directory of a mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramDir {
    /// The filesystem's number.
    pub filesystem: u32,
    /// The directory in the filesystem that is the system's root.
    pub root: Vec<u8>,
    /// The path below that root; symlinks in it cannot leave the root.
    pub path: Vec<u8>,
}

/// A program with its arguments, environment and user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments. A name without a slash is searched in the `PATH` of its
    /// environment.
    pub words: Vec<Vec<u8>>,
    /// The environment variables: `NAME=value`.
    pub environment: Vec<Vec<u8>>,
    /// The working directory within its root; empty means `/`.
    pub directory: Vec<u8>,
    /// The user and groups.
    pub user: User,
    /// The size of the terminal that is the program's standard input, output and error; `None` for
    /// pipes.
    pub terminal: Option<TerminalSize>,
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// The number of lines.
    pub rows: u16,
    /// The number of characters in a line.
    pub columns: u16,
}

/// The user and groups of a program. The default is root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The supplementary group ids.
    pub groups: Vec<u32>,
}

/// An output stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// The standard output.
    Output,
    /// The standard error output.
    Error,
}

/// The exit status of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// The program exited with this status.
    Exited(u8),
    /// The program was killed by the signal with this number.
    Killed(u8),
}

impl Ended {
    /// Returns the status that a shell would show: 128 plus the signal for a program that was
    /// killed.
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) => 128_u8.saturating_add(signal),
        }
    }

    /// Checks a received value.
    ///
    /// # Errors
    /// Fails if the signal number is invalid.
    pub(crate) fn checked(self) -> Checked<Self> {
        match self {
            Self::Killed(0 | 65..) => Err(Violation("invalid signal number")),
            ended => Ok(ended),
        }
    }
}

/// Returns true if this is the number of a Linux signal.
pub fn is_signal(number: i32) -> bool {
    (1..=64).contains(&number)
}
