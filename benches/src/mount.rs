//! Guards for the resources of a contender. Each guard undoes its part when dropped, so that
//! neither an error nor Ctrl-C leaves a mount, a loop device or a server behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::mount::UnmountFlags;

use crate::filesystem::Filesystem;
use crate::meter::Meter;
use crate::server::{Machine, Server};
use crate::{command, process};

/// The time limit for retrying to unmount a busy mount. On a loaded machine another process may
/// still access it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The access mode of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    /// Returns the options of mount(8) for a loop device.
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
    machine: Option<Machine>,
    beneath: Option<MountPoint>,
    meter: Meter,
}

impl Mount {
    /// Mounts `image` with the kernel's own driver through a loop device.
    pub(crate) fn by_loop_device(
        image: &Path,
        filesystem: Filesystem,
        point: MountPoint,
        access: Access,
    ) -> Result<Self> {
        point.mount_loop(image, filesystem, access.loop_options())?;
        let meter = Meter::loop_device_of(point.path())?;
        Ok(Self {
            point,
            server: None,
            machine: None,
            beneath: None,
            meter,
        })
    }

    /// Returns a mount at `point` that a process serves.
    pub(crate) fn by_server(point: MountPoint) -> Result<Self> {
        let server = Server::find(point.path())?;
        let meter = Meter::Process(server.pid());
        Ok(Self {
            point,
            server: Some(server),
            machine: None,
            beneath: None,
            meter,
        })
    }

    /// Returns a mount at `point` that `server` serves, and whose image its `machine` reads.
    pub(crate) fn by_machine(server: Server, machine: Machine, point: MountPoint) -> Result<Self> {
        let mut processes = machine.processes()?.into_iter();
        let pid = processes.find(|pid| *pid != server.pid());
        let meter = Meter::Process(pid.context("the machine exited right after the mount")?);
        Ok(Self {
            point,
            server: Some(server),
            machine: Some(machine),
            beneath: None,
            meter,
        })
    }

    /// Mounts, with the kernel's driver, a device file that a process serves at `beneath`.
    pub(crate) fn by_loop_over_server(
        server: Server,
        beneath: MountPoint,
        filesystem: Filesystem,
        point: MountPoint,
        access: Access,
    ) -> Result<Self> {
        let meter = Meter::Process(server.pid());
        let mount = Self {
            point,
            server: Some(server),
            machine: None,
            beneath: Some(beneath),
            meter,
        };
        if let Some(file) = &mount.beneath {
            let options = access.loop_options();
            mount.point.mount_loop(file.path(), filesystem, options)?;
        }
        Ok(mount)
    }

    /// Returns the mount point.
    pub(crate) fn path(&self) -> &Path {
        self.point.path()
    }

    /// Returns the number of the process that serves the mount, unless the kernel does.
    pub(crate) fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    /// Returns the meter of the bytes that this mount reads from the image.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns the largest resident set of the process that serves the mount. With a machine,
    /// returns the current memory of all its processes, with each shared page counted once; a
    /// machine returns little memory to the host.
    pub(crate) fn server_peak_memory_kib(&self) -> Option<u64> {
        let pid = self.server.as_ref()?.pid();
        let mut others = process::descendants(pid).ok()?;
        if let Some(machine) = &self.machine {
            others.extend(machine.processes().ok()?);
        }
        others.retain(|other| *other != pid);
        if others.is_empty() {
            return process::peak_memory_kib(pid);
        }
        others.push(pid);
        let parts = others.into_iter();
        Some(parts.filter_map(process::proportional_memory_kib).sum())
    }

    /// Unmounts, and waits until the server has exited.
    pub(crate) fn unmount(mut self) -> Result<()> {
        self.point.unmount()?;
        if let Some(server) = &mut self.server {
            server.stop()?;
        }
        Ok(())
    }
}

/// A directory or file that serves as a mount point. Dropping it unmounts and removes it.
#[derive(Debug)]
pub(crate) struct MountPoint {
    path: PathBuf,
}

impl MountPoint {
    /// Creates a new directory.
    pub(crate) fn directory(path: PathBuf) -> Result<Self> {
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    /// Creates a new empty file, for servers that present a device as a file.
    pub(crate) fn file(path: PathBuf) -> Result<Self> {
        fs::write(&path, "").with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Mounts the filesystem in `image` here through a loop device, with mount(8)'s `options`.
    pub(crate) fn mount_loop(
        &self,
        image: &Path,
        filesystem: Filesystem,
        options: &str,
    ) -> Result<()> {
        let mut mount = Command::new("mount");
        mount.args(["-t", filesystem.name(), "-o", options]);
        mount.arg(image);
        command::output(mount.arg(&self.path)).map(drop)
    }

    /// Unmounts the filesystem that is mounted here, if any.
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
        // Never recursive: if the filesystem is still mounted, its files must not be deleted.
        let _ = fs::remove_dir(&self.path).or_else(|_| fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
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
}
