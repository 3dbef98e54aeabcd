//! The first filesystem of the machine's kernel: the agent, and what it needs before it can mount
//! anything (initramfs buffer format, `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::io;

use cpio::newc;

/// Files in the order in which the kernel unpacks them.
///
/// The same files make the same bytes: there are no times, no owners but root, and inode numbers
/// follow from the order.
#[derive(Debug, Default)]
pub(super) struct Initramfs {
    bytes: Vec<u8>,
    count: u32,
}

/// The console's device (`Documentation/admin-guide/devices.txt`): where messages go before `/dev` is
/// mounted.
const CONSOLE: (u32, u32) = (5, 1);

impl Initramfs {
    /// With the agent as the first program, and the directories that it mounts things at.
    pub(super) fn with_agent(agent: &[u8]) -> io::Result<Self> {
        let mut new = Self::default();
        for dir in ["dev", "proc", "sys", "mnt", "tmp"] {
            new.add_dir(dir)?;
        }
        let (major, minor) = CONSOLE;
        let console = newc::Builder::new("dev/console")
            .mode(0o600)
            .set_mode_file_type(newc::ModeFileType::Char)
            .rdev_major(major)
            .rdev_minor(minor);
        new.add(console, &[])?;
        new.add_file("init", 0o755, agent)?;
        Ok(new)
    }

    pub(super) fn add_dir(&mut self, name: &str) -> io::Result<()> {
        let dir = newc::Builder::new(name)
            .mode(0o755)
            .set_mode_file_type(newc::ModeFileType::Directory);
        self.add(dir.nlink(2), &[])
    }

    pub(super) fn add_file(&mut self, name: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        let file = newc::Builder::new(name)
            .mode(mode)
            .set_mode_file_type(newc::ModeFileType::Regular);
        self.add(file, contents)
    }

    fn add(&mut self, entry: newc::Builder, contents: &[u8]) -> io::Result<()> {
        let len = u32::try_from(contents.len()).map_err(io::Error::other)?;
        self.count = self.count.saturating_add(1);
        let mut writer = entry.ino(self.count).write(&mut self.bytes, len);
        io::Write::write_all(&mut writer, contents)?;
        writer.finish().map(|_| ())
    }

    /// The archive, with its end.
    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        newc::trailer(&mut self.bytes)?;
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_same_files_make_the_same_bytes() {
        let make = || Initramfs::with_agent(b"agent").unwrap().finish().unwrap();
        assert_eq!(make(), make());
    }

    #[test]
    fn cpio_reads_it() {
        let mut archive = Initramfs::with_agent(b"agent").unwrap();
        archive.add_dir("modules").unwrap();
        archive
            .add_file("modules/order", 0o644, b"xfs.ko\n")
            .unwrap();
        let bytes = archive.finish().unwrap();
        let Some(()) = diskfs_fixtures::require("cpio") else {
            return;
        };
        let mut list = Command::new("cpio")
            .arg("-tv")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        io::Write::write_all(&mut list.stdin.take().unwrap(), &bytes).unwrap();
        let output = list.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 9, "{text}");
        assert!(
            lines[5].starts_with("crw-------") && lines[5].contains("5,   1"),
            "{text}"
        );
        assert!(
            lines[6].starts_with("-rwxr-xr-x") && lines[6].ends_with(" init"),
            "{text}"
        );
    }
}
