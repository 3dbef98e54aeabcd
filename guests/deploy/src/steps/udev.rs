//! The step `udev`: udev(7) rules.

use std::collections::BTreeMap;

use diskfs_vfs::glob::{Case, Pattern};
use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::text::{WRITTEN, of_lines};
use super::network::Mac;
use super::network::names::{PERSISTENT, RULES, rule};
use diskfs_disk::Result;

/// The suffix of rules files with interface names that udev has recorded, for this machine or an
/// earlier one.
const PERSISTENT_END: &str = "persistent-net.rules";

/// `IFNAMSIZ` of Linux without the NUL.
const INTERFACE_BYTES: usize = 15;

/// Rules in `/etc/udev/rules.d`. Files are removed first, then written; names of interfaces come
/// last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Udev {
    /// The rules files to remove, as glob(7) patterns of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// The rules files to write: their names, which end with `.rules`, and their contents.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub write: BTreeMap<String, String>,
    /// The names of network interfaces, by hardware address (8 or 20 bytes for InfiniBand). All
    /// other recorded names are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<BTreeMap<Mac, String>>,
}

impl Udev {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        for pattern in &self.remove {
            self.remove(guest, pattern)?;
        }
        for (name, text) in &self.write {
            write_rules(guest, name, text)?;
        }
        match &self.names {
            Some(names) => set_names(guest, names),
            None => Ok(()),
        }
    }

    /// Returns true if the step writes the file. Such a file is not removed first, so that writing
    /// the same contents is no change.
    fn writes(&self, name: &str) -> bool {
        let has_names = self.names.as_ref().is_some_and(|names| !names.is_empty());
        self.write.contains_key(name) || has_names && PERSISTENT.rsplit('/').next() == Some(name)
    }

    fn remove(&self, guest: &mut Guest, pattern: &str) -> Result<()> {
        let wrong = |guest: &Guest, reason: String| guest.invalid(format!("`{pattern}`: {reason}"));
        if pattern.contains('/') {
            return Err(wrong(
                guest,
                format!("expected a file name in {RULES}, without a slash"),
            ));
        }
        let matcher = Pattern::new(pattern, Case::Sensitive);
        let matcher = matcher.map_err(|error| wrong(guest, error.to_string()))?;
        if !guest.stage.is_dir(RULES)? {
            return Ok(());
        }
        for name in guest.stage.names(RULES)? {
            if matcher.matches(&name) && !self.writes(&name) {
                guest.stage.remove(&format!("{RULES}/{name}"))?;
            }
        }
        Ok(())
    }
}

/// Writes a rules file.
pub(super) fn write_rules(guest: &mut Guest, name: &str, text: &str) -> Result<()> {
    let is_file = name
        .strip_suffix(".rules")
        .is_some_and(|stem| !stem.is_empty());
    if !is_file || name.starts_with('.') || name.contains(['/', '\0', '\n']) {
        let reason = format!(
            "invalid file name `{}`: udev reads only files named *.rules, such as 90-app.rules",
            name.escape_debug()
        );
        return Err(guest.invalid(reason));
    }
    guest
        .stage
        .write_with(&format!("{RULES}/{name}"), text, 0o644)
}

