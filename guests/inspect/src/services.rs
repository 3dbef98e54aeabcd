//! The services that the guest starts at boot: systemd units (systemctl(1), systemd.unit(5)),
//! `OpenRC` services, and System V init scripts.

use std::collections::BTreeMap;

use serde::Serialize;

use super::files::Files;

/// The directory of the administrator's units, and of the symlinks of enabled units.
const UNITS: &str = "/etc/systemd/system";

/// A service that is enabled or masked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Service {
    /// The name of the unit (`ssh.service`) or of the service.
    pub name: String,
    /// The state of the service.
    pub state: ServiceState,
    /// The init system that starts it: `systemd`, `openrc`, `sysv`.
    pub init: &'static str,
    /// The symlink or file that enables or masks it.
    pub file: String,
}

/// The state of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "State"))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServiceState {
    /// The service is enabled: it starts with its target, usually at boot.
    Enabled,
    /// The service is masked: it can't be started.
    Masked,
}

/// Returns all services that are enabled or masked, sorted by name. Services that are started only
/// as dependencies are not included.
pub(super) fn of(files: &Files<'_>) -> Vec<Service> {
    let found = [systemd(files), openrc(files), sysv(files)];
    let mut all: Vec<Service> = found.into_iter().flatten().collect();
    all.sort();
    all
}

fn systemd(files: &Files<'_>) -> Vec<Service> {
    let mut found = BTreeMap::new();
    let mut add = |name: &str, state, file: String| {
        found.entry(name.to_owned()).or_insert(Service {
            name: name.to_owned(),
            state,
            init: "systemd",
            file,
        });
    };
    for name in files.names(UNITS) {
        let path = format!("{UNITS}/{name}");
        let kind = name.rsplit_once('.').map(|(_, kind)| kind);
        if let Some("wants" | "requires" | "upholds") = kind {
            for unit in files.names(&path).iter().filter(|unit| is_unit(unit)) {
                add(unit, ServiceState::Enabled, format!("{path}/{unit}"));
            }
        } else if let Some(target) = files.link(&path).filter(|_| is_unit(&name)) {
            match target.as_str() {
                "/dev/null" => add(&name, ServiceState::Masked, path),
                // An alias: its target is enabled under another name.
                target => {
                    let unit = target.rsplit('/').next().unwrap_or(target);
                    add(unit, ServiceState::Enabled, path);
                }
            }
        }
    }
    if !found.is_empty() {
        files.add_source("services", UNITS, None);
    }
    found.into_values().collect()
}

/// Returns true if a name is that of a systemd unit, by its suffix (systemd.unit(5)).
pub fn is_unit(name: &str) -> bool {
    let kinds = [
        "service",
        "socket",
        "device",
        "mount",
        "automount",
        "swap",
        "target",
        "path",
        "timer",
        "slice",
        "scope",
    ];
    let kind = name.rsplit_once('.').map(|(_, kind)| kind);
    kind.is_some_and(|kind| kinds.contains(&kind))
}

/// Reads the directories of the run levels, which have symlinks to scripts.
fn openrc(files: &Files<'_>) -> Vec<Service> {
    const DIR: &str = "/etc/runlevels";
    let mut found = BTreeMap::new();
    for level in files.names(DIR) {
        let dir = format!("{DIR}/{level}");
        for name in files.names(&dir) {
            let file = format!("{dir}/{name}");
            found.entry(name).or_insert(file);
        }
    }
    if !found.is_empty() {
        files.add_source("services", DIR, None);
    }
    enabled(found, "openrc")
}

/// Reads the symlinks `S20name` in the directories of the run levels. Returns nothing on a system
/// with systemd: it generates units for such scripts, and Debian's packages have both, so the
/// symlinks add no facts.
fn sysv(files: &Files<'_>) -> Vec<Service> {
    let is_systemd =
        files.exists("/lib/systemd/systemd") || files.exists("/usr/lib/systemd/systemd");
    let mut found = BTreeMap::new();
    let levels = ["2", "3", "5", "S"].iter().filter(|_| !is_systemd);
    for level in levels {
        for dir in [
            format!("/etc/rc{level}.d"),
            format!("/etc/rc.d/rc{level}.d"),
        ] {
            for link in files.names(&dir) {
                let rest = link.strip_prefix('S');
                let name = rest.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
                if let Some(name) = name.filter(|name| !name.is_empty()) {
                    let file = format!("{dir}/{link}");
                    found.entry(name.to_owned()).or_insert(file);
                }
            }
        }
    }
    if let Some((_, file)) = found.first_key_value() {
        files.add_source("services", file, None);
    }
    enabled(found, "sysv")
}

fn enabled(found: BTreeMap<String, String>, init: &'static str) -> Vec<Service> {
    let service = |(name, file)| Service {
        name,
        state: ServiceState::Enabled,
        init,
        file,
    };
    found.into_iter().map(service).collect()
}

#[cfg(test)]
mod tests {
    use diskfs_vfs::testing::MemoryFs;

    use super::super::testing::of as filesystem;
    use super::*;

    fn names(tree: MemoryFs) -> Vec<(String, ServiceState, &'static str)> {
        let tree = filesystem(tree);
        let found = of(&Files::new(&tree)).into_iter();
        found.map(|it| (it.name, it.state, it.init)).collect()
    }

    #[test]
    fn links_enable_and_mask() {
        let mut tree = MemoryFs::new();
        for dir in [
            "/etc/systemd/system/multi-user.target.wants",
            "/usr/lib/systemd",
            "/etc/rc2.d",
        ] {
            tree.dir(dir);
        }
        tree.file("/usr/lib/systemd/systemd", b"");
        tree.symlink("/etc/rc2.d/S01cron", "../init.d/cron");
        for (link, target) in [
            (
                "multi-user.target.wants/cron.service",
                "/lib/systemd/system/cron.service",
            ),
            ("sshd.service", "/lib/systemd/system/ssh.service"),
            ("apt-daily.timer", "/dev/null"),
            ("README", "/x"),
        ] {
            tree.symlink(&format!("{UNITS}/{link}"), target);
        }
        tree.file(&format!("{UNITS}/own.service"), b"[Unit]\n");
        let expected = [
            (
                "apt-daily.timer".to_owned(),
                ServiceState::Masked,
                "systemd",
            ),
            ("cron.service".to_owned(), ServiceState::Enabled, "systemd"),
            ("ssh.service".to_owned(), ServiceState::Enabled, "systemd"),
        ];
        assert_eq!(names(tree), expected);
    }

    #[test]
    fn without_systemd() {
        let mut tree = MemoryFs::new();
        for dir in ["/etc/runlevels/default", "/etc/rc3.d"] {
            tree.dir(dir);
        }
        tree.symlink("/etc/runlevels/default/sshd", "/etc/init.d/sshd");
        tree.symlink("/etc/rc3.d/S12syslog", "../init.d/syslog");
        tree.symlink("/etc/rc3.d/K12nfs", "../init.d/nfs");
        let expected = [
            ("sshd".to_owned(), ServiceState::Enabled, "openrc"),
            ("syslog".to_owned(), ServiceState::Enabled, "sysv"),
        ];
        assert_eq!(names(tree), expected);
    }
}
