//! The contender fuse2fs, e2fsprogs' own FUSE server, with `debugfs` of the same package for the
//! commands, and its programs that create, grow and check filesystems.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Contender, Making, script};
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

    fn make(&self, making: &Making<'_>) -> Option<Command> {
        let image = making.image().as_os_str();
        let command = match making {
            Making::Empty { .. } => script("mke2fs -q -t ext4 -F \"$0\"", &[image]),
            Making::Filled { directory, .. } => {
                let text = "mke2fs -q -t ext4 -d \"$1\" \"$0\" 8G && resize2fs -M \"$0\" && \
                    size=$(dumpe2fs -h \"$0\" | awk '/^Block count/ { print $3 * 4 }') && \
                    truncate -s \"${size}K\" \"$0\" && sync \"$0\"";
                script(text, &[image, directory.as_os_str()])
            }
            Making::Grown { size, .. } => {
                let text = "truncate -s \"$1\" \"$0\" && \
                    echo ', +' | sfdisk -q --no-reread -N 1 \"$0\" && \
                    loop=$(losetup -f --show -o 1048576 --sizelimit 107373117952 \"$0\") && \
                    { resize2fs -f \"$loop\" && sync \"$loop\" \"$0\" || failed=1; } && \
                    losetup -d \"$loop\" && test -z \"$failed\"";
                script(text, &[image, size.as_ref()])
            }
            Making::Checked { .. } => script("e2fsck -fn \"$0\"", &[image]),
            Making::Sparsified { .. }
            | Making::Unpacked { .. }
            | Making::Copied { .. }
            | Making::Removed { .. } => return None,
        };
        Some(command)
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
