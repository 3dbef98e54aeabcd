//! The terminal of a program: a pseudoterminal (pty(7)).

use std::os::fd::{AsFd, OwnedFd};

use diskfs_remote::protocol::TerminalSize;
use diskfs_vfs::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::io_error;

/// Both ends of a terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Our end. Reading it does not block.
    pub(super) ours: OwnedFd,
    /// The end that becomes the program's standard input, output and error.
    pub(super) programs: OwnedFd,
}

impl Terminal {
    /// Opens a new terminal in the guest's tree, so that the program finds it in its `/dev/pts`.
    pub(super) fn open(root: &OwnedFd, size: TerminalSize) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let multiplexer = "dev/pts/ptmx";
        let ours = openat2(
            root,
            multiplexer,
            flags,
            Mode::empty(),
            ResolveFlags::IN_ROOT,
        );
        let ours = ours.map_err(|errno| {
            let reason = format!("cannot open a terminal, /{multiplexer}: {errno}");
            Error::new(ErrorKind::Io, reason)
        })?;
        let failed = io_error("cannot open a terminal");
        unlockpt(&ours).map_err(|errno| failed(errno.into()))?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let programs = ioctl_tiocgptpeer(&ours, flags).map_err(|errno| failed(errno.into()))?;
        resize(&ours, size)?;
        Ok(Self { ours, programs })
    }
}

/// Sets the size of a terminal. The kernel tells the program by SIGWINCH.
pub(super) fn resize(terminal: impl AsFd, size: TerminalSize) -> Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size)
        .map_err(|errno| io_error("cannot set the terminal's size")(errno.into()))
}
