//! Guards for what a contender sets up. Each undoes its part when dropped, so that neither an
//! error nor Ctrl-C leaves a mount, a loop device or a server behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal};

use crate::command;
use crate::meter::Meter;

/// How long a mount may stay busy, or a server take to end, before it is told off for good.
/// A FUSE server that flushes nothing ends within milliseconds; a loaded machine needs slack.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a mount is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    /// Options of mount(8) for a loop device.
    fn loop_options(self) -> &'static str {
        match self {
            Self::Read => "ro,loop",
            Self::Write => "rw,loop",
        }
    }
}

/// A contender's mount. The fields are dropped in this order.
#[derive(Debug)]
pub(crate) struct Mount {
    point: MountPoint,
    server: Option<Server>,
    beneath: Option<MountPoint>,
    meter: Meter,
}

impl Mount {
    /// The kernel's own mount of `image`, through a loop device.
    pub(crate) fn by_loop_device(image: &Path, point: MountPoint, access: Access) -> Result<Self> {
        point.mount_loop(image, access.loop_options())?;
        let meter = Meter::loop_device_of(point.path())?;
        Ok(Self {
            point,
            server: None,
            beneath: None,
            meter,
        })
    }

    /// A mount that a process serves, which `start` has put at `point`.
    pub(crate) fn by_server(point: MountPoint) -> Result<Self> {
        let server = Server::find(point.path())?;
        let meter = Meter::Process(server.pid);
        Ok(Self {
            point,
            server: Some(server),
            beneath: None,
            meter,
        })
    }

    /// The kernel's mount of a device file that a process serves at `beneath`.
    pub(crate) fn by_loop_over_server(
        server: Server,
        beneath: MountPoint,
        point: MountPoint,
        access: Access,
    ) -> Result<Self> {
        let meter = Meter::Process(server.pid);
        let beneath = Some(beneath);
        let mount = Self {
            point,
            server: Some(server),
            beneath,
            meter,
        };
        if let Some(file) = &mount.beneath {
            mount.point.mount_loop(file.path(), access.loop_options())?;
        }
        Ok(mount)
    }

    /// Where the files are.
    pub(crate) fn path(&self) -> &Path {
        self.point.path()
    }

    /// What counts the bytes that this mount reads from the image.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The largest resident set of the process that serves the mount.
    pub(crate) fn server_peak_memory_kib(&self) -> Option<u64> {
        self.server.as_ref()?.peak_memory_kib()
    }

    /// Takes the mount down and waits until its server is gone.
    pub(crate) fn unmount(mut self) -> Result<()> {
        self.point.unmount()?;
        if let Some(server) = &mut self.server {
            server.stop()?;
        }
        Ok(())
    }
}

/// A directory or file of ours to mount on. Unmounts, then removes it.
#[derive(Debug)]
pub(crate) struct MountPoint {
    path: PathBuf,
}

impl MountPoint {
    /// A new directory.
    pub(crate) fn directory(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    /// A new empty file, for servers that present a device as one.
    pub(crate) fn file(path: PathBuf) -> Result<Self> {
        fs::write(&path, "").with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Mounts the ext4 filesystem in `image` here through a loop device, with mount(8)'s `options`.
    pub(crate) fn mount_loop(&self, image: &Path, options: &str) -> Result<()> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", options]).arg(image);
        command::output(mount.arg(&self.path)).map(drop)
    }

    /// Unmounts what is mounted here; does nothing if nothing is.
    pub(crate) fn unmount(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let result = rustix::mount::unmount(&self.path, UnmountFlags::empty());
            match result {
                Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return Ok(()),
                Err(rustix::io::Errno::BUSY) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => bail!("unmounting {}: {error}", self.path.display()),
            }
        }
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
        }
        // Never recursive: if it is still mounted, nothing in it may be touched.
        let _ = fs::remove_dir(&self.path).or_else(|_| fs::remove_file(&self.path));
    }
}

/// The process that serves a mount.
#[derive(Debug)]
pub(crate) struct Server {
    pid: u32,
}

impl Server {
    /// The process of this number, which is ours to end.
    pub(crate) fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// The process that has `point` on its command line: contenders go into the background by
    /// themselves, and only some write a pid file.
    fn find(point: &Path) -> Result<Self> {
        let needle = point.as_os_str().as_encoded_bytes();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|text| text.parse::<u32>().ok()) else {
                continue;
            };
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if pid != std::process::id() && contains(&line, needle) {
                return Ok(Self { pid });
            }
        }
        bail!(
            "no process serves {}: it ended right after mounting",
            point.display()
        )
    }

    fn peak_memory_kib(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        crate::machine::kib_field(&text, "VmHWM:")
    }

    fn is_running(&self) -> bool {
        // A zombie that its reaper has not seen yet still has a directory, but no command line.
        fs::read(format!("/proc/{}/cmdline", self.pid)).is_ok_and(|line| !line.is_empty())
    }

    fn stop(&mut self) -> Result<()> {
        ensure!(
            self.wait_or_signal(Signal::TERM),
            "process {} does not end",
            self.pid
        );
        Ok(())
    }

    /// A server ends by itself when its mount goes; one that serves a device needs telling.
    fn wait_or_signal(&self, signal: Signal) -> bool {
        let start = Instant::now();
        let mut is_told = false;
        while self.is_running() {
            if start.elapsed() > PATIENCE {
                return false;
            }
            if !is_told && start.elapsed() > Duration::from_millis(200) {
                self.signal(signal);
                is_told = true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.wait_or_signal(Signal::TERM) {
            self.signal(Signal::KILL);
        }
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_mount_point_without_a_mount_goes_quietly() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("point");
        drop(MountPoint::directory(path.clone()).unwrap());
        assert!(!path.exists());
        drop(MountPoint::file(path.clone()).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_server_is_found_by_its_argument_and_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "echo ready; read line", "sh"])
            .arg(dir.path());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        // Its command line is in place only when it runs.
        let mut word = [0; 5];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut word)
            .unwrap();
        let mut server = Server::find(dir.path()).unwrap();
        assert_eq!(server.pid, child.id());
        assert!(server.peak_memory_kib().unwrap() > 0);
        // The closure keeps the shell's input open: only the signal ends it.
        let reaper = std::thread::spawn(move || {
            let _input = child.stdin.take();
            child.wait()
        });
        server.stop().unwrap();
        assert!(!reaper.join().unwrap().unwrap().success());
    }
}
