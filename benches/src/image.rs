//! The images that the contenders open: a filesystem with a Debian tree and a large file, built
//! once.

mod debian;
pub(crate) mod large_file;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;
use crate::filesystem::Filesystem;
use crate::mount::MountPoint;

/// The path of the large file in the image.
pub(crate) const LARGE_FILE: &str = "srv/large.bin";

/// The length of the large file: the 1 GiB of the targets.
pub(crate) const LARGE_FILE_BYTES: u64 = 1 << 30;

/// The size of the filesystem. The tree takes half a GiB and the large file one; like a real image,
/// this one has free space, and its holes take no space on the host.
const FILESYSTEM_BYTES: u64 = 4 << 30;

/// The format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageFormat {
    /// A raw image with holes.
    Raw,
    /// A qcow2 image made by `qemu-img convert -O qcow2`.
    Qcow2,
    /// A qcow2 image with zstd-compressed clusters.
    Qcow2Zstd,
}

impl ImageFormat {
    /// Returns the name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Qcow2Zstd => "zstd",
        }
    }

    /// Returns the name of QEMU's driver.
    pub(crate) fn qemu_driver(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 | Self::Qcow2Zstd => "qcow2",
        }
    }

    /// Returns the suffix of the image's file name.
    fn suffix(self) -> &'static str {
        match self {
            Self::Raw => ".raw",
            Self::Qcow2 => ".qcow2",
            Self::Qcow2Zstd => "-zstd.qcow2",
        }
    }
}

/// The images of a run.
#[derive(Debug)]
pub(crate) struct Images {
    dir: PathBuf,
    filesystem: Filesystem,
}

impl Images {
    /// Returns the path of the archive of the Debian tree, whose files are in a directory `tree`.
    pub(crate) fn archive(&self) -> PathBuf {
        self.dir.join("tree.tar")
    }

    /// Returns the path of an empty filesystem of this kind.
    pub(crate) fn empty(&self, kind: ImageFormat) -> PathBuf {
        self.dir.join(format!("empty-{}", self.file_name(kind)))
    }

    /// Returns the path of the image of this kind.
    pub(crate) fn path(&self, kind: ImageFormat) -> PathBuf {
        self.dir.join(self.file_name(kind))
    }

    /// Returns the filesystem on the images.
    pub(crate) fn filesystem(&self) -> Filesystem {
        self.filesystem
    }

    fn file_name(&self, kind: ImageFormat) -> String {
        let name = match self.filesystem {
            Filesystem::Ext4 => "debian",
            Filesystem::Xfs => "debian-xfs",
            Filesystem::Btrfs => "debian-btrfs",
        };
        format!("{name}{}", kind.suffix())
    }

    fn of(&self, filesystem: Filesystem) -> Self {
        let dir = self.dir.clone();
        Self { dir, filesystem }
    }
}

/// Builds the images that are missing in `dir`.
pub(crate) fn build_all(dir: &Path, filesystem: Filesystem) -> Result<Images> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let dir = dir.canonicalize()?;
    let images = Images { dir, filesystem };
    let debian = images.of(Filesystem::Ext4).path(ImageFormat::Raw);
    let is_new = !debian.exists();
    if is_new {
        build(&debian, build_debian).context("building the Debian image")?;
    }
    let archive = images.archive();
    if is_new || !archive.exists() {
        build(&archive, |part| pack(&debian, part)).context("packing the Debian tree")?;
    }
    build_others(&images, is_new)?;
    Ok(images)
}

/// Builds the images that derive from the Debian image and from its archive.
fn build_others(images: &Images, is_debian_new: bool) -> Result<()> {
    let filesystem = images.filesystem;
    let raw = images.path(ImageFormat::Raw);
    let is_missing = is_debian_new || !raw.exists();
    if is_missing && filesystem != Filesystem::Ext4 {
        build(&raw, |part| build_unpacked(images, part))?;
    }
    for (kind, options) in [
        (ImageFormat::Qcow2, &["-O", "qcow2"][..]),
        (
            ImageFormat::Qcow2Zstd,
            &["-O", "qcow2", "-c", "-o", "compression_type=zstd"],
        ),
    ] {
        let path = images.path(kind);
        if is_missing || !path.exists() {
            build(&path, |part| convert(&raw, part, options))?;
        }
    }
    let empty = images.empty(ImageFormat::Raw);
    if !empty.exists() {
        build(&empty, |part| make_filesystem(filesystem, part))?;
    }
    let empty_qcow2 = images.empty(ImageFormat::Qcow2);
    if !empty_qcow2.exists() {
        build(&empty_qcow2, |part| convert(&empty, part, &["-O", "qcow2"]))?;
    }
    Ok(())
}

