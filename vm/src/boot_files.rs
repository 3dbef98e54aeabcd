//! The files that a microVM boots: kernels, with the agent in them, where the [appliance](super::appliance) has them.

mod agent;
pub(super) mod bz_image;
mod guest_kernel;
mod initramfs;
mod install;
mod modules;
mod tools;

pub(super) use agent::{install_agent, static_agent};
pub use guest_kernel::GuestKernel;
pub(super) use initramfs::{Initramfs, initramfs};
pub(super) use install::install;
pub(super) use modules::{Modules, numbers};
pub(super) use tools::{find_program, output_of, run};

use std::path::{Path, PathBuf};

use diskfs_disk::{Error, ErrorKind, Result};

/// Names the appliance's directory, before those that are looked into anyhow.
pub const VARIABLE: &str = "DISKFS_APPLIANCE";

/// The directory in which packages put the appliance.
const SYSTEM_DIR: &str = "/usr/lib/diskfs";

/// The file with the programs for filesystems.
pub(super) const TOOLS: &str = "tools";

/// Stands between what is missing and the places where it was looked for.
pub(super) const LOOKED_IN: &str = " in ";

/// The directories in which the appliance is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appliance {
    places: Vec<PathBuf>,
}

impl Appliance {
    /// In the directory that is given, in that of `$DISKFS_APPLIANCE`, next to the program, in
    /// `/usr/lib/diskfs`, and in the user's cache: the first that has a file is where it is taken from.
    pub fn find(given: Option<&Path>) -> Self {
        let said = std::env::var_os(VARIABLE).filter(|dir| !dir.is_empty());
        let program = std::env::current_exe().ok();
        let beside = program.as_deref().and_then(Path::parent);
        let places = [
            given.map(Path::to_owned),
            said.map(PathBuf::from),
            beside.map(|dir| dir.join("appliance")),
            Some(PathBuf::from(SYSTEM_DIR)),
            cache_dir(),
        ];
        Self {
            places: places.into_iter().flatten().collect(),
        }
    }

    /// The directories, the first one first.
    pub fn places(&self) -> &[PathBuf] {
        &self.places
    }

    /// The kernel of User Mode Linux.
    ///
    /// # Errors
    /// `Unsupported` when there is none, with where it was looked for.
    pub fn uml(&self) -> Result<PathBuf> {
        self.file("uml").ok_or_else(|| {
            self.missing("no User Mode Linux kernel")
                .with_hint("make one with `diskfs appliance build uml`")
        })
    }

    /// Finds the files that QEMU boots: both in one directory, because they belong together.
    ///
    /// # Errors
    /// `Unsupported` when there is none, with where it was looked for.
    pub fn qemu(&self) -> Result<QemuFiles> {
        let dirs = self.places.iter().map(|place| place.join("qemu"));
        let mut all = dirs.map(|dir| QemuFiles::in_dir(&dir));
        let found = all.find(|files| files.kernel.is_file() && files.initramfs.is_file());
        found.ok_or_else(|| {
            self.missing("no kernel for QEMU")
                .with_hint("make one with `diskfs appliance build qemu`")
        })
    }

    /// The filesystem with the programs that make, check and resize filesystems.
    ///
    /// # Errors
    /// `Unsupported` when there is none, with where it was looked for.
    pub fn tools(&self) -> Result<PathBuf> {
        self.file(TOOLS).ok_or_else(|| {
            self.missing("no programs for filesystems")
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
        let reason = format!("{what}{LOOKED_IN}{}", places.join(", "));
        Error::new(ErrorKind::Unsupported, reason)
    }
}

/// The files that QEMU boots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QemuFiles {
    /// The kernel, as ELF.
    pub kernel: PathBuf,
    /// Its first filesystem.
    pub initramfs: PathBuf,
    /// The state of a machine that has booted it, if that is there.
    pub saved: PathBuf,
}

impl QemuFiles {
    /// Those of a directory, whether they are there or not.
    pub(super) fn in_dir(dir: &Path) -> Self {
        Self {
            kernel: dir.join("vmlinux"),
            initramfs: dir.join("initramfs"),
            saved: dir.join("saved"),
        }
    }
}

/// The user's own appliance: where it is built, unless another place is named.
pub fn cache_dir() -> Option<PathBuf> {
    Some(cache()?.join("appliance"))
}

/// diskfs' own directory below `$XDG_CACHE_HOME` (XDG Base Directory Specification).
pub(super) fn cache() -> Option<PathBuf> {
    let said = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let base = said.filter(|dir| dir.is_absolute()).or_else(home)?;
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
