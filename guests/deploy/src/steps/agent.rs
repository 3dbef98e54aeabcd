//! The step `agent`: programs that monitor or serve a guest from within.

mod preset;
mod start;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::stage::Contents;
use super::files::{Mode, Upload};
use super::udev;
use diskfs_disk::guest::architecture;
use diskfs_disk::{Error, ErrorKind, Result};

pub use preset::Preset;

/// A program that monitors or serves the guest from within. The step does nothing if the guest
/// already has one of the paths of `skip-if`, unless an earlier deployment installed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Agent {
    /// The name of the agent and its unit; default: the name of the preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// An agent with a known unit, udev rules and paths. Only `binary` is required then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// The agent's program, a local file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<PathBuf>,
    /// The destination of the program; default: the path of the preset, or `/usr/local/bin/NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Paths whose presence means that the guest has its own agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip_if: Vec<String>,
    /// Other local files to copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Upload>,
    /// The text of the systemd unit, which is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The udev rules: names of files, and their contents.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub udev_rules: BTreeMap<String, String>,
    /// The command that starts the agent in guests without systemd. `OpenRC` or cron runs it at
    /// boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// An agent, completed by the settings of its preset.
struct CompleteAgent {
    name: String,
    files: Vec<Upload>,
    /// The local file of the program, which `files` also contains.
    program: Option<PathBuf>,
    skip_if: Vec<String>,
    unit: Option<String>,
    udev_rules: BTreeMap<String, String>,
    command: Option<String>,
}

impl Agent {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let agent = self.complete(guest)?;
        start::check_name(guest, &agent.name)?;
        if let Some(path) = agent.existing_path(guest)? {
            guest.note(format!(
                "{path} exists: the guest's own {} was kept",
                agent.name
            ));
            return Ok(());
        }
        agent.check_architecture(guest)?;
        agent.check_room(guest)?;
        for file in &agent.files {
            file.apply(guest)?;
        }
        for (name, text) in &agent.udev_rules {
            udev::write_rules(guest, name, text)?;
        }
        start::install(
            guest,
            &agent.name,
            agent.unit.as_deref(),
            agent.command.as_deref(),
        )?;
        if let Some(preset) = self.preset {
            preset.add_notes(guest, &self.path_or(preset))?;
        }
        Ok(())
    }

    fn path_or(&self, preset: Preset) -> String {
        self.path
            .clone()
            .unwrap_or_else(|| preset.path().to_owned())
    }

    fn complete(&self, guest: &Guest) -> Result<CompleteAgent> {
        let missing = |what: &str| Err(guest.invalid(format!("missing key {what}")));
        let preset = self.preset;
        let Some(name) = self.name.clone().or(preset.map(|it| it.name().to_owned())) else {
            return missing("`name` or `preset` of the agent");
        };
        let path = self.path.clone().or(preset.map(|it| it.path().to_owned()));
        let path = path.unwrap_or_else(|| format!("/usr/local/bin/{name}"));
        let mut files = self.files.clone();
        match &self.binary {
            Some(from) => files.insert(
                0,
                Upload {
                    from: from.clone(),
                    to: path.clone(),
                    mode: Some(Mode(0o755)),
                    owner: None,
                },
            ),
            None if preset.is_some() => {
                return missing("`binary` of the agent: a local file with the program");
            }
            None => {}
        }
        let mut skip_if = self.skip_if.clone();
        let mut udev_rules = self.udev_rules.clone();
        if let Some(preset) = preset {
            skip_if.extend(preset.skip_if().iter().map(|&path| path.to_owned()));
            for (file, text) in preset.udev_rules(&name) {
                udev_rules.entry(file.to_owned()).or_insert(text);
            }
        }
        let unit = self.unit.clone().or(preset.map(|it| it.unit(&path)));
        let command = self.command.clone().or(preset.map(|it| it.command(&path)));
        if unit.is_none() && command.is_none() && udev_rules.is_empty() {
            return missing("`unit` or `command` of the agent: nothing would start it");
        }
        Ok(CompleteAgent {
            name,
            files,
            program: self.binary.clone(),
            skip_if,
            unit,
            udev_rules,
            command,
        })
    }
}

