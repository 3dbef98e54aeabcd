//! The step `firstboot`: scripts that run once, at the next boot.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::guest::Guest;
use super::super::text::{WRITTEN, of_lines, with_line};
use super::units;
use diskfs_disk::{Error, Result};

/// The directory of scripts that have not run yet.
const WAITING: &str = "/usr/local/lib/diskfs/firstboot.d";

/// The script that runs them, in the order of their names.
const RUNNER: &str = "/usr/local/lib/diskfs/firstboot";
const RUNNER_TEXT: &str = "#!/bin/sh
# Written by diskfs deploy: runs each script once, in the order of their names.
dir=/usr/local/lib/diskfs
log=/var/log/diskfs-firstboot.log
mkdir -p \"$dir/firstboot.done\" /var/log
# What can't be logged is run all the same.
: 2>/dev/null >>$log || log=/dev/null
for script in \"$dir\"/firstboot.d/*; do
    [ -f \"$script\" ] || continue
    name=${script##*/}
    # Away first: what brings the machine down is not run again.
    mv \"$script\" \"$dir/firstboot.done/$name\" || continue
    echo \"=== $name ===\"
    \"$dir/firstboot.done/$name\"
    echo \"=== $name: $? ===\"
done >>$log 2>&1
";

const UNIT: &str = "diskfs-firstboot.service";
const UNIT_TEXT: &str = "# Written by diskfs deploy.
[Unit]
Description=Scripts of the first start
After=network-online.target
Wants=network-online.target
ConditionDirectoryNotEmpty=/usr/local/lib/diskfs/firstboot.d

[Service]
Type=oneshot
ExecStart=/usr/local/lib/diskfs/firstboot
RemainAfterExit=yes
TimeoutSec=0

[Install]
WantedBy=multi-user.target
";

/// The directory of scripts that `OpenRC` runs last in the boot, the name of our script there, and
/// the symlink that enables the service which runs them, with its target.
pub(super) const LOCAL_D: &str = "/etc/local.d";
const LOCAL_START: &str = "diskfs-firstboot.start";
const LOCAL_SERVICE: [&str; 2] = ["/etc/runlevels/default/local", "/etc/init.d/local"];

/// The directory of scripts that `OpenWrt` runs once and then deletes.
const UCI_DEFAULTS: &str = "/etc/uci-defaults";

/// The script that System V init runs last.
const RC_LOCAL: [&str; 2] = ["/etc/rc.d/rc.local", "/etc/rc.local"];

/// A script with root's rights. Several scripts run in the order of their names; scripts without
/// names, in the order of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Firstboot {
    /// The name of the script; default: a name from its position and its contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The script: a text with a `#!` line, or commands of sh(1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// A local file with the script, instead of `script`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

impl Firstboot {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let script = self.text(guest)?;
        let name = self.name(guest, &script)?;
        if guest.stage.is_dir(UCI_DEFAULTS)? {
            return guest.stage.write_with(
                &format!("{UCI_DEFAULTS}/99-diskfs-{name}"),
                &script,
                0o755,
            );
        }
        guest
            .stage
            .write_with(&format!("{WAITING}/{name}"), &script, 0o755)?;
        guest.stage.write_with(RUNNER, RUNNER_TEXT, 0o755)?;
        start_runner(guest)
    }

    fn text(&self, guest: &Guest) -> Result<String> {
        let text = match (&self.script, &self.file) {
            (Some(script), None) => script.clone(),
            (None, Some(file)) => {
                std::fs::read_to_string(file).map_err(|e| Error::from(e).in_file(file))?
            }
            _ => return Err(guest.invalid("expected exactly one of script and file")),
        };
        Ok(if text.starts_with("#!") {
            text
        } else {
            with_line(String::from("#!/bin/sh\n"), text.trim_end_matches('\n'))
        })
    }

    fn name(&self, guest: &Guest, script: &str) -> Result<String> {
        let Some(name) = &self.name else {
            // The number keeps the order in which scripts were added. The hash lets a repeated plan
            // find them.
            let digest = Sha256::digest(script);
            let short = hexadecimal(digest.first_chunk().copied().unwrap_or_default());
            let names = if guest.stage.is_dir(WAITING)? {
                guest.stage.names(WAITING)?
            } else {
                Vec::new()
            };
            let known = names.iter().find(|name| name.ends_with(&short)).cloned();
            return Ok(known.unwrap_or_else(|| format!("{:04}-{short}", names.len() + 1)));
        };
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_good) {
            return Err(guest.invalid(format!(
                "invalid script name `{name}`: expected letters, digits and `-_.`, not starting \
                 with a dot"
            )));
        }
        Ok(name.clone())
    }
}

