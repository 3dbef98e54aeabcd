//! The operating systems that the host-deployer knows, by the files that each has.
//!
//! Callers store the names and versions, so they are those of the host-deployer, in its order: the
//! first row whose files all exist counts. A system that is in no row gets its names from
//! os-release(5).

mod table;
mod version;

use diskfs_disk::guest::{self, OsRelease, architecture, in_any_case};
use diskfs_disk::{Filesystem, Result};
use diskfs_inspect::{Depth, Report};

use super::guest::{System, SystemKind};
use table::{Distribution, LINUX, OTHERS, Row};

/// The longest release file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// The files that every Linux of the host-deployer has.
const LINUX_BASE: [&str; 5] = ["/bin", "/etc", "/boot", "/lib", "/usr"];

/// Identifies the system on a filesystem.
///
/// # Errors
/// The errors of reading the filesystem.
pub(super) fn identify(fs: &Filesystem) -> Result<System> {
    if guest::windows_root(fs).is_some() {
        return Ok(windows(fs));
    }
    if all_exist(fs, &LINUX_BASE)? {
        for row in LINUX {
            if row.matches(fs)? {
                return Ok(row.system(fs));
            }
        }
    }
    for row in OTHERS {
        if row.matches(fs)? {
            return Ok(row.system(fs));
        }
    }
    Ok(by_os_release(fs))
}

fn windows(fs: &Filesystem) -> System {
    let report = Report::of(fs, Depth::Files);
    System {
        kind: SystemKind::Windows,
        distro: report.release.product.unwrap_or_default(),
        version: report.release.version.unwrap_or_default(),
        arch: windows_architecture(fs).to_owned(),
        language: report.locale.unwrap_or_default(),
        current_version: report.release.code_name.unwrap_or_default(),
        permits_root_login: true,
    }
}

fn windows_architecture(fs: &Filesystem) -> &'static str {
    let has = |path| in_any_case(fs, path).is_some();
    match () {
        () if has("/Program Files (x86)") => "x86_64",
        () if has("/Program Files (arm)") => "aarch64",
        () => "x86_32",
    }
}

fn by_os_release(fs: &Filesystem) -> System {
    let release = OsRelease::read(fs);
    System {
        kind: SystemKind::Linux,
        distro: release.id,
        version: release.version_id,
        arch: linux_architecture(fs).to_owned(),
        language: String::new(),
        current_version: String::new(),
        permits_root_login: true,
    }
}

/// Returns the host-deployer's name of the architecture. Its default is `x86_64`.
fn linux_architecture(fs: &Filesystem) -> &'static str {
    match architecture::of(fs) {
        Some((_, "i386" | "i486" | "i586" | "i686" | "x86")) => "x86_32",
        Some((_, "arm" | "armv7l")) => "aarch32",
        Some((_, name)) => name,
        None => "x86_64",
    }
}

impl Row {
    fn matches(&self, fs: &Filesystem) -> Result<bool> {
        Ok(all_exist(fs, self.has)? && !any_exists(fs, self.lacks)?)
    }

    fn system(&self, fs: &Filesystem) -> System {
        let read = |path: &str| {
            let text = fs.read_at_most(path, MAX_BYTES).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        };
        let distro = match self.distribution {
            Distribution::Named(name) => name.to_owned(),
            Distribution::OfLsbRelease => version::variable(&read(table::LSB), "DISTRIB_ID"),
        };
        System {
            kind: self.kind,
            distro,
            version: version::of(self.version, &read),
            arch: linux_architecture(fs).to_owned(),
            language: String::new(),
            current_version: String::new(),
            permits_root_login: self.permits_root_login,
        }
    }
}

fn all_exist(fs: &Filesystem, paths: &[&str]) -> Result<bool> {
    for path in paths {
        if !fs.exists(path)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn any_exists(fs: &Filesystem, paths: &[&str]) -> Result<bool> {
    for path in paths {
        if fs.exists(path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
