//! The ways to get at the files of an image, one per file.

mod diskfs;
mod fuse2fs;
mod kernel;
mod qemu;

use std::fmt::Debug;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::image::Kind;
use crate::mount::Mount;

/// A way to get at the files of an image.
pub(crate) trait Contender: Debug {
    /// What the table calls it, without the image's kind.
    fn program(&self) -> &'static str;

    /// The kind of image that it opens.
    fn kind(&self) -> Kind;

    /// Why it can't take part, if so.
    fn obstacle(&self) -> Option<String>;

    /// Mounts `image` read-only; returns when the files are there. `dir` is an empty directory for
    /// mount points.
    fn mount(&self, image: &Path, dir: &Path) -> Result<Mount>;

    /// Whether it writes into images of its kind.
    fn writes(&self) -> bool {
        self.kind() != Kind::Qcow2Zstd
    }

    /// Mounts `image` for writing; as [`mount`](Self::mount) otherwise.
    fn mount_for_writing(&self, image: &Path, dir: &Path) -> Result<Mount>;

    /// The command that prints a file of the image without a mount.
    fn cat(&self, _image: &Path, _path: &str) -> Option<Command> {
        None
    }

    /// The command that lists a directory of the image without a mount.
    fn list(&self, _image: &Path, _path: &str) -> Option<Command> {
        None
    }

    /// The name in the table.
    fn name(&self) -> String {
        format!("{} {}", self.program(), self.kind().name())
    }
}

/// All of them; the first is the one that ratios are to.
pub(crate) fn all(diskfs: &Path) -> Vec<Box<dyn Contender>> {
    let kinds = [Kind::Raw, Kind::Qcow2, Kind::Qcow2Zstd];
    let mut all: Vec<Box<dyn Contender>> = vec![Box::new(kernel::Kernel)];
    for kind in kinds {
        all.push(Box::new(self::diskfs::Diskfs::new(diskfs.to_owned(), kind)));
    }
    all.push(Box::new(fuse2fs::Fuse2fs));
    for kind in kinds {
        all.push(Box::new(qemu::StorageDaemon::new(kind)));
    }
    all
}

/// An obstacle where a program that is needed is not installed.
fn missing(programs: &[&str]) -> Option<String> {
    let missing = programs
        .iter()
        .find(|name| !crate::command::is_installed(name))?;
    Some(format!("{missing} is not installed"))
}
