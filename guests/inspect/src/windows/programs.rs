//! What is installed: `Microsoft\Windows\CurrentVersion\Uninstall` (Microsoft, "Uninstall Registry Key"), of
//! programs of 64 bits and of 32.

use diskfs_registry::Key;
use serde::Serialize;

use super::hives::{Hives, OpenHive};

const UNINSTALL: &str = r"Microsoft\Windows\CurrentVersion\Uninstall";

/// Where programs of 32 bits have theirs on a system of 64.
const WOW64: &str = "WOW6432Node";

/// More than anybody has installed.
const MAX_PROGRAMS: usize = 10_000;

/// A program that can be uninstalled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Program {
    /// The name that people read.
    pub name: String,
    /// What the registry calls it: the name of its key.
    pub id: String,
    /// The version, in whatever form the program has it.
    pub version: Option<String>,
    /// Who made it.
    pub publisher: Option<String>,
    /// Where it is, as `C:\Program Files\Git`.
    pub install_path: Option<String>,
    /// A page about it.
    pub url: Option<String>,
    /// What it says about itself.
    pub description: Option<String>,
    /// The architecture that it is for, as far as the registry tells 32 bits from 64.
    pub architecture: Option<String>,
}

/// By name; `None` where there is no such key.
pub(super) fn of(hives: &Hives<'_>, native: Option<&str>) -> Option<Vec<Program>> {
    let software = hives.software.as_ref()?;
    let mut programs = below(software, UNINSTALL, native)?;
    software.came_from("packages");
    let wow64 = below(software, &format!(r"{WOW64}\{UNINSTALL}"), Some("i386"));
    programs.extend(wow64.into_iter().flatten());
    programs.sort();
    Some(programs)
}

fn below(software: &OpenHive<'_>, path: &str, architecture: Option<&str>) -> Option<Vec<Program>> {
    let key = software.key(path)?;
    let keys = software.subkeys(&key, MAX_PROGRAMS);
    let program = |key: &Key<'_>| {
        // Installers write empty ones, too.
        let known = |name| software.text_of(key, name).filter(|it| !it.is_empty());
        Some(Program {
            name: software.text_of(key, "DisplayName")?,
            version: software.text_of(key, "DisplayVersion"),
            id: key.name(),
            publisher: software.text_of(key, "Publisher"),
            install_path: known("InstallLocation"),
            url: known("URLInfoAbout"),
            description: known("Comments"),
            architecture: architecture.map(str::to_owned),
        })
    };
    Some(keys.iter().filter_map(program).collect())
}
