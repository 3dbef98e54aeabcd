//! The images of a case: made by e2fsprogs, mounted by diskfs or by the kernel.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::case::Run;
use super::level::Meter;
use crate::command;
use crate::filesystem::Filesystem;
use crate::mount::{Access, Mount, MountPoint};

impl Run<'_> {
    /// Creates a sparse file with an empty ext4 filesystem.
    pub(super) fn mke2fs(&self, size_bytes: u64, options: &[&str]) -> Result<PathBuf> {
        let path = self.dir.join("disk.raw");
        File::create(&path)?.set_len(size_bytes)?;
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4"]).args(options);
        command::output(mke2fs.arg(&path))?;
        Ok(path)
    }

    /// Mounts an image with diskfs, read-write, and returns the meter of its server.
    pub(super) fn mount(&self, image: &Path) -> Result<(Mount, Meter)> {
        let mount = self.mount_at(image, "mnt", &["--rw"])?;
        let server = mount.server_pid().map_or(Meter::Own, Meter::Process);
        Ok((mount, server))
    }

    /// Mounts an image with diskfs at a directory of this name.
    pub(super) fn mount_at(&self, image: &Path, name: &str, options: &[&str]) -> Result<Mount> {
        let point = MountPoint::directory(self.dir.join(name))?;
        let mut mount = Command::new(&self.setting.diskfs);
        mount.env("TMPDIR", self.temporary());
        mount.arg("mount").args(options).arg(image);
        command::started(mount.arg(point.path()))?;
        Mount::by_server(point)
    }

    /// Returns the path of the directory for temporary files of diskfs.
    pub(super) fn temporary(&self) -> PathBuf {
        self.dir.join("temporary")
    }

    /// Mounts an image that is cleanly unmounted with the kernel, read-only.
    pub(super) fn mount_by_kernel(&self, image: &Path) -> Result<Mount> {
        let point = MountPoint::directory(self.dir.join("kernel"))?;
        Mount::by_loop_device(image, Filesystem::Ext4, point, Access::Read)
    }
}

/// Fails unless e2fsck finds nothing.
pub(super) fn e2fsck(image: &Path) -> Result<()> {
    command::output(Command::new("e2fsck").args(["-f", "-n"]).arg(image)).map(drop)
}
