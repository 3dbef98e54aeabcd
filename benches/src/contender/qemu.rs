//! The contender qemu-storage-daemon: its FUSE export of the disk, and the kernel's own driver on a
//! loop device over it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Contender;
use crate::command;
use crate::filesystem::Filesystem;
use crate::image::ImageFormat;
use crate::mount::{Access, Mount, MountPoint};
use crate::server::Server;

/// The contender `qemu-storage-daemon --export fuse` with `mount -o loop`.
#[derive(Debug)]
pub(super) struct StorageDaemon {
    filesystem: Filesystem,
    kind: ImageFormat,
}

impl StorageDaemon {
    /// Returns a contender for images of this kind with this filesystem.
    pub(super) fn new(filesystem: Filesystem, kind: ImageFormat) -> Self {
        Self { filesystem, kind }
    }
}

impl Contender for StorageDaemon {
    fn program(&self) -> &'static str {
        "qsd+loop"
    }

    fn kind(&self) -> ImageFormat {
        self.kind
    }

    fn obstacle(&self) -> Option<String> {
        super::missing(&["qemu-storage-daemon"])
    }

    fn mount(&self, image: &Path, dir: &Path) -> Result<Mount> {
        self.mount_with(Access::Read, image, dir)
    }

    fn mount_for_writing(&self, image: &Path, dir: &Path) -> Result<Mount> {
        self.mount_with(Access::Write, image, dir)
    }
}

impl StorageDaemon {
    fn mount_with(&self, access: Access, image: &Path, dir: &Path) -> Result<Mount> {
        let (read_only, writable) = match access {
            Access::Read => ("on", "off"),
            Access::Write => ("off", "on"),
        };
        let disk = MountPoint::file(dir.join("disk"))?;
        let driver = self.kind.qemu_driver();
        let mut server = Command::new("qemu-storage-daemon");
        server.args(["--daemonize", "--blockdev"]).arg(format!(
            "driver=file,node-name=file,read-only={read_only},filename={}",
            image.display()
        ));
        server.args([
            "--blockdev",
            &format!("driver={driver},node-name=disk,read-only={read_only},file=file"),
        ]);
        server.arg("--export").arg(format!(
            "type=fuse,id=export,node-name=disk,writable={writable},mountpoint={}",
            disk.path().display()
        ));
        let pid_file = dir.join("pid");
        command::started(server.arg("--pidfile").arg(&pid_file))?;
        let pid = fs::read_to_string(&pid_file).context("qemu-storage-daemon's pid")?;
        fs::remove_file(&pid_file)?;
        let server = Server::of_device(pid.trim().parse()?);
        let point = MountPoint::directory(dir.join("mnt"))?;
        Mount::by_loop_over_server(server, disk, self.filesystem, point, access)
    }
}
