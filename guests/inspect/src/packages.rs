//! The installed packages, from the guest's package databases.

mod apk;
mod dpkg;
mod pacman;
mod portage;
mod rpm;

use std::mem;

use serde::Serialize;

use super::files::Files;

/// The size limit of a database, larger than that of a complete distribution.
const LIMIT_BYTES: u64 = 64 << 20;

/// The limit on packages, more than any distribution has.
const MAX_PACKAGES: usize = 200_000;

/// An installed package.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Package {
    /// The package name.
    pub name: String,
    /// The full version, in the format of the package manager.
    pub version: String,
    /// The architecture that it is built for.
    pub architecture: String,
    /// The source package, if the database records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The summary of one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The long description, if the database has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The URL of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The package manager of a guest, and its packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Packages {
    /// The package format: `deb`, `rpm`, `apk`, `pacman`, `ipk`, `ebuild`.
    pub format: Option<&'static str>,
    /// The package manager: `apt`, `dnf`, `yum`, `zypper`, `apk`, `pacman`, `opkg`, `portage`.
    pub manager: Option<&'static str>,
    /// The installed packages, sorted by name; `null` if the database could not be read.
    pub installed: Option<Vec<Package>>,
}

impl Packages {
    /// Returns the version of an installed package.
    pub(super) fn version_of(&self, name: &str) -> Option<String> {
        let mut installed = self.installed.iter().flatten();
        let package = installed.find(|package| package.name == name)?;
        Some(package.version.clone())
    }
}

/// The package managers of rpm, the newest first.
const RPM_MANAGERS: [(&str, &str); 5] = [
    ("/usr/bin/zypper", "zypper"),
    ("/usr/bin/dnf5", "dnf"),
    ("/usr/bin/dnf", "dnf"),
    ("/usr/bin/yum", "yum"),
    ("/usr/bin/microdnf", "dnf"),
];

/// A reader of one kind of database, which returns `None` if the database is missing.
type ReadPackages = fn(&Files<'_>) -> Option<Result<Vec<Package>, ()>>;

/// Reads the installed packages.
pub(super) fn of(files: &Files<'_>) -> Packages {
    let databases: [(&'static str, &'static str, ReadPackages); 5] = [
        ("deb", "apt", dpkg::installed),
        ("apk", "apk", apk::installed),
        ("pacman", "pacman", pacman::installed),
        ("ipk", "opkg", dpkg::installed_by_opkg),
        ("ebuild", "portage", portage::installed),
    ];
    for (format, manager, read) in databases {
        if let Some(installed) = read(files) {
            return listed(files, format, Some(manager), installed);
        }
    }
    match rpm::installed(files) {
        Some(installed) => listed(files, "rpm", manager_of_rpm(files), installed),
        None => Packages::default(),
    }
}

fn listed(
    files: &Files<'_>,
    format: &'static str,
    manager: Option<&'static str>,
    installed: Result<Vec<Package>, ()>,
) -> Packages {
    let installed = installed.ok().map(sorted);
    let is_full = |all: &Vec<Package>| all.len() >= MAX_PACKAGES;
    if installed.as_ref().is_some_and(is_full) {
        let reason =
            format!("too many packages: those after the first {MAX_PACKAGES} are not read");
        files.add_problem(format, reason);
    }
    Packages {
        format: Some(format),
        manager,
        installed,
    }
}

fn sorted(mut packages: Vec<Package>) -> Vec<Package> {
    packages.sort();
    packages
}

fn manager_of_rpm(files: &Files<'_>) -> Option<&'static str> {
    let mut managers = RPM_MANAGERS.iter();
    let manager = managers.find(|(program, _)| files.exists(program));
    manager.map(|(_, name)| *name)
}

/// The fields of a paragraph of a database.
#[derive(Debug, Default)]
struct Paragraph<'t> {
    name: Option<&'t str>,
    version: Option<&'t str>,
    architecture: Option<&'t str>,
    source: Option<&'t str>,
    summary: Option<&'t str>,
    url: Option<&'t str>,
    description: String,
    /// True if continuation lines belong to the description.
    is_described: bool,
    is_installed: bool,
}

impl Paragraph<'_> {
    fn package(self) -> Option<Package> {
        let name = self.name.filter(|_| self.is_installed)?;
        let known = |text: Option<&str>| text.map(str::to_owned);
        Some(Package {
            name: name.to_owned(),
            version: self.version.unwrap_or_default().to_owned(),
            architecture: self.architecture.unwrap_or_default().to_owned(),
            source: known(self.source),
            summary: known(self.summary),
            url: known(self.url),
            description: Some(self.description).filter(|text| !text.is_empty()),
        })
    }
}

/// Returns the packages of a file whose paragraphs end with an empty line; `take` parses one line.
fn paragraphs<'t>(
    text: &'t str,
    begin: impl Fn() -> Paragraph<'t>,
    take: impl Fn(&mut Paragraph<'t>, &'t str),
) -> Vec<Package> {
    let mut packages = Vec::new();
    let mut paragraph = begin();
    for line in text.lines().chain([""]) {
        if packages.len() >= MAX_PACKAGES {
            break;
        }
        if line.is_empty() {
            packages.extend(mem::replace(&mut paragraph, begin()).package());
        } else {
            take(&mut paragraph, line);
        }
    }
    packages
}
