//! A Debian system by debootstrap, from where this machine's apt gets its packages.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command;

/// On top of the standard variant: what brings the tree to some 18,000 files of the usual kinds,
/// many small ones (Python, Vim's runtime) among them.
const EXTRA_PACKAGES: &str = "ca-certificates,curl,git,openssh-server,python3,vim";

/// A place that apt gets packages from.
#[derive(Debug, PartialEq, Eq)]
struct Source<'a> {
    uri: &'a str,
    codename: &'a str,
}

/// Installs Debian into an empty directory.
pub(super) fn install(root: &Path) -> Result<()> {
    let mut apt = Command::new("apt-get");
    apt.args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(CODENAME) $(COMPONENT)",
        "Created-By: Packages",
    ]);
    let targets = command::output(&mut apt).context("apt tells where packages come from")?;
    let source =
        main_source(&targets).context("apt has no source with Debian's `main`; is this Debian?")?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap
        .arg(format!("--include={EXTRA_PACKAGES}"))
        .arg(source.codename)
        .arg(root)
        .arg(source.uri);
    command::output(&mut debootstrap)?;
    remove_packages(&root.join("var/cache/apt/archives"))?;
    ensure!(
        root.join("etc/os-release").exists(),
        "debootstrap left no /etc/os-release"
    );
    Ok(())
}

/// The first source of the component `main` that is a whole release: those of updates and of
/// security fixes hold only parts of one, and have a dash in their name.
fn main_source(targets: &str) -> Option<Source<'_>> {
    targets.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (uri, codename, component) = (words.next()?, words.next()?, words.next()?);
        (component == "main" && !codename.contains('-')).then_some(Source { uri, codename })
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_itself_is_chosen() {
        let targets = "http://a/security/ stable-security main\nhttp://a/debian/ stable contrib\n\
                       http://a/debian/ stable main\n";
        let source = main_source(targets).unwrap();
        assert_eq!(
            source,
            Source {
                uri: "http://a/debian/",
                codename: "stable"
            }
        );
        assert_eq!(main_source(""), None);
    }
}
