//! The other steps of a deployment: agents, rules of udev, mounts, SSH, user data.

use std::collections::BTreeMap;

use diskfs_deploy::{
    Agent, CloudInit, Fstab, FstabEntry, Preset, Selinux, SelinuxMode, Sshd, Step, Udev, Write,
};
use diskfs_disk::Result;
use serde_json::{Value, json};

use super::super::JobContext;
use super::super::guest::Guest;
use super::{DataDisk, Deploy, parse};

/// The programs of the agents, in the host's directory of agents.
const QEMU_GA: &str = "qemu-ga";
const TELEGRAF: &str = "telegraf";

/// Telegraf's configuration, beside its program in the guest.
const TELEGRAF_CONF: &str = "/opt/.cloud-monitor/telegraf.conf";

/// The settings of Red Hat's guest agent, which block some of the host's requests.
const SYSCONFIG_QEMU_GA: &str = "/etc/sysconfig/qemu-ga";
const QEMU_GA_TEXT: &str = "FSFREEZE_HOOK_PATHNAME=/etc/qemu-ga/fsfreeze-hook\n";

/// Rules that bring added processors and memory online, and let a USB tablet wake the guest.
const HOTPLUG: (&str, &str) = (
    "80-hotplug-cpu-mem.rules",
    "SUBSYSTEM==\"cpu\", ACTION==\"add\", TEST==\"online\", ATTR{online}==\"0\", ATTR{online}=\"1\"\n\
     SUBSYSTEM==\"memory\", ACTION==\"add\", TEST==\"state\", ATTR{state}==\"offline\", ATTR{state}=\"online\"\n",
);
const TABLET: (&str, &str) = (
    "90-usb-tablet-remote-wakeup.rules",
    "SUBSYSTEM==\"usb\", ATTRS{idVendor}==\"1d6b\", ATTRS{idProduct}==\"0001\", \
     RUN+=\"/bin/sh -c 'echo enabled > /sys$env{DEVPATH}/../power/wakeup'\"\n",
);

const DOCKER: &str = "/etc/docker/daemon.json";

/// The drop-in with the name servers and domains of all interfaces for systemd-resolved.
const RESOLVED: &str = "/etc/systemd/resolved.conf.d/50-diskfs.conf";

/// The address selection of a guest with IPv4 and IPv6: IPv4 first (gai.conf(5)).
const GAI: &str = "/etc/gai.conf";
const GAI_TEXT: &str = "precedence ::ffff:0:0/96  100\n";

/// Files of SSH's server, of which every guest with one has at least one.
const SSHD: [&str; 3] = [
    "/etc/ssh/sshd_config",
    "/etc/ssh/sshd_config.d",
    "/usr/etc/ssh/sshd_config",
];

/// The largest JSON file of Docker that is looked at.
const MAX_BYTES: u64 = 1 << 20;

/// Forms of user data that only cloud-init processes.
const OF_CLOUD_INIT: [&str; 8] = [
    "Content-Type:",
    "MIME-Version:",
    "#include",
    "#cloud-config-",
    "#cloud-boothook",
    "#part-handler",
    "## template:",
    "#upstart-job",
];

impl Deploy {
    /// Adds the step that installs Telegraf, and returns true if the host has its program.
    pub(super) fn add_telegraf(
        &self,
        context: &dyn JobContext,
        steps: &mut Vec<Step>,
        notes: &mut Vec<String>,
    ) -> bool {
        let program = self.policy.agents.as_ref().map(|dir| dir.join(TELEGRAF));
        let Some(program) = program.filter(|path| context.has_file(path)) else {
            let note =
                "Telegraf was not installed: the host's directory of agents has no `telegraf`";
            notes.push(note.to_owned());
            return false;
        };
        steps.push(write(TELEGRAF_CONF, &self.telegraf));
        steps.push(Step::Agent(Agent {
            binary: Some(program),
            ..agent(Preset::Telegraf)
        }));
        true
    }

