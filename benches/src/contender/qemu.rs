//! qemu-storage-daemon's FUSE export of the disk, and the kernel's ext4 on a loop device over it.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::Contender;
use crate::command;
use crate::image::Kind;
use crate::mount::{Mount, MountPoint};

/// `qemu-storage-daemon --export fuse`, then `mount -o ro,loop`.
#[derive(Debug)]
pub(super) struct StorageDaemon {
    kind: Kind,
}

impl StorageDaemon {
    /// One that opens images of this kind.
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind }
    }
}

impl Contender for StorageDaemon {
    fn program(&self) -> &'static str {
        "qsd+loop"
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn obstacle(&self) -> Option<String> {
        super::missing(&["qemu-storage-daemon"])
    }

    fn mount(&self, image: &Path, dir: &Path) -> Result<Mount> {
        let disk = MountPoint::file(dir.join("disk"))?;
        let driver = self.kind.qemu_driver();
        let mut server = Command::new("qemu-storage-daemon");
        server.args(["--daemonize", "--blockdev"]).arg(format!(
            "driver=file,node-name=file,read-only=on,filename={}",
            image.display()
        ));
        server.args([
            "--blockdev",
            &format!("driver={driver},node-name=disk,read-only=on,file=file"),
        ]);
        server.arg("--export").arg(format!(
            "type=fuse,id=export,node-name=disk,writable=off,mountpoint={}",
            disk.path().display()
        ));
        command::started(&mut server)?;
        Mount::by_loop_over_server(disk, MountPoint::directory(dir.join("mnt"))?)
    }
}
