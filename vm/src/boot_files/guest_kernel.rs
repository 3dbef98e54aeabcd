//! The kernel of a guest: it understands the filesystems of the guest's image, however new or old.

use std::fs;
use std::sync::Arc;

use crate::run_dir::RunDir;

use super::agent::architecture_for;
use super::bz_image::{self, MAX_KERNEL_BYTES};
use super::initramfs::initramfs;
use super::modules::{Modules, numbers};
use super::{Appliance, QemuFiles};
use diskfs_disk::guest::System;
use diskfs_disk::{Error, ErrorKind, Filesystem, Result};

/// The directories of modules; on most systems, the second one is a symlink to the first.
const MODULES: [&str; 2] = ["/usr/lib/modules", "/lib/modules"];

/// The disk space for the files that QEMU boots.
const ROOM_MIB: u32 = 256;

/// A kernel of a guest, unpacked for QEMU, with the agent. Dropping the last clone removes its
/// files.
#[derive(Debug, Clone)]
pub struct GuestKernel(Arc<Unpacked>);

#[derive(Debug)]
struct Unpacked {
    version: String,
    filesystems: Vec<String>,
    files: QemuFiles,
    _dir: RunDir,
}

impl PartialEq for GuestKernel {
    fn eq(&self, other: &Self) -> bool {
        self.0.files == other.0.files
    }
}

impl Eq for GuestKernel {}

impl GuestKernel {
    /// Unpacks the newest kernel of a system that has its modules, with the agent of the appliance.
    /// Nothing of the guest is run here: the kernel runs only in the machine.
    ///
    /// # Errors
    /// Fails with `NotFound` if there is no kernel or agent, with `Unsupported` if the kernel's
    /// compression is unknown, and with the error of reading the guest's files.
    pub fn of(system: &System, appliance: &Appliance) -> Result<Self> {
        let agent = appliance.agent(None)?;
        let tree = system.filesystem()?;
        let found = KernelInTree::newest(&tree)?;
        tracing::info!(
            kernel = found.kernel,
            modules = found.modules,
            "using a kernel of the guest"
        );
        let image = tree.read_at_most(&found.kernel, MAX_KERNEL_BYTES)?;
        let in_guest = |error: Error| error.in_file(tree.image_path());
        let elf = bz_image::unpack(&image).map_err(in_guest)?;
        architecture_for(&agent, &elf).map_err(in_guest)?;
        let modules = Modules::in_guest(&tree, &found.modules)?;
        let (initramfs, filesystems) = initramfs(&agent, &modules)?;
        let dir = RunDir::with_room_for(ROOM_MIB)?;
        let files = QemuFiles::in_dir(dir.path());
        fs::write(&files.kernel, elf)?;
        fs::write(&files.initramfs, initramfs)?;
        Ok(Self(Arc::new(Unpacked {
            version: found.version,
            filesystems,
            files,
            _dir: dir,
        })))
    }

    /// Returns the version, the name of the modules' directory.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// Returns the filesystems that it mounts with modules, besides those that are built in.
    pub fn filesystems(&self) -> &[String] {
        &self.0.filesystems
    }

    /// Returns the files that QEMU boots.
    pub(crate) fn files(&self) -> &QemuFiles {
        &self.0.files
    }
}

/// A kernel in a guest's tree.
#[derive(Debug, PartialEq, Eq)]
struct KernelInTree {
    version: String,
    kernel: String,
    modules: String,
}

impl KernelInTree {
    fn newest(tree: &Filesystem) -> Result<Self> {
        let mut versions: Vec<(String, &str)> = Vec::new();
        for dir in MODULES {
            for entry in tree.read_dir(dir).unwrap_or_default() {
                // Versions are plain ASCII.
                if let Ok(version) = String::from_utf8(entry.name) {
                    versions.push((version, dir));
                }
            }
        }
        versions.sort_by_key(|(version, _)| numbers(version));
        let mut newest = versions.into_iter().rev();
        let found = newest.find_map(|(version, dir)| Self::of_version(tree, version, dir));
        found.ok_or_else(|| {
            let reason = "missing kernel with its modules in the guest";
            let hint = "omit --vm-kernel to use the kernel of the appliance";
            Error::new(ErrorKind::NotFound, reason)
                .in_file(tree.image_path())
                .with_hint(hint)
        })
    }

    /// Finds the kernel of a version where distributions put it: all but ostree and Arch use
    /// `/boot`.
    fn of_version(tree: &Filesystem, version: String, dir: &str) -> Option<Self> {
        let modules = format!("{dir}/{version}");
        let places = [
            format!("/boot/vmlinuz-{version}"),
            format!("{modules}/vmlinuz"),
            format!("/boot/vmlinux-{version}"),
        ];
        let is_there = |path: &str| tree.exists(path).unwrap_or(false);
        let has_modules = is_there(&format!("{modules}/modules.dep"));
        let kernel = places.into_iter().find(|path| is_there(path));
        Some(Self {
            kernel: kernel.filter(|_| has_modules)?,
            version,
            modules,
        })
    }
}