    /// Adds the steps that install the QEMU guest agent, unless the guest has one, and that let it
    /// answer all requests.
    pub(super) fn add_guest_agent(
        &self,
        guest: &Guest,
        context: &dyn JobContext,
        steps: &mut Vec<Step>,
    ) -> Result<()> {
        let program = self.policy.agents.as_ref().map(|dir| dir.join(QEMU_GA));
        if let Some(program) = program.filter(|path| context.has_file(path)) {
            steps.push(Step::Agent(Agent {
                binary: Some(program),
                ..agent(Preset::QemuGuestAgent)
            }));
        }
        if guest.filesystem.exists(SYSCONFIG_QEMU_GA)? {
            steps.push(write(SYSCONFIG_QEMU_GA, QEMU_GA_TEXT));
        }
        Ok(())
    }

    /// Adds the steps that depend on the interfaces: udev, Docker's MTU, resolved, address
    /// selection.
    pub(super) fn add_network_extras(
        &self,
        guest: &Guest,
        steps: &mut Vec<Step>,
        notes: &mut Vec<String>,
    ) -> Result<()> {
        let rules = [HOTPLUG, TABLET].map(|(name, text)| (name.to_owned(), text.to_owned()));
        steps.push(Step::Udev(Udev {
            remove: vec!["*persistent-cd.rules".to_owned()],
            write: BTreeMap::from(rules),
            names: None,
        }));
        let nics = &self.network.nics;
        if let Some(mtu) = nics.iter().filter_map(|nic| nic.mtu).min() {
            steps.extend(docker_mtu(guest, mtu, notes)?);
        }
        if guest.filesystem.exists("/etc/systemd")? {
            steps.extend(self.resolved());
        }
        let has_both = nics
            .iter()
            .any(|nic| nic.address4.is_some() && nic.address6.is_some());
        if has_both {
            steps.push(Step::Write(Write {
                path: GAI.to_owned(),
                text: GAI_TEXT.to_owned(),
                mode: None,
                owner: None,
                only_if_missing: true,
            }));
        }
        Ok(())
    }

    fn resolved(&self) -> Option<Step> {
        let nics = &self.network.nics;
        let servers = nics.iter().flat_map(|nic| nic.nameservers.iter());
        let servers = once_each(servers.map(ToString::to_string));
        let domains = nics.iter().map(|nic| nic.domain.clone());
        let domains = once_each(domains.filter(|domain| !domain.is_empty()));
        if servers.is_empty() {
            return None;
        }
        let mut text = format!("[Resolve]\nDNS={}\n", servers.join(" "));
        if !domains.is_empty() {
            text.extend(["Domains=", &domains.join(" "), "\n"]);
        }
        Some(write(RESOLVED, &text))
    }

    /// Adds the step for the mounts of data disks, and removes those of disks that the guest no
    /// longer has.
    pub(super) fn add_data_disks(&self, steps: &mut Vec<Step>) {
        let letters = ('a'..='z').skip(self.disk_count.max(1));
        let remove = letters.map(|letter| format!("/dev/vd{letter}*")).collect();
        let mut unnamed = 0;
        let add = self.data_disks.iter().map(|disk| entry(disk, &mut unnamed));
        steps.push(Step::Fstab(Fstab {
            add: add.collect(),
            remove,
        }));
    }

    /// Adds the step that permits the logins which the account needs.
    pub(super) fn add_sshd(
        &self,
        guest: &Guest,
        account: &str,
        steps: &mut Vec<Step>,
    ) -> Result<()> {
        let opens_all =
            self.is_init && self.policy.user_data_opens_sshd && !self.user_data.trim().is_empty();
        let permits_root = account == "root" || opens_all;
        let permits_password = self.password.is_some() || opens_all;
        let mut has_server = false;
        for path in SSHD {
            has_server |= guest.filesystem.exists(path)?;
        }
        if has_server && (permits_root || permits_password) {
            steps.push(Step::Sshd(Sshd {
                permit_root_login: permits_root.then(|| "yes".to_owned()),
                password_authentication: permits_password.then_some(true),
                port: None,
                options: BTreeMap::new(),
            }));
        }
        Ok(())
    }

