//! The contenders: the programs that give access to the files of an image, one per file.

mod diskfs;
mod fuse2fs;
mod guestmount;
mod kernel;
mod making;
mod qemu;

use std::ffi::OsStr;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::filesystem::Filesystem;
use crate::image::ImageFormat;
use crate::mount::Mount;

pub(crate) use making::Making;

/// A program that gives access to the files of an image.
pub(crate) trait Contender: Debug {
    /// Returns the program's name in the table, without the kind of image.
    fn program(&self) -> &'static str;

    /// Returns the kind of image that it opens.
    fn kind(&self) -> ImageFormat;

    /// Returns the reason if it can't take part.
    fn obstacle(&self) -> Option<String>;

    /// Returns the maximum number of repetitions. For a contender that takes seconds where others
    /// take milliseconds, two figures say as much as five.
    fn most_repetitions(&self) -> u32 {
        u32::MAX
    }

    /// Mounts `image` read-only, and returns when the files are visible. `dir` is an empty
    /// directory for mount points.
    fn mount(&self, image: &Path, dir: &Path) -> Result<Mount>;

    /// Returns true if it can write to images of its kind.
    fn writes(&self) -> bool {
        self.kind() != ImageFormat::Qcow2Zstd
    }

    /// Mounts `image` for writing; otherwise the same as [`mount`](Self::mount).
    fn mount_for_writing(&self, image: &Path, dir: &Path) -> Result<Mount>;

    /// Returns the command that prints a file of the image without a mount.
    fn cat(&self, _image: &Path, _path: &str) -> Option<Command> {
        None
    }

    /// Returns the command that lists a directory of the image without a mount.
    fn list(&self, _image: &Path, _path: &str) -> Option<Command> {
        None
    }

    /// Returns the command that inspects an image.
    fn inspect(&self, _image: &Path) -> Option<Command> {
        None
    }

    /// Returns the command that inspects all images of a directory, which are overlays of
    /// `backing`, with `jobs` at a time.
    fn inspect_fleet(&self, _dir: &Path, _backing: &Path, _jobs: u32) -> Option<Command> {
        None
    }

    /// Returns the command that compares two snapshots of an image.
    fn diff(&self, _image: &Path, _from: &str, _to: &str) -> Option<Command> {
        None
    }

    /// Returns the command that deploys to a guest, which is an overlay of the deployment's image.
    fn deploy(&self, _image: &Path, _deployment: &Deployment) -> Option<Command> {
        None
    }

    /// Returns the command that applies a plan to all overlays of a list, `jobs` at a time.
    fn deploy_fleet(
        &self,
        _jobs: &Path,
        _plan: &Path,
        _backing: &Path,
        _at_once: u32,
    ) -> Option<Command> {
        None
    }

    /// Returns the command that creates or changes a filesystem, if the program has one.
    fn make(&self, _making: &Making<'_>) -> Option<Command> {
        None
    }

    /// Returns true if it is measured only when it is named, because it would take an hour.
    fn is_by_name_only(&self) -> bool {
        false
    }

    /// Returns the name in the table.
    fn name(&self) -> String {
        format!("{} {}", self.program(), self.kind().name())
    }
}

/// The deployment of a guest: files in a directory, and a plan (`plan.yaml`) that says where each
/// file goes.
#[derive(Debug)]
pub(crate) struct Deployment {
    dir: PathBuf,
    /// The backing file of the guests' overlays.
    pub(crate) backing: PathBuf,
}

impl Deployment {
    pub(crate) fn new(dir: &Path, backing: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            backing: backing.to_owned(),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// Returns all contenders that open this filesystem, or have a reason not to. Ratios are relative
/// to the first one.
pub(crate) fn all(diskfs: &Path, filesystem: Filesystem) -> Vec<Box<dyn Contender>> {
    let kinds = [ImageFormat::Raw, ImageFormat::Qcow2, ImageFormat::Qcow2Zstd];
    let mut all: Vec<Box<dyn Contender>> = vec![Box::new(kernel::Kernel::new(filesystem))];
    for (engine, kind) in self::diskfs::engines(filesystem) {
        let diskfs = self::diskfs::Diskfs::new(diskfs.to_owned(), engine, kind, filesystem);
        all.push(Box::new(diskfs));
    }
    all.push(Box::new(fuse2fs::Fuse2fs::new(filesystem)));
    for kind in kinds {
        all.push(Box::new(qemu::StorageDaemon::new(filesystem, kind)));
    }
    let by_name_only = filesystem.is_written();
    all.push(Box::new(guestmount::Guestmount { by_name_only }));
    all
}

/// Returns a command that runs a shell script with these words as `$0`, `$1` and so on.
fn script(text: &str, words: &[&OsStr]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-ec", text]).args(words);
    shell
}

/// Returns an obstacle if one of the required programs is not installed.
fn missing(programs: &[&str]) -> Option<String> {
    let missing = programs
        .iter()
        .find(|name| !crate::command::is_installed(name))?;
    Some(format!("{missing} is not installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filesystem: Filesystem) -> Vec<String> {
        let all = all(Path::new("diskfs"), filesystem);
        all.iter().map(|contender| contender.name()).collect()
    }

    #[test]
    fn names_are_unique_and_the_kernel_is_the_first() {
        for filesystem in [Filesystem::Ext4, Filesystem::Xfs, Filesystem::Btrfs] {
            let mut names = names(filesystem);
            assert_eq!(names[0], "kernel raw");
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }

    #[test]
    fn machines_are_measured_only_where_they_are_needed_or_named() {
        for filesystem in [Filesystem::Ext4, Filesystem::Xfs] {
            let all = all(Path::new("diskfs"), filesystem);
            let by_name_only = all.iter().filter(|it| it.is_by_name_only());
            let names: Vec<String> = by_name_only.map(|it| it.name()).collect();
            let expected = filesystem.is_written().then(|| "guestmount raw".to_owned());
            assert_eq!(names, Vec::from_iter(expected));
        }
        let ext4 = names(Filesystem::Ext4);
        assert!(ext4.contains(&"diskfs raw".into()), "{ext4:?}");
        let xfs = names(Filesystem::Xfs);
        for name in [
            "diskfs raw",
            "diskfs+uml raw",
            "diskfs+tcg raw",
            "guestmount raw",
        ] {
            assert!(xfs.contains(&name.into()), "{xfs:?}");
        }
    }
}
