//! Building of the files that QEMU boots: a kernel of the host or of a package, as ELF, and an
//! initramfs with the agent and its modules.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::VmOptions;
use crate::boot_files::{
    Appliance, Modules, QemuFiles, architecture_for, bz_image, initramfs, install, install_agent,
    numbers, remove_checksum, run, write_checksum,
};

use super::save::save;
use diskfs_block::len_of;
use diskfs_disk::{Error, ErrorKind, Result};

/// The parameters for building the files that QEMU boots.
#[derive(Debug, Clone)]
pub struct BuildQemu {
    /// The kernel (`vmlinuz`, or a Debian package of one); `None` for the newest one in `/boot`.
    pub kernel: Option<PathBuf>,
    /// The directory of its modules; `None` for the directory in `/lib/modules` with the kernel's
    /// version.
    pub modules: Option<PathBuf>,
    /// The agent, a static program; `None` for the one that is built in, or beside the program.
    pub agent: Option<PathBuf>,
    /// The output directory.
    pub output: PathBuf,
    /// True if a machine without KVM is booted and saved, so that later machines need not boot.
    pub save: bool,
}

/// The result of the build.
#[derive(Debug)]
pub struct BuiltQemu {
    /// The output directory.
    pub output: PathBuf,
    /// The filesystems that this kernel mounts with modules, besides those that are built in.
    pub filesystems: Vec<String>,
    /// The sizes of the kernel and of the initramfs.
    pub size_bytes: (u64, u64),
    /// The size of the saved state or the reason why saving failed; `None` if it was not requested.
    pub saved: Option<Result<u64>>,
}

impl BuildQemu {
    /// Builds the files; `say` gets progress messages.
    ///
    /// # Errors
    /// Fails with `NotFound` if the kernel, its modules or the agent are missing; with `Denied` if
    /// only root can read the kernel.
    pub fn run(&self, say: &mut dyn FnMut(&str)) -> Result<BuiltQemu> {
        let agent = Appliance::find(None).agent(self.agent.as_deref())?;
        let unpacked; // The unpacked package, removed at the end.
        let (kernel, modules) = match &self.kernel {
            Some(package) if package.extension().is_some_and(|end| end == "deb") => {
                say(&format!("unpacking {}", package.display()));
                unpacked = tempfile::tempdir()?;
                let mut dpkg = Command::new("dpkg-deb");
                run(dpkg.arg("-x").arg(package).arg(unpacked.path()))?;
                installed_in(unpacked.path())?
            }
            Some(kernel) => (kernel.clone(), None),
            None => installed_in(Path::new("/"))?,
        };
        let modules = match self.modules.clone().or(modules) {
            Some(modules) => modules,
            None => modules_of(&kernel)?,
        };
        say(&format!("unpacking {}", kernel.display()));
        let image = fs::read(&kernel).map_err(|error| unreadable(error, &kernel))?;
        let unpacked_kernel = bz_image::unpack(&image).map_err(|e| e.in_file(&kernel))?;
        let architecture = architecture_for(&agent, &unpacked_kernel)?;
        say(&format!("collecting modules from {}", modules.display()));
        let modules = Modules::in_tree(&modules, architecture)?;
        let (initramfs, filesystems) = initramfs(&agent, &modules)?;
        let size_bytes = (len_of(&unpacked_kernel), len_of(&initramfs));
        let files = self.install(&unpacked_kernel, &initramfs)?;
        install_agent(&agent, &self.output)?;
        let saved = self.save.then(|| {
            say("booting a machine to save its state");
            save(&files, VmOptions::default().memory_mib)
        });
        Ok(BuiltQemu {
            output: self.output.clone(),
            filesystems,
            size_bytes,
            saved,
        })
    }

    fn install(&self, kernel: &[u8], initramfs: &[u8]) -> Result<QemuFiles> {
        fs::create_dir_all(&self.output).map_err(|e| Error::from(e).in_file(&self.output))?;
        let files = QemuFiles::in_dir(&self.output);
        // The saved state belongs to the previous kernel.
        remove_checksum(&files.saved)?;
        match fs::remove_file(&files.saved) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::from(error).in_file(&files.saved));
            }
            _ => {}
        }
        for (file, contents) in [(&files.kernel, kernel), (&files.initramfs, initramfs)] {
            remove_checksum(file)?;
            install(file, contents, 0o644)?;
            write_checksum(file)?;
        }
        Ok(files)
    }
}

/// Returns the newest kernel that is installed below `root`, and its modules.
pub(super) fn installed_in(root: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
    let boot = root.join("boot");
    let entries = fs::read_dir(&boot).into_iter().flatten().flatten();
    let mut found: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("vmlinuz-")?.to_owned();
            Some((version, entry.path()))
        })
        .collect();
    found.sort_by_key(|(version, _)| numbers(version));
    let has_modules = |version: &str| {
        let places = ["usr/lib/modules", "lib/modules"].map(|dir| root.join(dir).join(version));
        places.into_iter().find(|dir| dir.is_dir())
    };
    let newest = found.into_iter().rev().find_map(|(version, kernel)| {
        let modules = has_modules(&version)?;
        Some((kernel, Some(modules)))
    });
    newest.ok_or_else(|| {
        let reason = format!("missing kernel with its modules in {}", boot.display());
        let hint = "name one with --kernel: a vmlinuz, or a package from \
                    `apt-get download linux-image-cloud-amd64` (the package that it depends on)";
        Error::new(ErrorKind::NotFound, reason).with_hint(hint)
    })
}

fn modules_of(kernel: &Path) -> Result<PathBuf> {
    let name = kernel.file_name().and_then(|name| name.to_str());
    let version = name.and_then(|name| name.strip_prefix("vmlinuz-"));
    let dir = version.map(|version| Path::new("/lib/modules").join(version));
    dir.filter(|dir| dir.is_dir()).ok_or_else(|| {
        let reason = "the directory of the kernel's modules is unknown";
        let hint = "name the directory with --modules";
        Error::new(ErrorKind::NotFound, reason)
            .in_file(kernel)
            .with_hint(hint)
    })
}

fn unreadable(error: std::io::Error, kernel: &Path) -> Error {
    let error = Error::from(error).in_file(kernel);
    match error.kind() {
        // On Ubuntu, only root can read the kernels.
        ErrorKind::Denied => error.with_hint(
            "name a readable kernel with --kernel, for example a package from \
             `apt-get download`",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_with_modules_is_taken() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(
            installed_in(root.path()).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        fs::create_dir(root.path().join("boot")).unwrap();
        for version in ["6.1.0-9-amd64", "6.1.0-56-amd64", "7.0.0-1-amd64"] {
            fs::write(root.path().join(format!("boot/vmlinuz-{version}")), "").unwrap();
            if !version.starts_with('7') {
                fs::create_dir_all(root.path().join("lib/modules").join(version)).unwrap();
            }
        }
        let (kernel, modules) = installed_in(root.path()).unwrap();
        assert!(kernel.ends_with("boot/vmlinuz-6.1.0-56-amd64"));
        assert!(modules.unwrap().ends_with("lib/modules/6.1.0-56-amd64"));
    }
}
