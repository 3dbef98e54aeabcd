//! The files that a microVM boots: kernels with the agent in them, from the directories of the
//! [appliance](super::appliance).

mod agent;
pub(super) mod bz_image;
mod checksum;
mod guest_kernel;
mod initramfs;
mod install;
mod modules;
mod tools;

pub(super) use agent::{architecture_for, install_agent, is_built_with};
pub use checksum::verify_checksum;
pub(super) use checksum::{remove_checksum, write_checksum};
pub use guest_kernel::GuestKernel;
pub(super) use initramfs::{Initramfs, initramfs};
pub(super) use install::install;
pub(super) use modules::{Modules, numbers};
pub(super) use tools::{find_program, output_of, run};

use std::path::{Path, PathBuf};

use diskfs_disk::{Error, ErrorKind, Result};

/// The environment variable that names the appliance's directory; it precedes the default
/// directories.
pub const VARIABLE: &str = "DISKFS_APPLIANCE";

/// The directory in which packages put the appliance.
const SYSTEM_DIR: &str = "/usr/lib/diskfs";

/// The name of the file with the filesystem programs.
pub(super) const TOOLS: &str = "tools";

/// The separator between a missing file and the directories that were searched for it.
pub(super) const SEARCHED_IN: &str = " in ";

/// The directories that are searched for the appliance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appliance {
    places: Vec<PathBuf>,
}

impl Appliance {
    /// Searches `given`, then `$DISKFS_APPLIANCE`, the directory next to the program,
    /// `/usr/lib/diskfs`, and the user's cache. Each file comes from the first of these directories
    /// that has it.
    pub fn find(given: Option<&Path>) -> Self {
        let named = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty());
        let program = std::env::current_exe().ok();
        let beside = program.as_deref().and_then(Path::parent);
        let places = [
            given.map(Path::to_owned),
            named.map(PathBuf::from),
            beside.map(|dir| dir.join("appliance")),
            Some(PathBuf::from(SYSTEM_DIR)),
            cache_dir(),
        ];
        Self {
            places: places.into_iter().flatten().collect(),
        }
    }

    /// Returns the directories in search order.
    pub fn places(&self) -> &[PathBuf] {
        &self.places
    }

    /// Returns the kernel of User Mode Linux.
    ///
    /// # Errors
    /// Fails with `Unsupported` if it is missing; the message names the directories that were
    /// searched.
    pub fn uml(&self) -> Result<PathBuf> {
        self.file("uml").ok_or_else(|| {
            self.missing("missing User Mode Linux kernel")
                .with_hint("build it with `diskfs appliance build uml`")
        })
    }

    /// Returns the files that QEMU boots: all from one directory, because they belong together.
    ///
    /// # Errors
    /// Fails with `Unsupported` if they are missing; the message names the directories that were
    /// searched.
    pub fn qemu(&self) -> Result<QemuFiles> {
        let dirs = self.places.iter().map(|place| place.join("qemu"));
        let mut all = dirs.map(|dir| QemuFiles::in_dir(&dir));
        let found = all.find(|files| files.kernel.is_file() && files.initramfs.is_file());
        found.ok_or_else(|| {
            self.missing("missing kernel for QEMU")
                .with_hint("build it with `diskfs appliance build qemu`")
        })
    }

    /// Returns the image with the programs that make, check and resize filesystems.
    ///
    /// # Errors
    /// Fails with `Unsupported` if it is missing; the message names the directories that were
    /// searched.
    pub fn tools(&self) -> Result<PathBuf> {
        self.file(TOOLS).ok_or_else(|| {
            self.missing("missing filesystem programs")
                .with_hint("collect them with `diskfs appliance build tools`")
        })
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        let mut all = self.places.iter().map(|place| place.join(name));
        all.find(|file| file.is_file())
    }

    fn missing(&self, what: &str) -> Error {
        let places: Vec<_> = self
            .places
            .iter()
            .map(|place| place.display().to_string())
            .collect();
        let reason = format!("{what}{SEARCHED_IN}{}", places.join(", "));
        Error::new(ErrorKind::Unsupported, reason)
    }
}

/// The files that QEMU boots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QemuFiles {
    /// The kernel, as ELF.
    pub kernel: PathBuf,
    /// The initramfs with the agent.
    pub initramfs: PathBuf,
    /// The saved state of a machine that has booted the two; the file may be missing.
    pub saved: PathBuf,
}

impl QemuFiles {
    /// Returns the files' paths in a directory; the files need not exist.
    pub(super) fn in_dir(dir: &Path) -> Self {
        Self {
            kernel: dir.join("vmlinux"),
            initramfs: dir.join("initramfs"),
            saved: dir.join("saved"),
        }
    }
}

/// Returns the directory of the user's own appliance, the default place for building it.
pub fn cache_dir() -> Option<PathBuf> {
    Some(cache()?.join("appliance"))
}

/// Returns the cache directory of diskfs below `$XDG_CACHE_HOME` (XDG Base Directory
/// Specification).
pub(super) fn cache() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let base = named.filter(|dir| dir.is_absolute()).or_else(home)?;
    Some(base.join("diskfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_that_has_it_counts() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let appliance = Appliance {
            places: vec![first.path().to_owned(), second.path().to_owned()],
        };
        let error = appliance.uml().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.reason().contains(&first.path().display().to_string()));
        std::fs::write(second.path().join("uml"), "").unwrap();
        assert_eq!(appliance.uml().unwrap(), second.path().join("uml"));
        std::fs::write(first.path().join("uml"), "").unwrap();
        assert_eq!(appliance.uml().unwrap(), first.path().join("uml"));
    }

    #[test]
    fn what_is_named_comes_first() {
        let appliance = Appliance::find(Some(Path::new("/here")));
        assert_eq!(appliance.places()[0], Path::new("/here"));
        assert!(appliance.places().contains(&PathBuf::from(SYSTEM_DIR)));
    }
}
