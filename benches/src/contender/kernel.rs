//! The kernel's own driver on a loop device: the contender that all others are compared with.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{Contender, Making, script};
use crate::filesystem::Filesystem;
use crate::image::ImageFormat;
use crate::mount::{Access, Mount, MountPoint};

/// The command that unpacks the archive `$1`.
const UNPACK: &str = "tar --xattrs --acls -xpf \"$1\" -C \"$dir\"";

/// Returns a script that mounts the image `$0` on `$dir` for a command, and ends when the result is
/// durable.
fn mounted(command: &str) -> String {
    format!(
        "dir=$(mktemp -d) && mount -o loop \"$0\" \"$dir\" && {{ {command} || failed=1; }} && \
         umount \"$dir\" && rmdir \"$dir\" && sync \"$0\" && test -z \"$failed\""
    )
}

/// The contender `mount -o loop`.
#[derive(Debug)]
pub(super) struct Kernel {
    filesystem: Filesystem,
}

impl Kernel {
    /// Returns a contender that mounts this filesystem.
    pub(super) fn new(filesystem: Filesystem) -> Self {
        Self { filesystem }
    }

    fn mount_with(&self, access: Access, image: &Path, dir: &Path) -> Result<Mount> {
        let point = MountPoint::directory(dir.join("mnt"))?;
        Mount::by_loop_device(image, self.filesystem, point, access)
    }
}

impl Contender for Kernel {
    fn program(&self) -> &'static str {
        "kernel"
    }

    fn kind(&self) -> ImageFormat {
        ImageFormat::Raw
    }

    fn obstacle(&self) -> Option<String> {
        super::missing(&["mount"])
    }

    fn mount(&self, image: &Path, dir: &Path) -> Result<Mount> {
        self.mount_with(Access::Read, image, dir)
    }

    fn mount_for_writing(&self, image: &Path, dir: &Path) -> Result<Mount> {
        self.mount_with(Access::Write, image, dir)
    }

    fn make(&self, making: &Making<'_>) -> Option<Command> {
        let image = making.image().as_os_str();
        match making {
            Making::Filled { archive, .. } => {
                let unpack = mounted(UNPACK);
                let text = format!("truncate -s 8G \"$0\" && mke2fs -q -t ext4 \"$0\" && {unpack}");
                Some(script(&text, &[image, archive.as_os_str()]))
            }
            Making::Sparsified { .. } => Some(script(&mounted("fstrim \"$dir\""), &[image])),
            Making::Unpacked { archive, .. } => {
                Some(script(&mounted(UNPACK), &[image, archive.as_os_str()]))
            }
            Making::Copied { directory, .. } => {
                let text = mounted("cp -a \"$1\"/. \"$dir\"");
                Some(script(&text, &[image, directory.as_os_str()]))
            }
            Making::Removed { names, .. } => {
                let text = mounted("(cd \"$dir\" && rm -r -- \"$@\")");
                let names = names.iter().map(OsStr::new);
                let words: Vec<_> = [image].into_iter().chain(names).collect();
                Some(script(&text, &words))
            }
            Making::Empty { .. } | Making::Grown { .. } | Making::Checked { .. } => None,
        }
    }
}