impl CompleteAgent {
    /// Returns the path of an agent that the guest has from another source.
    fn existing_path(&self, guest: &Guest) -> Result<Option<&str>> {
        if start::is_installed(guest, &self.name)? {
            return Ok(None);
        }
        for path in &self.skip_if {
            if guest.stage.exists(path)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Adds a note if the program is for another architecture, as far as both architectures are
    /// known.
    fn check_architecture(&self, guest: &mut Guest) -> Result<()> {
        let Some(program) = &self.program else {
            return Ok(());
        };
        let in_file = |error: std::io::Error| Error::from(error).in_file(program);
        let mut file = std::fs::File::open(program).map_err(in_file)?;
        let theirs = architecture::of(guest.stage.guest()).map(|(_, name)| name);
        let ours = architecture::of_program(&mut file).map_err(in_file)?;
        if let (Some(ours), Some(theirs)) = (ours, theirs)
            && ours != theirs
        {
            guest.note(format!(
                "{} is built for {ours}, but the guest's architecture is {theirs}",
                program.display()
            ));
        }
        Ok(())
    }

    /// Checks that the guest's filesystem has space for the files that are missing.
    fn check_room(&self, guest: &Guest) -> Result<()> {
        let mut wanted: u64 = 0;
        for file in &self.files {
            let size = Contents::of_host(&file.from)?.size_bytes();
            let there = guest.stage.entry(&file.to)?;
            if there.is_none_or(|entry| !entry.is_new && entry.size_bytes != size) {
                wanted = wanted.saturating_add(size);
            }
        }
        let statistics = guest.stage.guest().statistics()?;
        let free = statistics
            .blocks_free
            .saturating_mul(statistics.block_size.into());
        if wanted <= free {
            return Ok(());
        }
        let reason = format!(
            "no space left for the agent {}: it needs {wanted} bytes, and {free} bytes are free",
            self.name
        );
        let error =
            Error::new(ErrorKind::NoSpace, reason).in_file(guest.stage.guest().image_path());
        Err(error.with_hint("enlarge the disk first, as with `diskfs resize`, or omit the agent"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tempfile::NamedTempFile;

    use super::super::testing::{after, apply, attributes, guest, text};

    const SYSTEMD: &str = "-- /usr/lib/systemd/systemd --\nELF\n-- /etc/hostname --\nx\n";

    fn file(bytes: &[u8]) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_guest_agent_has_its_rule_and_its_unit() {
        let binary = file(b"program");
        let step = format!(
            "- agent: {{preset: qemu-guest-agent, binary: {}}}",
            binary.path().display()
        );
        let mut guest = after(SYSTEMD, &step);
        assert_eq!(text(&guest, "/usr/bin/qemu-ga"), "program");
        assert_eq!(attributes(&guest, "/usr/bin/qemu-ga"), "0755 0:0");
        let unit = text(&guest, "/etc/systemd/system/qemu-guest-agent.service");
        assert!(unit.contains("ExecStart=/usr/bin/qemu-ga\n"), "{unit}");
        let rule = text(&guest, "/etc/udev/rules.d/99-qemu-guest-agent.rules");
        assert!(
            rule.contains("SYSTEMD_WANTS}=\"qemu-guest-agent.service\""),
            "{rule}"
        );
        assert_eq!(guest.report("agent").notes, [""; 0]);
    }

    #[test]
    fn the_guests_own_stays() {
        let tree = format!("{SYSTEMD}-- /usr/sbin/qemu-ga --\nown\n");
        let binary = file(b"program");
        let step = format!(
            "- agent: {{preset: qemu-guest-agent, binary: {}}}",
            binary.path().display()
        );
        let mut guest = after(&tree, &step);
        assert!(!guest.stage.exists("/usr/bin/qemu-ga").unwrap());
        assert!(guest.report("agent").notes[0].contains("/usr/sbin/qemu-ga"));
    }

    #[test]
    fn telegraf_has_its_settings_beside_it() {
        let (binary, conf) = (file(b"program"), file(b"[agent]\n"));
        let step = format!(
            "- agent:\n    preset: telegraf\n    binary: {}\n    files: [{{from: {}, to: /opt/.cloud-monitor/telegraf.conf, mode: 0600}}]",
            binary.path().display(),
            conf.path().display()
        );
        let whole = after(SYSTEMD, &step);
        let unit = text(&whole, "/etc/systemd/system/telegraf.service");
        let start =
            "ExecStart=/opt/.cloud-monitor/telegraf -config /opt/.cloud-monitor/telegraf.conf\n";
        assert!(unit.contains(start), "{unit}");
        let wants = "/etc/systemd/system/multi-user.target.wants/telegraf.service";
        assert!(whole.stage.link_entry(wants).unwrap().is_some());
        let step = format!(
            "- agent: {{preset: telegraf, path: /opt/t/telegraf, binary: {}}}",
            binary.path().display()
        );
        let mut other = after(SYSTEMD, &step);
        assert_eq!(text(&other, "/opt/t/telegraf"), "program");
        assert!(other.report("agent").notes[0].contains("/opt/t/telegraf.conf"));
    }

    #[test]
    fn guests_without_systemd_start_it_otherwise() {
        let binary = file(b"program");
        let step = format!(
            "- agent: {{name: app, binary: {}, path: /usr/bin/app, command: /usr/bin/app -d, unit: x}}",
            binary.path().display()
        );
        let alpine = after(
            "-- /etc/local.d/README --\nx\n-- /etc/init.d/local --\nx\n",
            &step,
        );
        assert_eq!(
            text(&alpine, "/etc/local.d/app.start"),
            "#!/bin/sh\n# Written by diskfs deploy.\n/usr/bin/app -d\n"
        );
        assert!(
            alpine
                .stage
                .link_entry("/etc/runlevels/default/local")
                .unwrap()
                .is_some()
        );
        let cron = after("-- /etc/cron.d/x --\nx\n", &step);
        assert!(text(&cron, "/etc/cron.d/app").ends_with("@reboot root /usr/bin/app -d\n"));
        assert!(apply(&mut guest("-- /etc/x --\n"), &step).is_err());
    }

    #[test]
    fn what_has_no_room_is_reported_with_its_name() {
        let binary = file(&vec![0; 2 << 20]);
        let step = format!(
            "- agent: {{preset: telegraf, binary: {}}}",
            binary.path().display()
        );
        let told = apply(&mut guest(SYSTEMD), &step).unwrap_err().to_string();
        assert!(
            told.contains("telegraf: it needs 2097152 bytes, and 1228800 bytes are free"),
            "{told}"
        );
    }

    #[test]
    fn what_is_missing_is_reported() {
        for step in [
            "- agent: {binary: /bin/sh, path: /x}",
            "- agent: {preset: telegraf}",
            "- agent: {name: a, binary: /bin/sh}",
            "- agent: {name: ../a, unit: x}",
            "- agent: {name: a, files: [{from: /nowhere, to: /x}]}",
        ] {
            assert!(apply(&mut guest(SYSTEMD), step).is_err(), "{step}");
        }
    }

    #[test]
    fn a_program_for_other_processors_is_reported() {
        let head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0";
        let binary = file(head);
        // The guest's architecture is unknown, and no note appears.
        let step = format!(
            "- agent: {{preset: qemu-guest-agent, binary: {}}}",
            binary.path().display()
        );
        let mut guest = after(SYSTEMD, &step);
        assert_eq!(guest.report("agent").notes, [""; 0]);
    }
}
