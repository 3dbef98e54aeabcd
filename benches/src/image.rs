//! The images that the contenders open: a Debian tree and a large file on ext4, built once.

mod debian;
mod large_file;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;
use crate::mount::MountPoint;

/// The filesystem's size. The tree takes half a GiB and the large file one; a real image has
/// room left, too, and holes cost no disk space.
const FILESYSTEM_BYTES: u64 = 4 << 30;

/// How an image is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The filesystem's bytes, with holes.
    Raw,
    /// `qemu-img convert -O qcow2`.
    Qcow2,
    /// The same with zstd-compressed clusters.
    Qcow2Zstd,
}

impl Kind {
    /// The name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Qcow2Zstd => "zstd",
        }
    }

    /// The name of the driver in QEMU.
    pub(crate) fn qemu_driver(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 | Self::Qcow2Zstd => "qcow2",
        }
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Raw => "debian.raw",
            Self::Qcow2 => "debian.qcow2",
            Self::Qcow2Zstd => "debian-zstd.qcow2",
        }
    }
}

/// The images of a run.
#[derive(Debug)]
pub(crate) struct Images {
    dir: PathBuf,
}

impl Images {
    /// The Debian tree as an archive, in a directory `tree`.
    pub(crate) fn archive(&self) -> PathBuf {
        self.dir.join("tree.tar")
    }

    /// An empty filesystem of this kind.
    pub(crate) fn empty(&self, kind: Kind) -> PathBuf {
        self.dir.join(format!("empty-{}", kind.file_name()))
    }

    /// Where the image of this kind is.
    pub(crate) fn path(&self, kind: Kind) -> PathBuf {
        self.dir.join(kind.file_name())
    }
}

/// Builds the images that `dir` lacks.
pub(crate) fn build_all(dir: &Path) -> Result<Images> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let dir = dir.canonicalize()?;
    let images = Images { dir };
    let raw = images.path(Kind::Raw);
    let is_new = !raw.exists();
    if is_new {
        build(&raw, build_raw).context("building the Debian image")?;
    }
    for (kind, options) in [
        (Kind::Qcow2, &["-O", "qcow2"][..]),
        (
            Kind::Qcow2Zstd,
            &["-O", "qcow2", "-c", "-o", "compression_type=zstd"],
        ),
    ] {
        let path = images.path(kind);
        if is_new || !path.exists() {
            build(&path, |part| convert(&raw, part, options))?;
        }
    }
    if is_new || !images.archive().exists() {
        build(&images.archive(), |part| pack(&raw, part)).context("packing the Debian tree")?;
    }
    let empty = images.empty(Kind::Raw);
    if !empty.exists() {
        build(&empty, build_empty)?;
    }
    let empty_qcow2 = images.empty(Kind::Qcow2);
    if !empty_qcow2.exists() {
        build(&empty_qcow2, |part| convert(&empty, part, &["-O", "qcow2"]))?;
    }
    Ok(images)
}

/// An empty filesystem with nothing left to be initialised in the background: a kernel's thread
/// that does so would be measured with what it runs beside.
fn build_empty(part: &Path) -> Result<()> {
    fs::File::create(part)?.set_len(FILESYSTEM_BYTES)?;
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    command::output(mkfs.arg(part)).map(drop)
}

/// Packs all of the image but the large file.
fn pack(raw: &Path, part: &Path) -> Result<()> {
    let mut point = MountPoint::directory(part.with_extension("mnt"))?;
    point.mount_loop(raw, "ro,loop")?;
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

/// Makes the filesystem, and fills it through the kernel's driver: its allocator and its hashed
/// directories are what a real image has; `mke2fs -d` packs files back to back, unhashed.
fn build_raw(part: &Path) -> Result<()> {
    fs::File::create(part)?.set_len(FILESYSTEM_BYTES)?;
    let mut mkfs = Command::new("mkfs.ext4");
    command::output(mkfs.args(["-q", "-F", "-L", "bench"]).arg(part))?;
    let work = part.with_extension("mnt");
    let mut point = MountPoint::directory(work)?;
    point.mount_loop(part, "loop")?;
    debian::install(point.path())?;
    large_file::write(&point.path().join(crate::visit::LARGE_FILE))?;
    rustix::fs::syncfs(&fs::File::open(point.path())?)?;
    // What debootstrap deleted would be data in the qcow2, too.
    command::output(Command::new("fstrim").arg(point.path()))?;
    point.unmount()
}
