//! The contender fuse2fs, e2fsprogs' own FUSE server, with `debugfs` of the same package for the
//! commands.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::Contender;
use crate::command;
use crate::filesystem::Filesystem;
use crate::image::ImageFormat;
use crate::mount::{Mount, MountPoint};

/// The contender `fuse2fs`.
#[derive(Debug)]
pub(super) struct Fuse2fs {
    filesystem: Filesystem,
}

impl Fuse2fs {
    /// Returns a contender for this filesystem.
    pub(super) fn new(filesystem: Filesystem) -> Self {
        Self { filesystem }
    }
}

impl Contender for Fuse2fs {
    fn program(&self) -> &'static str {
        "fuse2fs"
    }

    fn kind(&self) -> ImageFormat {
        ImageFormat::Raw
    }

    fn obstacle(&self) -> Option<String> {
        if self.filesystem != Filesystem::Ext4 {
            return Some("it opens ext2, ext3 and ext4 only".into());
        }
        super::missing(&["fuse2fs", "debugfs"])
    }

    fn mount(&self, image: &Path, dir: &Path) -> Result<Mount> {
        mount("ro", image, dir)
    }

    fn mount_for_writing(&self, image: &Path, dir: &Path) -> Result<Mount> {
        mount("rw", image, dir)
    }

    fn cat(&self, image: &Path, path: &str) -> Option<Command> {
        Some(debugfs(image, &format!("cat {path}")))
    }

    fn list(&self, image: &Path, path: &str) -> Option<Command> {
        Some(debugfs(image, &format!("ls -l {path}")))
    }
}

fn mount(option: &str, image: &Path, dir: &Path) -> Result<Mount> {
    let point = MountPoint::directory(dir.join("mnt"))?;
    let mut server = Command::new("fuse2fs");
    command::started(server.args(["-o", option]).arg(image).arg(point.path()))?;
    Mount::by_server(point)
}

fn debugfs(image: &Path, request: &str) -> Command {
    let mut debugfs = Command::new("debugfs");
    debugfs
        .args(["-R", request])
        .arg(image)
        .env("DEBUGFS_PAGER", "cat");
    debugfs
}
