//! The step `units`: enables and disables systemd units and `OpenRC` services, as their own tools
//! do.

mod install;
mod preset;

use serde::{Deserialize, Serialize};

use super::super::guest::{Guest, UNITS};
use super::super::stage::EntryKind;
use diskfs_disk::Result;
use install::Install;

/// The directory of `OpenRC` services, and those of the enabled ones.
const INIT_D: &str = "/etc/init.d";
const RUNLEVELS: &str = "/etc/runlevels";
const RUNLEVEL: &str = "/etc/runlevels/default";

/// The file that is missing until the first boot.
const MACHINE_ID: &str = "/etc/machine-id";

/// The target of the symlink of a masked unit.
const NOTHING: &str = "/dev/null";

/// Names of systemd units or `OpenRC` services. A name without a suffix is a service. The keys are
/// applied in the order `write`, `unmask`, `enable`, `disable`, `mask`, `preset`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// The unit files to write into `/etc/systemd/system`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<UnitFile>,
    /// The units to unmask, as with `systemctl unmask`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmask: Vec<String>,
    /// The units to enable, as with `systemctl enable` or `rc-update add`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub enable: Vec<String>,
    /// The units to disable, as with `systemctl disable` or `rc-update del`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disable: Vec<String>,
    /// The units to mask, as with `systemctl mask`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mask: Vec<String>,
    /// The units to enable or disable according to the distribution's presets, as with
    /// `systemctl preset`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preset: Vec<String>,
}

/// A unit file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UnitFile {
    /// The name with its suffix: `app.service`.
    pub name: String,
    /// The contents of the unit file.
    pub text: String,
}

impl Units {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        if !guest.has_systemd()? {
            return self.apply_to_openrc(guest);
        }
        for unit in &self.write {
            let name = full_name(guest, &unit.name)?;
            guest
                .stage
                .write_with(&format!("{UNITS}/{name}"), &unit.text, 0o644)?;
        }
        each(guest, &self.unmask, unmask)?;
        each(guest, &self.enable, enable)?;
        each(guest, &self.disable, disable)?;
        each(guest, &self.mask, mask)?;
        each(guest, &self.preset, |guest, name| {
            if preset::is_on(guest, name)? {
                enable(guest, name)
            } else {
                disable(guest, name)
            }
        })
    }

    fn apply_to_openrc(&self, guest: &mut Guest) -> Result<()> {
        let others = [&self.unmask, &self.mask, &self.preset];
        if !self.write.is_empty() || others.iter().any(|names| !names.is_empty()) {
            return Err(guest.invalid(
                "systemd is not installed in the guest: only services can be enabled and disabled",
            ));
        }
        if !guest.stage.is_dir(RUNLEVELS)? {
            let reason = "unsupported init system: the guest has neither systemd nor OpenRC";
            return Err(guest.invalid(reason));
        }
        each_as_is(guest, &self.enable, |guest, name| {
            let script = format!("{INIT_D}/{name}");
            if !guest.stage.exists(&script)? {
                return Err(guest.invalid(format!("no such service: `{name}`")));
            }
            guest.stage.make_dirs(RUNLEVEL, 0o755)?;
            guest.stage.symlink(&format!("{RUNLEVEL}/{name}"), &script)
        })?;
        each_as_is(guest, &self.disable, |guest, name| {
            for level in guest.stage.names(RUNLEVELS)? {
                guest.stage.remove(&format!("{RUNLEVELS}/{level}/{name}"))?;
            }
            Ok(())
        })
    }
}

fn each(
    guest: &mut Guest,
    names: &[String],
    work: impl Fn(&mut Guest, &str) -> Result<()>,
) -> Result<()> {
    for name in names {
        let name = full_name(guest, name)?;
        work(guest, &name)?;
    }
    Ok(())
}

fn each_as_is(
    guest: &mut Guest,
    names: &[String],
    work: impl Fn(&mut Guest, &str) -> Result<()>,
) -> Result<()> {
    for name in names {
        check_name(guest, name)?;
        let name = name.strip_suffix(".service").unwrap_or(name);
        work(guest, name)?;
    }
    Ok(())
}

/// Adds the suffix `.service` to a name without a suffix.
fn full_name(guest: &Guest, name: &str) -> Result<String> {
    check_name(guest, name)?;
    let is_whole = name.rsplit_once('.').is_some_and(|(_, kind)| {
        let known = [
            "service",
            "socket",
            "timer",
            "target",
            "mount",
            "automount",
            "path",
            "slice",
            "swap",
            "device",
            "scope",
        ];
        known.contains(&kind)
    });
    Ok(if is_whole {
        name.to_owned()
    } else {
        format!("{name}.service")
    })
}