fn hexadecimal(bytes: [u8; 4]) -> String {
    format!("{:08x}", u32::from_be_bytes(bytes))
}

/// Makes the guest run the scripts at boot.
fn start_runner(guest: &mut Guest) -> Result<()> {
    if guest.has_systemd()? {
        let unit = format!("/etc/systemd/system/{UNIT}");
        guest.stage.write_with(&unit, UNIT_TEXT, 0o644)?;
        return units::enable(guest, UNIT);
    }
    if guest.stage.is_dir(LOCAL_D)? {
        return start_local(guest, LOCAL_START, &format!("exec {RUNNER}"));
    }
    for file in RC_LOCAL {
        if let Some(text) = guest.stage.text(file)? {
            return guest.stage.write_with(file, &with_call(&text), 0o755);
        }
    }
    Err(guest
        .invalid("cannot run scripts at boot: the guest has neither systemd, OpenRC nor rc.local"))
}

/// Makes `OpenRC` run a command at each boot.
pub(super) fn start_local(guest: &mut Guest, name: &str, command: &str) -> Result<()> {
    let text = of_lines(["#!/bin/sh", WRITTEN, command]);
    guest
        .stage
        .write_with(&format!("{LOCAL_D}/{name}"), &text, 0o755)?;
    let [link, script] = LOCAL_SERVICE;
    if guest.stage.exists(script)? {
        guest.stage.make_dirs("/etc/runlevels/default", 0o755)?;
        guest.stage.symlink(link, script)?;
    }
    Ok(())
}

/// Returns the System V script with a call of the runner before its end.
fn with_call(text: &str) -> String {
    if text.lines().any(|line| line.trim() == RUNNER) {
        return text.to_owned();
    }
    let mut lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().rposition(|line| line.trim() == "exit 0");
    lines.insert(end.unwrap_or(lines.len()), RUNNER);
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, attributes, guest, text};

    #[test]
    fn scripts_wait_in_their_order() {
        let tree = "-- /usr/lib/systemd/systemd --\nELF\n-- /etc/hostname --\na\n";
        let steps = "- firstboot: {script: \"id\\n\"}\n- firstboot: {script: \"#!/usr/bin/python3\\nprint()\\n\"}\n- firstboot: {name: zz, script: date}";
        let guest = after(tree, steps);
        let names = guest
            .stage
            .names("/usr/local/lib/diskfs/firstboot.d")
            .unwrap();
        assert_eq!(names.len(), 3);
        assert!(names[0].starts_with("0001-") && names[1].starts_with("0002-"));
        let first = format!("/usr/local/lib/diskfs/firstboot.d/{}", names[0]);
        assert_eq!(text(&guest, &first), "#!/bin/sh\nid\n");
        assert_eq!(attributes(&guest, &first), "0755 0:0");
        let wants = "/etc/systemd/system/multi-user.target.wants/diskfs-firstboot.service";
        assert!(guest.stage.link_entry(wants).unwrap().is_some());
    }

    #[test]
    fn others_have_their_own_ways() {
        let step = "- firstboot: {name: x, script: id}";
        let alpine = after(
            "-- /etc/local.d/README --\nx\n-- /etc/init.d/local --\nx\n",
            step,
        );
        assert!(
            alpine
                .stage
                .exists("/etc/local.d/diskfs-firstboot.start")
                .unwrap()
        );
        let openwrt = after("-- /etc/uci-defaults/10_x --\nx\n", step);
        assert!(
            openwrt
                .stage
                .exists("/etc/uci-defaults/99-diskfs-x")
                .unwrap()
        );
        let sysv = after("-- /etc/rc.local --\n#!/bin/sh -e\n# x\nexit 0\n", step);
        let expected = "#!/bin/sh -e\n# x\n/usr/local/lib/diskfs/firstboot\nexit 0\n";
        assert_eq!(text(&sysv, "/etc/rc.local"), expected);
        assert!(apply(&mut guest("-- /etc/hostname --\nx\n"), step).is_err());
    }
}
