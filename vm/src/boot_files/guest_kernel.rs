//! The kernel that an image itself holds: it understands the image's filesystems, however new or old.

use std::fs;
use std::sync::Arc;

use crate::run_dir::RunDir;

use super::bz_image::{self, MAX_KERNEL_BYTES};
use super::initramfs::initramfs;
use super::modules::{Modules, numbers};
use super::{Appliance, QemuFiles, static_agent};
use diskfs_disk::guest::System;
use diskfs_disk::{Error, ErrorKind, Filesystem, Result};

/// Where modules are; the second one is a symlink to the first on most systems.
const MODULES: [&str; 2] = ["/usr/lib/modules", "/lib/modules"];

/// Room for what QEMU boots.
const ROOM_MIB: u32 = 256;

/// A kernel of a guest, unpacked for QEMU, with the agent. Its files are gone with the last clone.
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
    /// Takes the newest kernel of a system that has its modules, with the agent of the appliance. Nothing of
    /// the guest is run here: it runs in the machine, as all that the machine does.
    ///
    /// # Errors
    /// `NotFound` without a kernel or an agent, `Unsupported` for one that is packed in an unknown way, and
    /// what reading the guest's files meets.
    pub fn of(system: &System, appliance: &Appliance) -> Result<Self> {
        let agent = static_agent(&appliance.agent()?)?;
        let tree = system.filesystem()?;
        let found = Found::newest(&tree)?;
        tracing::info!(
            kernel = found.kernel,
            modules = found.modules,
            "a kernel of the guest is taken"
        );
        let image = tree.read_at_most(&found.kernel, MAX_KERNEL_BYTES)?;
        let in_guest = |error: Error| error.in_file(tree.image_path());
        let elf = bz_image::unpack(&image).map_err(in_guest)?;
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

    /// Its version, as the directory of its modules is called.
    pub fn version(&self) -> &str {
        &self.0.version
    }

    /// The filesystems that it mounts beside those that are built in.
    pub fn filesystems(&self) -> &[String] {
        &self.0.filesystems
    }

    /// What QEMU boots.
    pub(crate) fn files(&self) -> &QemuFiles {
        &self.0.files
    }
}

/// A kernel in a guest's tree.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    version: String,
    kernel: String,
    modules: String,
}

impl Found {
    fn newest(tree: &Filesystem) -> Result<Self> {
        let mut versions: Vec<(String, &str)> = Vec::new();
        for dir in MODULES {
            for entry in tree.read_dir(dir).unwrap_or_default() {
                // Names of versions are plain.
                if let Ok(version) = String::from_utf8(entry.name) {
                    versions.push((version, dir));
                }
            }
        }
        versions.sort_by_key(|(version, _)| numbers(version));
        let mut newest = versions.into_iter().rev();
        let found = newest.find_map(|(version, dir)| Self::of_version(tree, version, dir));
        found.ok_or_else(|| {
            let reason = "the guest holds no kernel with its modules";
            let hint = "leave --vm-kernel away to take that of the appliance";
            Error::new(ErrorKind::NotFound, reason)
                .in_file(tree.image_path())
                .with_hint(hint)
        })
    }

    /// Where distributions put it: all but ostree and Arch in `/boot`.
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