fn check_name(guest: &Guest, name: &str) -> Result<()> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_good) {
        return Err(guest.invalid(format!("invalid unit name `{name}`")));
    }
    Ok(())
}

/// Returns true if a preset enables the unit at the first boot, which machine-id(5) defines.
pub(super) fn is_on_by_preset(guest: &Guest, name: &str) -> Result<bool> {
    let id = guest.stage.text(MACHINE_ID)?;
    let is_first = id.is_none_or(|id| id.trim() == "uninitialized");
    if !is_first || !guest.has_systemd()? {
        return Ok(false);
    }
    let Some(path) = install::file_of(guest, name)? else {
        return Ok(false);
    };
    let is_wanted = !is_masked(guest, &path)? && !Install::read(guest, name, &path)?.is_empty();
    Ok(is_wanted && preset::is_on(guest, name)?)
}

/// Creates the symlinks that the unit's `[Install]` section requests.
pub(super) fn enable(guest: &mut Guest, name: &str) -> Result<()> {
    enable_with(guest, name, &mut Vec::new())
}

fn enable_with(guest: &mut Guest, name: &str, done: &mut Vec<String>) -> Result<()> {
    if done.iter().any(|known| known == name) {
        return Ok(());
    }
    done.push(name.to_owned());
    let Some(path) = install::file_of(guest, name)? else {
        return Err(guest.invalid(format!("no such unit: `{name}`")));
    };
    if is_masked(guest, &path)? {
        return Err(guest.invalid(format!(
            "cannot enable `{name}`: it is masked; unmask it first"
        )));
    }
    let install = Install::read(guest, name, &path)?;
    if install.is_empty() {
        guest.note(format!(
            "`{name}` has no [Install] section and cannot be enabled: other units start it"
        ));
    }
    for (link, target) in install.links(name, &path) {
        guest
            .stage
            .make_dirs(super::super::stage::above(&link), 0o755)?;
        let there = guest.stage.link_entry(&link)?.map(|entry| entry.kind);
        if matches!(there, Some(EntryKind::File(_))) {
            let reason = format!("cannot enable `{name}`: {link} is a file, not a symlink");
            return Err(guest.invalid(reason));
        }
        guest.stage.symlink(&link, &target)?;
    }
    for other in &install.also {
        enable_with(guest, other, done)?;
    }
    Ok(())
}

/// Removes the symlinks that point to the unit.
pub(super) fn disable(guest: &mut Guest, name: &str) -> Result<()> {
    let mut dirs = vec![UNITS.to_owned()];
    for dir in guest.stage.names(UNITS)? {
        let kind = dir.rsplit_once('.').map(|(_, kind)| kind);
        if matches!(kind, Some("wants" | "requires" | "upholds")) {
            dirs.push(format!("{UNITS}/{dir}"));
        }
    }
    let file = install::file_name(name);
    for dir in dirs {
        for entry in guest.stage.names(&dir)? {
            let path = format!("{dir}/{entry}");
            let target = match guest.stage.link_entry(&path)?.map(|entry| entry.kind) {
                Some(EntryKind::Symlink(target)) if target != NOTHING => target,
                _ => continue,
            };
            let to = target.rsplit('/').next().unwrap_or_default();
            // An alias of an instance, or another instance of the template, is a different unit.
            let is_it = entry == name || (to == name && file == name);
            if is_it {
                guest.stage.remove(&path)?;
            }
        }
    }
    Ok(())
}

fn mask(guest: &mut Guest, name: &str) -> Result<()> {
    let path = format!("{UNITS}/{name}");
    let entry = guest.stage.link_entry(&path)?;
    if entry.is_some_and(|entry| matches!(entry.kind, EntryKind::File(_))) {
        let reason = format!("cannot mask `{name}`: it is a file in {UNITS}");
        return Err(guest.invalid(reason));
    }
    guest.stage.make_dirs(UNITS, 0o755)?;
    guest.stage.symlink(&path, NOTHING)
}

fn unmask(guest: &mut Guest, name: &str) -> Result<()> {
    let path = format!("{UNITS}/{name}");
    if is_masked(guest, &path)? {
        guest.stage.remove(&path)?;
    }
    Ok(())
}