fn set_names(guest: &mut Guest, names: &BTreeMap<Mac, String>) -> Result<()> {
    for name in names.values() {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name =
            !name.is_empty() && name.len() <= INTERFACE_BYTES && name.bytes().all(is_good);
        if !is_name || matches!(&**name, "." | "..") {
            let reason = format!(
                "invalid interface name `{}`: expected letters, digits and `-_.`, at most \
                 {INTERFACE_BYTES} characters",
                name.escape_debug()
            );
            return Err(guest.invalid(reason));
        }
        if names.values().filter(|other| *other == name).count() > 1 {
            return Err(guest.invalid(format!("duplicate interface name `{name}`")));
        }
    }
    let own = PERSISTENT.rsplit('/').next();
    if guest.stage.is_dir(RULES)? {
        for name in guest.stage.names(RULES)? {
            let is_own = Some(&*name) == own && !names.is_empty();
            if name.ends_with(PERSISTENT_END) && !is_own {
                guest.stage.remove(&format!("{RULES}/{name}"))?;
            }
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    let rules = names.iter().map(|(mac, name)| rule(name, mac));
    let text = of_lines(std::iter::once(WRITTEN.to_owned()).chain(rules));
    guest.stage.write_with(PERSISTENT, &text, 0o644)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::testing::{after, apply, guest, text};

    const GUEST: &str = "-- /etc/udev/rules.d/70-persistent-net.rules --\nold\n-- /etc/udev/rules.d/z25_persistent-net.rules --\nold\n\
        -- /etc/udev/rules.d/10-a.rules --\na\n-- /etc/udev/rules.d/20-b.rules --\nb\n";
    const STEP: &str = "- udev:\n    remove: [\"1*.rules\"]\n    write: {99-x.rules: \"KERNEL==\\\"x\\\", MODE=\\\"0600\\\"\\n\"}\n    \
        names: {\"52:54:00:00:00:01\": eth0, \"80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0e:7b:01\": ib0}";

    #[test]
    fn rules_come_and_go() {
        let guest = after(GUEST, STEP);
        let names = guest.stage.names("/etc/udev/rules.d").unwrap();
        assert_eq!(
            names,
            ["20-b.rules", "70-persistent-net.rules", "99-x.rules"]
        );
        let expected = "# Written by diskfs deploy.\n\
            SUBSYSTEM==\"net\", ACTION==\"add\", DRIVERS==\"?*\", ATTR{address}==\"52:54:00:00:00:01\", ATTR{type}==\"1\", NAME=\"eth0\"\n\
            SUBSYSTEM==\"net\", ACTION==\"add\", DRIVERS==\"?*\", ATTR{address}==\"?*00:02:c9:03:00:0e:7b:01\", ATTR{type}==\"32\", NAME=\"ib0\"\n";
        assert_eq!(
            text(&guest, "/etc/udev/rules.d/70-persistent-net.rules"),
            expected
        );
        assert_eq!(
            text(&guest, "/etc/udev/rules.d/99-x.rules"),
            "KERNEL==\"x\", MODE=\"0600\"\n"
        );
    }

    /// `after` checks that applying the step a second time changes nothing.
    #[test]
    fn what_is_removed_and_written_is_written() {
        let step = "- udev: {remove: [\"*.rules\"], write: {99-x.rules: \"x\\n\"}, names: {\"52:54:00:00:00:01\": lan0}}";
        let guest = after(GUEST, step);
        let names = guest.stage.names("/etc/udev/rules.d").unwrap();
        assert_eq!(names, ["70-persistent-net.rules", "99-x.rules"]);
    }

    #[test]
    fn no_names_are_no_names() {
        let guest = after(GUEST, "- udev: {names: {}}");
        let names = guest.stage.names("/etc/udev/rules.d").unwrap();
        assert_eq!(names, ["10-a.rules", "20-b.rules"]);
    }

    #[test]
    fn what_udev_does_not_read_is_refused() {
        for step in [
            "- udev: {write: {a: x}}",
            "- udev: {write: {../a.rules: x}}",
            "- udev: {remove: [../passwd]}",
            "- udev: {names: {\"52:54:00:00:00:01\": \"a b\"}}",
            "- udev: {names: {\"52:54:00:00:00:01\": eth0, \"52:54:00:00:00:02\": eth0}}",
            "- udev: {names: {\"52:54\": eth0}}",
        ] {
            assert!(apply(&mut guest(GUEST), step).is_err(), "{step}");
        }
    }

    #[test]
    fn udevadm_takes_them() {
        // `udevadm verify` exists since systemd 254.
        let help = Command::new("udevadm").args(["verify", "--help"]).output();
        if !help.is_ok_and(|output| output.status.success()) {
            return;
        }
        let guest = after(GUEST, STEP);
        let dir = tempfile::tempdir().unwrap();
        for name in ["70-persistent-net.rules", "99-x.rules"] {
            let rules = text(&guest, &format!("/etc/udev/rules.d/{name}"));
            std::fs::write(dir.path().join(name), rules).unwrap();
        }
        let mut udevadm = Command::new("udevadm");
        let status = udevadm
            .args(["verify", "--no-style"])
            .arg(dir.path())
            .status()
            .unwrap();
        assert!(status.success());
    }
}
