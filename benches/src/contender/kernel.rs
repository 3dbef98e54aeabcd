//! The kernel's ext4 on a loop device: what all others are measured by.

use std::path::Path;

use anyhow::Result;

use super::Contender;
use crate::image::Kind;
use crate::mount::{Access, Mount, MountPoint};

/// `mount -o loop`.
#[derive(Debug)]
pub(super) struct Kernel;

impl Contender for Kernel {
    fn program(&self) -> &'static str {
        "kernel"
    }

    fn kind(&self) -> Kind {
        Kind::Raw
    }

    fn obstacle(&self) -> Option<String> {
        super::missing(&["mount"])
    }

    fn mount(&self, image: &Path, dir: &Path) -> Result<Mount> {
        Mount::by_loop_device(image, MountPoint::directory(dir.join("mnt"))?, Access::Read)
    }

    fn mount_for_writing(&self, image: &Path, dir: &Path) -> Result<Mount> {
        Mount::by_loop_device(
            image,
            MountPoint::directory(dir.join("mnt"))?,
            Access::Write,
        )
    }
}
