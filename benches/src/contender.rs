//! The ways to get at the files of an image, one per file.

mod diskfs;
mod fuse2fs;
mod guestmount;
mod kernel;
mod qemu;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::filesystem::Filesystem;
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

    /// How often it is measured at most. Of one that takes seconds for what others do in milliseconds,
    /// two figures say as much as five.
    fn most_repetitions(&self) -> u32 {
        u32::MAX
    }

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

    /// The command that tells what is in an image.
    fn inspect(&self, _image: &Path) -> Option<Command> {
        None
    }

    /// The command that tells it of all images of a directory, overlays of `backing`, so many at once.
    fn inspect_fleet(&self, _dir: &Path, _backing: &Path, _jobs: u32) -> Option<Command> {
        None
    }

    /// The command that tells what has changed from one snapshot of an image to another.
    fn diff(&self, _image: &Path, _from: &str, _to: &str) -> Option<Command> {
        None
    }

    /// The command that makes a guest ready: an overlay of the deployment's image.
    fn deploy(&self, _image: &Path, _deployment: &Deployment) -> Option<Command> {
        None
    }

    /// The command that does what a plan says to all overlays of a list, so many at once.
    fn deploy_fleet(
        &self,
        _jobs: &Path,
        _plan: &Path,
        _backing: &Path,
        _at_once: u32,
    ) -> Option<Command> {
        None
    }

    /// Whether it is left out unless it is named: for what would take an hour.
    fn is_by_name_only(&self) -> bool {
        false
    }

    /// The name in the table.
    fn name(&self) -> String {
        format!("{} {}", self.program(), self.kind().name())
    }
}

/// What a guest is to get: files in a directory, of which a plan (`plan.yaml`) tells where they go.
#[derive(Debug)]
pub(crate) struct Deployment {
    dir: PathBuf,
    /// What the guests are overlays of.
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

/// All that open this filesystem, or have a reason not to; the first is the one that ratios are to.
pub(crate) fn all(diskfs: &Path, filesystem: Filesystem) -> Vec<Box<dyn Contender>> {
    let kinds = [Kind::Raw, Kind::Qcow2, Kind::Qcow2Zstd];
    let mut all: Vec<Box<dyn Contender>> = vec![Box::new(kernel::Kernel::new(filesystem))];
    for (engine, kind) in self::diskfs::engines(filesystem) {
        let diskfs = self::diskfs::Diskfs::new(diskfs.to_owned(), engine, kind);
        all.push(Box::new(diskfs));
    }
    all.push(Box::new(fuse2fs::Fuse2fs::new(filesystem)));
    for kind in kinds {
        all.push(Box::new(qemu::StorageDaemon::new(filesystem, kind)));
    }
    let by_name_only = filesystem.has_driver();
    all.push(Box::new(guestmount::Guestmount { by_name_only }));
    all
}

/// An obstacle where a program that is needed is not installed.
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
            let expected = filesystem.has_driver().then(|| "guestmount raw".to_owned());
            assert_eq!(names, Vec::from_iter(expected));
        }
        let ext4 = names(Filesystem::Ext4);
        assert!(ext4.contains(&"diskfs raw".into()), "{ext4:?}");
        let xfs = names(Filesystem::Xfs);
        for name in ["diskfs+uml raw", "diskfs+tcg raw", "guestmount raw"] {
            assert!(xfs.contains(&name.into()), "{xfs:?}");
        }
        assert!(!xfs.contains(&"diskfs raw".into()), "{xfs:?}");
    }
}
