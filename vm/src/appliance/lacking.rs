//! The things that the host lacks for building the appliance, and the command that installs them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use super::{build_qemu, build_tools, build_uml, kernel_source};
use crate::architecture::Architecture;
use crate::boot_files::{find_program, output_of};

/// A package, by its names in Debian and in Fedora.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    pub(super) deb: &'static str,
    pub(super) rpm: &'static str,
}

/// A package that has the same name everywhere.
pub(super) const fn package(name: &'static str) -> Package {
    Package {
        deb: name,
        rpm: name,
    }
}

const CURL: Package = package("curl");
const QEMU: Package = match Architecture::HOST {
    Architecture::X86_64 => Package {
        deb: "qemu-system-x86",
        rpm: "qemu-system-x86-core",
    },
    Architecture::Aarch64 => Package {
        deb: "qemu-system-arm",
        rpm: "qemu-system-aarch64-core",
    },
};
const KERNEL: Package = Package {
    deb: match Architecture::HOST {
        Architecture::X86_64 => "linux-image-cloud-amd64",
        Architecture::Aarch64 => "linux-image-cloud-arm64",
    },
    rpm: "kernel-core",
};
const UBUNTU_KERNEL: Package = package("linux-image-virtual");

/// The source to download where no package has a new one, and its place.
const SOURCE_URL: &str = "https://cdn.kernel.org/pub/linux/kernel/v7.x/linux-7.2.tar.xz";
const SOURCE_FILE: &str = "/usr/src/linux-7.2.tar.xz";

/// The things that the host lacks for building the appliance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lacking {
    names: Vec<String>,
    packages: BTreeSet<Package>,
    source: Option<Source>,
}

/// The origin of a kernel's source.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Package(String),
    Download,
}

impl Lacking {
    /// Returns what the host lacks for building a User Mode Linux kernel from a source that is
    /// there.
    pub(super) fn for_compiling() -> Self {
        let mut lacking = Self::programs(build_uml::PROGRAMS);
        if !build_uml::has_static_libc() {
            lacking.add("libc.a", build_uml::LIBC);
        }
        lacking
    }

    /// Returns what the host lacks for building a User Mode Linux kernel.
    pub fn for_uml() -> Self {
        let mut lacking = Self::for_compiling();
        if kernel_source::find().is_err() {
            lacking.names.push(kernel_source::described());
            let found = newest_source_package();
            if found.is_none() && find_program("curl").is_none() {
                lacking.packages.insert(CURL);
            }
            lacking.source = Some(found.map_or(Source::Download, Source::Package));
        }
        lacking
    }

    /// Returns what the host lacks for the files that QEMU boots.
    pub fn for_qemu() -> Self {
        let mut lacking = Self::default();
        if build_qemu::installed_in(Path::new("/")).is_err() {
            let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
            let is_ubuntu = system.lines().any(|line| line == "ID=ubuntu");
            let kernel = if is_ubuntu { UBUNTU_KERNEL } else { KERNEL };
            lacking.add("a kernel with its modules in /boot", kernel);
        }
        lacking
    }

    /// Returns what the host lacks for starting the files that QEMU boots.
    pub fn for_running_qemu() -> Self {
        Self::programs(&[(Architecture::HOST.program(), QEMU)])
    }

    /// Returns the filesystem programs that the host lacks; the others can be packed without them.
    pub fn for_tools() -> Self {
        Self::programs(build_tools::PROGRAMS)
    }

    fn programs(needed: &[(&str, Package)]) -> Self {
        let mut lacking = Self::default();
        for (program, package) in needed {
            if find_program(program).is_none() {
                lacking.add(program, *package);
            }
        }
        lacking
    }

    fn add(&mut self, name: &str, package: Package) {
        self.names.push(name.to_owned());
        self.packages.insert(package);
    }

    /// Adds the things that another part lacks.
    pub fn extend(&mut self, other: Self) {
        self.names.extend(other.names);
        self.packages.extend(other.packages);
        self.source = self.source.take().or(other.source);
    }

    /// Returns the names of the missing things.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the shell command that installs all of them; `None` if nothing is missing, or if the
    /// host has a package manager that is not known.
    pub fn command(&self) -> Option<String> {
        let installs = |program| find_program(program).is_some();
        let (manager, name): (_, fn(&Package) -> &'static str) = if installs("apt-get") {
            ("apt-get", |package| package.deb)
        } else if installs("dnf") {
            ("dnf", |package| package.rpm)
        } else {
            return None;
        };
        self.command_of(
            manager,
            name,
            if geteuid().is_root() { "" } else { "sudo " },
        )
    }

    fn command_of(
        &self,
        manager: &str,
        name: fn(&Package) -> &'static str,
        sudo: &str,
    ) -> Option<String> {
        let mut packages: BTreeSet<&str> = self.packages.iter().map(name).collect();
        if let Some(Source::Package(source)) = &self.source {
            packages.insert(source);
        }
        let packages = Vec::from_iter(packages).join(" ");
        let install = (!packages.is_empty()).then(|| format!("{sudo}{manager} install {packages}"));
        let download = (self.source == Some(Source::Download))
            .then(|| format!("{sudo}curl -fLo {SOURCE_FILE} {SOURCE_URL}"));
        let commands: Vec<String> = install.into_iter().chain(download).collect();
        (!commands.is_empty()).then(|| commands.join(" && "))
    }
}

/// Returns the newest package with a source of Linux that the host's package manager knows.
fn newest_source_package() -> Option<String> {
    let apt_cache = find_program("apt-cache")?;
    let names = output_of(Command::new(apt_cache).args(["pkgnames", "linux-source-"])).ok()?;
    newest_of(names.lines())
}

fn newest_of<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let packages = names.filter_map(|name| {
        let version = kernel_source::new_version(name.strip_prefix("linux-source-")?)?;
        Some((version, name))
    });
    packages.max().map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB: fn(&Package) -> &'static str = |package| package.deb;

    #[test]
    fn one_command_installs_everything() {
        let mut lacking = Lacking::default();
        assert_eq!(lacking.command_of("apt-get", DEB, ""), None);
        lacking.add("flex", package("flex"));
        let mut other = Lacking::default();
        other.add("qemu-system-x86_64", QEMU);
        other.add("flex", package("flex"));
        lacking.extend(other);
        assert_eq!(
            lacking.command_of("apt-get", DEB, "").unwrap(),
            "apt-get install flex qemu-system-x86"
        );
        lacking.source = Some(Source::Package("linux-source-7.2".to_owned()));
        assert_eq!(
            lacking.command_of("apt-get", DEB, "").unwrap(),
            "apt-get install flex linux-source-7.2 qemu-system-x86"
        );
        lacking.source = Some(Source::Download);
        let command = lacking.command_of("dnf", |package| package.rpm, "sudo ");
        assert_eq!(
            command.unwrap(),
            format!(
                "sudo dnf install flex qemu-system-x86-core && \
                 sudo curl -fLo {SOURCE_FILE} {SOURCE_URL}"
            )
        );
    }

    #[test]
    fn the_newest_package_is_named() {
        let names = [
            "linux-source-6.1",
            "linux-source",
            "linux-source-7.2",
            "linux-source-6.18",
        ];
        let newest = newest_of(names.into_iter());
        assert_eq!(newest.as_deref(), Some("linux-source-7.2"));
        assert_eq!(newest_of(["linux-source-6.12"].into_iter()), None);
    }
}
