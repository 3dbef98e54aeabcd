//! The installed programs: `Microsoft\Windows\CurrentVersion\Uninstall` (Microsoft, "Uninstall
//! Registry Key"), both 64-bit and 32-bit.

use diskfs_registry::Key;
use serde::Serialize;

use super::hives::{Hives, OpenHive};

const UNINSTALL: &str = r"Microsoft\Windows\CurrentVersion\Uninstall";

/// The key of the 32-bit programs of a 64-bit system.
const WOW64: &str = "WOW6432Node";

/// The limit on programs.
const MAX_PROGRAMS: usize = 10_000;

/// An installed program that can be uninstalled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Program {
    /// The name for people.
    pub name: String,
    /// The name of its key in the registry.
    pub id: String,
    /// The version, in the program's own format.
    pub version: Option<String>,
    /// The publisher of the program.
    pub publisher: Option<String>,
    /// The installation directory: `C:\Program Files\Git`.
    pub install_path: Option<String>,
    /// The URL of a page about it.
    pub url: Option<String>,
    /// The program's description of itself.
    pub description: Option<String>,
    /// The architecture that it is built for; the registry only distinguishes 32 from 64 bits.
    pub architecture: Option<String>,
}

/// Returns the programs sorted by name; `None` if the key is missing.
pub(super) fn of(hives: &Hives<'_>, native: Option<&str>) -> Option<Vec<Program>> {
    let software = hives.software.as_ref()?;
    let mut programs = below(software, UNINSTALL, native)?;
    software.add_source("packages");
    let wow64 = below(software, &format!(r"{WOW64}\{UNINSTALL}"), Some("i386"));
    programs.extend(wow64.into_iter().flatten());
    programs.sort();
    Some(programs)
}

fn below(software: &OpenHive<'_>, path: &str, architecture: Option<&str>) -> Option<Vec<Program>> {
    let key = software.key(path)?;
    let keys = software.subkeys(&key, MAX_PROGRAMS);
    let program = |key: &Key<'_>| {
        // Installers also write empty values.
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
