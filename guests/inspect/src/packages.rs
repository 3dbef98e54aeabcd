//! What is installed, as the guest's own databases of packages have it.

mod apk;
mod dpkg;
mod pacman;
mod portage;
mod rpm;

use std::mem;

use serde::Serialize;

use super::files::Files;

/// More than a database takes that has all packages of a distribution.
const LIMIT_BYTES: u64 = 64 << 20;

/// More than any distribution has.
const MAX_PACKAGES: usize = 200_000;

/// A package that is installed.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Package {
    /// The name.
    pub name: String,
    /// The whole version, as the package manager has it.
    pub version: String,
    /// The architecture that it is for.
    pub architecture: String,
    /// What it is built from, where the database says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What it is, in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What it is, at length, where the database has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its home page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// How a guest's packages are managed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Packages {
    /// What packages are: `deb`, `rpm`, `apk`, `pacman`, `ipk`, `ebuild`.
    pub format: Option<&'static str>,
    /// What installs them: `apt`, `dnf`, `yum`, `zypper`, `apk`, `pacman`, `opkg`, `portage`.
    pub manager: Option<&'static str>,
    /// Those that are installed, by name; `None` where the database could not be read.
    pub installed: Option<Vec<Package>>,
}

impl Packages {
    /// The version of an installed package.
    pub(super) fn version_of(&self, name: &str) -> Option<String> {
        let mut installed = self.installed.iter().flatten();
        let package = installed.find(|package| package.name == name)?;
        Some(package.version.clone())
    }
}

/// What installs packages of rpm, the newest first.
const RPM_MANAGERS: [(&str, &str); 5] = [
    ("/usr/bin/zypper", "zypper"),
    ("/usr/bin/dnf5", "dnf"),
    ("/usr/bin/dnf", "dnf"),
    ("/usr/bin/yum", "yum"),
    ("/usr/bin/microdnf", "dnf"),
];

/// A reader of one sort of database: `None` where there is none.
type Read = fn(&Files<'_>) -> Option<Result<Vec<Package>, ()>>;

/// The packages.
pub(super) fn of(files: &Files<'_>) -> Packages {
    let databases: [(&'static str, &'static str, Read); 5] = [
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
        let reason = format!("packages beyond the {MAX_PACKAGES}th are left out");
        files.complain(format, reason);
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

/// The fields of a paragraph of a file of them.
#[derive(Debug, Default)]
struct Paragraph<'t> {
    name: Option<&'t str>,
    version: Option<&'t str>,
    architecture: Option<&'t str>,
    source: Option<&'t str>,
    summary: Option<&'t str>,
    url: Option<&'t str>,
    description: String,
    /// Whether the field that lines go on with is the description.
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

/// The packages of a file whose paragraphs an empty line ends; `take` takes a line.
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
