//! Programs that run at the other end.

use serde::{Deserialize, Serialize};

use super::{Checked, Violation};

/// A directory of a mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The filesystem's number.
    pub filesystem: u32,
    /// The directory of it that is the root of the system on it.
    pub root: Vec<u8>,
    /// The directory's path below that root, which symlinks on the way don't leave.
    pub path: Vec<u8>,
}

/// A program, and what it is to run with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments. A name without a slash is looked for in the `PATH` of its
    /// environment.
    pub words: Vec<Vec<u8>>,
    /// Its environment: `NAME=value`.
    pub environment: Vec<Vec<u8>>,
    /// Its working directory, as it sees it; `/` when it is empty.
    pub directory: Vec<u8>,
    /// Who it runs as.
    pub user: User,
}

/// Who a program runs as. Without anything said: root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The groups besides.
    pub groups: Vec<u32>,
}

/// One of what a program writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// By itself, with this status.
    Exited(u8),
    /// Of a signal, by its number.
    Killed(u8),
}

impl Ended {
    /// The status that a shell would show: 128 and the signal for one that was killed.
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Killed(signal) => 128_u8.saturating_add(signal),
        }
    }

    /// Checks what came over the stream.
    ///
    /// # Errors
    /// When there is no such signal.
    pub(crate) fn checked(self) -> Checked<Self> {
        match self {
            Self::Killed(0 | 65..) => Err(Violation("a program was killed by no signal")),
            ended => Ok(ended),
        }
    }
}

/// Whether a signal of this number may be sent: those of Linux.
pub fn is_signal(number: i32) -> bool {
    (1..=64).contains(&number)
}