    /// Adds the steps that the host wants for all of its guests: SELinux, cloud-init, the user of
    /// its administrators.
    pub(super) fn add_host_policy(&self, guest: &Guest, steps: &mut Vec<Step>) -> Result<()> {
        if !self.policy.allow_selinux && guest.filesystem.exists("/etc/selinux/config")? {
            steps.push(Step::Selinux(Selinux {
                mode: Some(SelinuxMode::Disabled),
                relabel: false,
            }));
        }
        let disables = self.is_init && !self.enable_cloud_init;
        if disables && guest.filesystem.exists("/etc/cloud")? {
            steps.push(Step::CloudInit(CloudInit {
                enabled: Some(false),
                ..CloudInit::default()
            }));
        }
        if !self.default_root_user {
            self.add_cloudroot(steps);
        }
        Ok(())
    }

    /// Adds the step for user data. Text without a known start is a script, as for the
    /// host-deployer.
    pub(super) fn add_user_data(&self, steps: &mut Vec<Step>, notes: &mut Vec<String>) {
        let text = self.user_data.trim_start();
        if text.is_empty() {
            return;
        }
        if OF_CLOUD_INIT.iter().any(|start| text.starts_with(start)) {
            notes.push("user data in a form that only cloud-init processes was ignored".to_owned());
            return;
        }
        let is_known = text.starts_with("#!") || text.starts_with("#cloud-config");
        let text = if is_known {
            text.to_owned()
        } else {
            format!("#!/bin/sh\n{text}")
        };
        steps.push(Step::CloudInit(CloudInit {
            user_data: Some(text),
            translate: true,
            ..CloudInit::default()
        }));
    }
}

fn write(path: &str, text: &str) -> Step {
    Step::Write(Write {
        path: path.to_owned(),
        text: text.to_owned(),
        mode: None,
        owner: None,
        only_if_missing: false,
    })
}

fn agent(preset: Preset) -> Agent {
    Agent {
        name: None,
        preset: Some(preset),
        binary: None,
        path: None,
        skip_if: Vec::new(),
        files: Vec::new(),
        unit: None,
        udev_rules: BTreeMap::new(),
        command: None,
    }
}

/// Returns the steps that set Docker's MTU. A file that is not a JSON object stays, with a note.
fn docker_mtu(guest: &Guest, mtu: u32, notes: &mut Vec<String>) -> Result<Vec<Step>> {
    let fs = &guest.filesystem;
    if fs.exists(DOCKER)? {
        let text = fs.read_at_most(DOCKER, MAX_BYTES)?;
        let is_blank = text.iter().all(u8::is_ascii_whitespace);
        let is_object = serde_json::from_slice::<Value>(&text).is_ok_and(|it| it.is_object());
        if !is_object && !is_blank {
            notes.push(format!(
                "{DOCKER} is not a JSON object: its MTU was not set"
            ));
            return Ok(Vec::new());
        }
    }
    let merge = parse(json!({ "json": { "path": DOCKER, "merge": { "mtu": mtu } } }))?;
    if fs.exists("/etc/docker")? {
        return Ok(vec![merge]);
    }
    let directory = parse(json!({ "mkdir": { "path": "/etc/docker", "mode": "0700" } }))?;
    Ok(vec![directory, merge])
}

/// Returns the entry of a data disk. Without a mount point, the first is mounted at `/data`, the
/// others at `/data1` and so on.
fn entry(disk: &DataDisk, unnamed: &mut u32) -> FstabEntry {
    let device = format!("UUID={}", disk.uuid);
    if disk.kind == "swap" {
        return FstabEntry {
            device,
            path: "none".to_owned(),
            kind: "swap".to_owned(),
            // A guest whose disk was detached starts all the same.
            options: "sw,nofail".to_owned(),
            dump: 0,
            pass: 0,
        };
    }
    let path = if disk.mount_point.is_empty() {
        *unnamed += 1;
        match *unnamed - 1 {
            0 => "/data".to_owned(),
            number => format!("/data{number}"),
        }
    } else {
        disk.mount_point.clone()
    };
    FstabEntry {
        device,
        path,
        kind: disk.kind.clone(),
        options: "defaults,nofail".to_owned(),
        dump: 0,
        pass: 2,
    }
}

fn once_each(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in words {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}
