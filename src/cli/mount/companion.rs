//! The companion, a process that unmounts if its server is killed, and passes the server's log on.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use diskfs::Result;
use diskfs::export::fuse::{self, MountId};

use crate::cli::logging::system::SystemLog;
use crate::cli::signals::Signals;

/// The path of this program, valid even after an upgrade has replaced its file.
const SELF: &str = "/proc/self/exe";

/// The first argument of a companion; the second is the mount point.
const WORD: &str = "mount-companion";

/// The server's handle of its companion. When the server is killed, the companion's standard input
/// ends, because only the server has the other end of that pipe.
///
/// The server writes the mount's ID and path, each terminated by a NUL, when the mount exists, and
/// one more byte when it was unmounted. If the companion looked for the mount itself, it could find
/// a later mount at the same path.
pub(crate) struct Companion {
    pub(crate) pipe: PipeWriter,
}

impl Companion {
    /// Starts the companion. If it gets lines of the system's log, it reads them from its standard
    /// output: a process can be started with no other descriptor.
    pub(crate) fn start(
        mountpoint: &Path,
        orphaned: PipeReader,
        lines: Option<PipeReader>,
    ) -> Result<()> {
        Command::new(SELF)
            .arg0("diskfs")
            .arg(WORD)
            .arg(std::path::absolute(mountpoint)?)
            .stdin(orphaned)
            .stdout(lines.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn()?;
        Ok(())
    }

    pub(crate) fn watch_over(&mut self, id: MountId, mountpoint: &Path) -> Result<()> {
        let mut message = id.to_string().into_bytes();
        message.push(0);
        message.extend_from_slice(mountpoint.as_os_str().as_bytes());
        message.push(0);
        self.pipe.write_all(&message)?;
        Ok(())
    }

    /// Informs the companion that the mount was unmounted.
    pub(crate) fn release(mut self) {
        // If the write fails, the companion no longer runs.
        let _ = self.pipe.write_all(b"\n");
    }
}

/// Runs the companion of a server if the command line is that of a companion, and returns its exit
/// code. It starts beside each mount, and needs no options and no log.
pub(crate) fn run(words: &[OsString]) -> Option<u8> {
    match words {
        [_, word, mountpoint] if word == WORD => {
            // Nobody reads its standard error: an error shows in the mount that is left.
            Some(watch(Path::new(mountpoint)).is_err().into())
        }
        _ => None,
    }
}

fn watch(mountpoint: &Path) -> Result<()> {
    // Ctrl-C and the hangup of the terminal are for the server.
    let _ = rustix::process::setsid();
    let _signals = Signals::block();
    let lines = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    thread::scope(|scope| {
        scope.spawn(|| SystemLog::new(mountpoint).pass_on(lines));
        let mut message = Vec::new();
        io::stdin().lock().read_to_end(&mut message)?;
        let Some((id, place)) = orphaned(&message) else {
            return Ok(());
        };
        let is_left = |found: fuse::MountEntry| found.id == id;
        if fuse::mounted_at(place)?.is_some_and(is_left) {
            let text = "the server was killed: unmounting; data that was not synced is lost";
            SystemLog::new(mountpoint).error(text);
        }
        fuse::detach(place, id)
    })
}

/// Returns the mount that the server left behind, according to what it wrote to its companion.
fn orphaned(message: &[u8]) -> Option<(MountId, &Path)> {
    let mut parts = message.split(|&byte| byte == 0);
    let id = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let mountpoint = Path::new(OsStr::from_bytes(parts.next()?));
    let is_left = parts.next()?.is_empty();
    is_left.then_some((id, mountpoint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_companion_acts_only_on_a_mount_that_was_left() {
        assert!(orphaned(b"").is_none(), "the mount failed");
        assert!(orphaned(b"0:39\0/mn").is_none(), "cut short");
        assert!(orphaned(b"0:39\0/mnt\0\n").is_none(), "unmounted");
        let (id, mountpoint) = orphaned(b"0:39\0/mnt\0").unwrap();
        assert_eq!(
            (id.to_string().as_str(), mountpoint),
            ("0:39", Path::new("/mnt"))
        );
    }
}
