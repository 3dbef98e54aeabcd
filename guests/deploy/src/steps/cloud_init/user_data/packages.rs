//! The key `packages`: commands that install packages at the first boot.

use serde_json::{Map, Value};

use super::super::super::super::guest::Guest;
use super::super::super::repository::Manager;
use super::{note_ignored, quoted, value};
use diskfs_disk::Result;

/// The commands of a package manager.
struct Commands {
    update: &'static str,
    upgrade: &'static str,
    install: &'static str,
}

/// Returns the lines of the script that installs packages.
pub(super) fn lines(guest: &mut Guest, config: &mut Map<String, Value>) -> Result<Vec<String>> {
    let mut is_on = |keys: [&str; 2]| {
        let flags = keys.map(|key| value::take_flag(config, key));
        flags.contains(&Some(true))
    };
    let update = is_on(["package_update", "apt_update"]);
    let upgrade = is_on(["package_upgrade", "apt_upgrade"]);
    let packages = value::take_list(config, "packages");
    let names = names(guest, packages);
    if !update && !upgrade && names.is_empty() {
        return Ok(Vec::new());
    }
    let Some(commands) = commands(guest)? else {
        note_ignored(
            guest,
            "the installation of packages, for which the guest has no known package manager,",
        );
        return Ok(Vec::new());
    };
    // cloud-init always updates before it installs.
    let mut lines = vec![commands.update.to_owned()];
    if upgrade {
        lines.push(commands.upgrade.to_owned());
    }
    if !names.is_empty() {
        lines.push(format!("{} {}", commands.install, names.join(" ")));
    }
    Ok(lines)
}

/// Returns the names of packages, quoted for the shell.
fn names(guest: &mut Guest, packages: Vec<Value>) -> Vec<String> {
    let mut names = Vec::new();
    for package in packages {
        match &package {
            Value::String(name) if !name.is_empty() => names.push(quoted(name)),
            // A list of name and version. Each package manager has its own syntax for the version.
            Value::Array(words) => {
                let name = words.first().and_then(value::text).unwrap_or_default();
                note_ignored(guest, &format!("the version of the package {name}"));
                names.push(quoted(&name));
            }
            _ => note_ignored(guest, "a package for another package manager"),
        }
    }
    names
}

fn commands(guest: &Guest) -> Result<Option<Commands>> {
    let Some(manager) = Manager::of(guest)? else {
        return Ok(None);
    };
    let commands = |update, upgrade, install| Commands {
        update,
        upgrade,
        install,
    };
    let has_dnf = guest.stage.exists("/usr/bin/dnf")?;
    Ok(Some(match manager {
        Manager::Apt => commands(
            "apt-get update",
            "DEBIAN_FRONTEND=noninteractive apt-get -y upgrade",
            "DEBIAN_FRONTEND=noninteractive apt-get -y install",
        ),
        Manager::Zypper => commands(
            "zypper --non-interactive refresh",
            "zypper --non-interactive update",
            "zypper --non-interactive install",
        ),
        Manager::Dnf if has_dnf => commands("dnf -y makecache", "dnf -y upgrade", "dnf -y install"),
        Manager::Dnf => commands("yum -y makecache", "yum -y upgrade", "yum -y install"),
        Manager::Apk => commands("apk update", "apk upgrade", "apk add"),
        Manager::Pacman => commands(
            "pacman -Sy --noconfirm",
            "pacman -Su --noconfirm",
            "pacman -S --noconfirm --needed",
        ),
    }))
}