fn make_filesystem(filesystem: Filesystem, part: &Path) -> Result<()> {
    fs::File::create(part)?.set_len(FILESYSTEM_BYTES)?;
    command::output(filesystem.mkfs().arg(part)).map(drop)
}

/// Packs all files of the image except the large one.
fn pack(raw: &Path, part: &Path) -> Result<()> {
    let mut point = MountPoint::directory(part.with_extension("mnt"))?;
    point.mount_loop(raw, Filesystem::Ext4, "ro,loop")?;
    let mut tar = Command::new("tar");
    tar.args([
        "--xattrs",
        "--acls",
        "--transform=s,^\\.,tree,S",
        "--exclude=./srv",
    ]);
    tar.arg("--exclude=./lost+found")
        .arg("-C")
        .arg(point.path());
    command::output(tar.arg("-cf").arg(part).arg("."))?;
    point.unmount()
}

/// Runs `recipe` on a path beside `path`, and renames the result when it is complete.
fn build(path: &Path, recipe: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let _ = writeln!(std::io::stderr(), "building {}", path.display());
    let part = path.with_extension("part");
    let result = recipe(&part);
    if result.is_err() {
        let _ = fs::remove_file(&part);
    }
    result?;
    fs::rename(&part, path).with_context(|| path.display().to_string())
}

fn convert(raw: &Path, part: &Path, options: &[&str]) -> Result<()> {
    let mut convert = Command::new("qemu-img");
    convert.args(["convert", "-f", "raw"]).args(options);
    command::output(convert.arg(raw).arg(part)).map(drop)
}

/// Builds the Debian system with the large file beside it.
fn build_debian(part: &Path) -> Result<()> {
    build_filled(Filesystem::Ext4, part, debian::install)
}

/// Builds the same image from the archive of the tree.
fn build_unpacked(images: &Images, part: &Path) -> Result<()> {
    build_filled(images.filesystem, part, |root| {
        let mut tar = Command::new("tar");
        tar.args(["--xattrs", "--acls", "--strip-components=1", "-xpf"]);
        tar.arg(images.archive()).arg("-C").arg(root);
        command::output(&mut tar).map(drop)
    })
}

/// Makes the filesystem, and fills it through the kernel's driver: its allocator and its hashed
/// directories are like those of a real image. `mke2fs -d` would pack files back to back, with
/// linear directories.
fn build_filled(
    filesystem: Filesystem,
    part: &Path,
    install: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    make_filesystem(filesystem, part)?;
    let mut point = MountPoint::directory(part.with_extension("mnt"))?;
    point.mount_loop(part, filesystem, "loop")?;
    install(point.path())?;
    let large_file = point.path().join(LARGE_FILE);
    fs::create_dir_all(
        large_file
            .parent()
            .context("the large file has no parent directory")?,
    )?;
    large_file::write(&large_file, LARGE_FILE_BYTES)?;
    rustix::fs::syncfs(&fs::File::open(point.path())?)?;
    // Otherwise the data that debootstrap deleted would be data in the qcow2 image, too.
    command::output(Command::new("fstrim").arg(point.path()))?;
    point.unmount()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filesystem_has_files_of_its_own() {
        let ext4 = Images {
            dir: PathBuf::new(),
            filesystem: Filesystem::Ext4,
        };
        let xfs = ext4.of(Filesystem::Xfs);
        assert_eq!(ext4.path(ImageFormat::Raw), Path::new("debian.raw"));
        let zstd = Path::new("debian-zstd.qcow2");
        assert_eq!(ext4.path(ImageFormat::Qcow2Zstd), zstd);
        assert_eq!(xfs.path(ImageFormat::Raw), Path::new("debian-xfs.raw"));
        assert_eq!(
            xfs.empty(ImageFormat::Raw),
            Path::new("empty-debian-xfs.raw")
        );
        assert_eq!(xfs.archive(), ext4.archive());
    }
}
