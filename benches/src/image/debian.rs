//! A Debian system, made by debootstrap from the package source of this machine's apt.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use diskfs_fixtures::{Variant, debootstrap};

/// The packages besides the standard variant. They bring the tree to about 18,000 files of the
/// usual kinds, with many small ones (Python, Vim's runtime).
const EXTRA_PACKAGES: &str = "ca-certificates,curl,git,openssh-server,python3,vim";

/// Installs Debian into an empty directory.
pub(super) fn install(root: &Path) -> Result<()> {
    debootstrap(root, Variant::Standard, EXTRA_PACKAGES)?;
    remove_packages(&root.join("var/cache/apt/archives"))?;
    ensure!(
        root.join("etc/os-release").exists(),
        "debootstrap did not create /etc/os-release"
    );
    Ok(())
}

fn remove_packages(archives: &Path) -> Result<()> {
    for entry in fs::read_dir(archives)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