fn is_masked(guest: &Guest, path: &str) -> Result<bool> {
    let entry = guest.stage.link_entry(path)?;
    Ok(entry.is_some_and(|entry| entry.kind == EntryKind::Symlink(NOTHING.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, guest};
    use crate::EntryKind;

    const GUEST: &str = "-- /lib/systemd/systemd --\nELF\n\
        -- /lib/systemd/system/ssh.service --\n[Unit]\nDescription=x\n[Install]\nWantedBy=multi-user.target\nAlias=sshd.service\nAlso=ssh.socket\n\
        -- /lib/systemd/system/ssh.socket --\n[Install]\nRequiredBy=sockets.target\n\
        -- /lib/systemd/system/getty@.service --\n[Install]\nWantedBy=getty.target\nDefaultInstance=tty1\n\
        -- /lib/systemd/system/static.service --\n[Service]\nExecStart=/bin/true\n\
        -- /lib/systemd/system-preset/90-default.preset --\nenable ssh.*\ndisable *\n\
        -- /etc/systemd/system/masked.service -> /dev/null --\n\
        -- /etc/systemd/system/multi-user.target.wants/static.service -> /lib/systemd/system/static.service --\n";

    fn link(guest: &crate::guest::Guest, path: &str) -> String {
        let path = format!("/etc/systemd/system/{path}");
        match guest.stage.link_entry(&path).unwrap().map(|it| it.kind) {
            Some(EntryKind::Symlink(target)) => target,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn no_unit_is_lost_to_a_symlink() {
        // If both directories are the same, the symlink would replace the unit itself.
        let one = GUEST.to_owned()
            + "-- /etc/systemd/system/sockets.target.requires -> /lib/systemd/system --\n";
        let mut one = guest(&one);
        let error = apply(&mut one, "- units: {enable: [ssh.socket]}").unwrap_err();
        assert!(
            error.to_string().contains("is a file, not a symlink"),
            "{error}"
        );
        assert!(
            apply(
                &mut one,
                "- link: {path: /lib/systemd/system/ssh.socket, target: ssh.socket}"
            )
            .is_err()
        );
        let alias = GUEST.to_owned() + "-- /etc/systemd/system/sshd.service --\nmine\n";
        assert!(apply(&mut guest(&alias), "- units: {enable: [ssh]}").is_err());
    }

    #[test]
    fn units_are_enabled_as_they_ask_for() {
        let steps = "- units: {enable: [ssh, getty@ttyS0.service, getty@.service], disable: [static], mask: [other.timer], unmask: [masked]}";
        let guest = after(GUEST, steps);
        let ssh = "/lib/systemd/system/ssh.service";
        assert_eq!(link(&guest, "multi-user.target.wants/ssh.service"), ssh);
        assert_eq!(link(&guest, "sshd.service"), ssh);
        let socket = "/lib/systemd/system/ssh.socket";
        assert_eq!(link(&guest, "sockets.target.requires/ssh.socket"), socket);
        let getty = "/lib/systemd/system/getty@.service";
        assert_eq!(
            link(&guest, "getty.target.wants/getty@ttyS0.service"),
            getty
        );
        assert_eq!(link(&guest, "getty.target.wants/getty@tty1.service"), getty);
        assert_eq!(
            link(&guest, "multi-user.target.wants/static.service"),
            "None"
        );
        assert_eq!(link(&guest, "other.timer"), "/dev/null");
        assert_eq!(link(&guest, "masked.service"), "None");
    }

    #[test]
    fn presets_say_which() {
        let guest = after(GUEST, "- units: {preset: [ssh, static]}");
        assert_ne!(link(&guest, "multi-user.target.wants/ssh.service"), "None");
        assert_eq!(
            link(&guest, "multi-user.target.wants/static.service"),
            "None"
        );
    }

    #[test]
    fn what_is_not_there_can_not_be_enabled() {
        for step in [
            "- units: {enable: [none]}",
            "- units: {enable: [masked]}",
            "- units: {enable: [\"../x\"]}",
            "- units: {write: [{name: \"a/b\", text: x}]}",
        ] {
            assert!(apply(&mut guest(GUEST), step).is_err(), "{step}");
        }
    }

    #[test]
    fn an_alpine() {
        let tree = "-- /etc/init.d/sshd --\n#!/sbin/openrc-run\n-- /etc/runlevels/default/crond -> /etc/init.d/crond --\n";
        let guest = after(tree, "- units: {enable: [sshd], disable: [crond]}");
        assert_eq!(
            guest.stage.names("/etc/runlevels/default").unwrap(),
            ["sshd"]
        );
    }
}
