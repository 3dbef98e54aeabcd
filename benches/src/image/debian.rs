//! A Debian system by debootstrap, from where this machine's apt gets its packages.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use diskfs_fixtures::{Variant, debootstrap};

/// On top of the standard variant: what brings the tree to some 18,000 files of the usual kinds,
/// many small ones (Python, Vim's runtime) among them.
const EXTRA_PACKAGES: &str = "ca-certificates,curl,git,openssh-server,python3,vim";

/// Installs Debian into an empty directory.
pub(super) fn install(root: &Path) -> Result<()> {
    debootstrap(root, Variant::Standard, EXTRA_PACKAGES)?;
    remove_packages(&root.join("var/cache/apt/archives"))?;
    ensure!(
        root.join("etc/os-release").exists(),
        "debootstrap left no /etc/os-release"
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
