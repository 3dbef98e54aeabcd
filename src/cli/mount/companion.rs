//! The process that takes a mount away when its server is killed.

use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use diskfs::Result;
use diskfs::export::fuse::{self, MountId};

use crate::cli::signals::Signals;

/// This program, also after an upgrade replaced its file.
const SELF: &str = "/proc/self/exe";

/// The process that unmounts when the server is killed: its standard input ends then, because nobody
/// else has the other end of that pipe.
///
/// It is told the mount's number and path, each ended by a NUL, when there is one; and one byte more
/// when the mount is gone. If it looked for itself it might meet the next mount at that place.
pub(super) struct Companion {
    pub(super) pipe: PipeWriter,
}

impl Companion {
    pub(super) fn start(mountpoint: &Path, orphaned: PipeReader) -> Result<()> {
        Command::new(SELF)
            .arg0("diskfs")
            .args(["mount", "--watch", "--", "-"])
            .arg(mountpoint)
            .stdin(orphaned)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn()?;
        Ok(())
    }

    pub(super) fn watch_over(&mut self, id: MountId, mountpoint: &Path) -> Result<()> {
        let mut message = id.to_string().into_bytes();
        message.push(0);
        message.extend_from_slice(mountpoint.as_os_str().as_bytes());
        message.push(0);
        self.pipe.write_all(&message)?;
        Ok(())
    }

    /// Tells the companion that the mount is gone.
    pub(super) fn release(mut self) {
        // If it fails, the companion is gone, too.
        let _ = self.pipe.write_all(b"\n");
    }
}

/// What the companion does.
pub(super) fn watch() -> Result<()> {
    // Ctrl-C and the end of the terminal are for the server.
    let _ = rustix::process::setsid();
    let _signals = Signals::hold();
    let mut told = Vec::new();
    io::stdin().lock().read_to_end(&mut told)?;
    match orphaned(&told) {
        Some((id, mountpoint)) => fuse::detach(mountpoint, id),
        None => Ok(()),
    }
}

/// The mount that the server left behind, by what it told its companion.
fn orphaned(told: &[u8]) -> Option<(MountId, &Path)> {
    let mut parts = told.split(|&byte| byte == 0);
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
