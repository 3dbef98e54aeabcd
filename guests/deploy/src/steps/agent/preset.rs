//! The presets of agents: known units, udev rules and paths.

use serde::{Deserialize, Serialize};

use super::super::super::guest::Guest;
use super::super::super::stage::above;
use super::super::super::text::WRITTEN;
use diskfs_disk::Result;

/// A known agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The QEMU guest agent, which answers requests of the host over a virtio port.
    QemuGuestAgent,
    /// Telegraf, which sends metrics. Its configuration is `telegraf.conf` next to the program.
    Telegraf,
}

impl Preset {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::QemuGuestAgent => "qemu-guest-agent",
            Self::Telegraf => "telegraf",
        }
    }

    /// Returns the path of the program.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::QemuGuestAgent => "/usr/bin/qemu-ga",
            Self::Telegraf => "/opt/.cloud-monitor/telegraf",
        }
    }

    /// Returns the paths where distributions install their own agent.
    pub(super) fn skip_if(self) -> &'static [&'static str] {
        match self {
            Self::QemuGuestAgent => &["/usr/bin/qemu-ga", "/usr/sbin/qemu-ga"],
            Self::Telegraf => &[],
        }
    }

    /// Returns the unit. That of QEMU's agent follows QEMU's sources, without the freeze hook.
    pub(super) fn unit(self, path: &str) -> String {
        let (head, end) = match self {
            Self::QemuGuestAgent => (
                "Description=QEMU Guest Agent\n\
                 BindsTo=dev-virtio\\x2dports-org.qemu.guest_agent.0.device\n\
                 After=dev-virtio\\x2dports-org.qemu.guest_agent.0.device\n\
                 IgnoreOnIsolate=True\n",
                // The udev rule starts the unit when the port appears.
                "",
            ),
            Self::Telegraf => (
                "Description=Telegraf\nAfter=network-online.target\nWants=network-online.target\n",
                "\n[Install]\nWantedBy=multi-user.target\n",
            ),
        };
        let start = self.start(path);
        format!(
            "{WRITTEN}\n[Unit]\n{head}\n[Service]\nExecStart={start}\nRestart=always\nRestartSec=5\n{end}"
        )
    }

    pub(super) fn udev_rules(self, name: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::QemuGuestAgent => {
                let rule = format!(
                    "SUBSYSTEM==\"virtio-ports\", ATTR{{name}}==\"org.qemu.guest_agent.0\", \
                     TAG+=\"systemd\", ENV{{SYSTEMD_WANTS}}=\"{name}.service\"\n"
                );
                vec![("99-qemu-guest-agent.rules", rule)]
            }
            Self::Telegraf => Vec::new(),
        }
    }

    /// Returns the command that starts the agent without systemd. The command returns at once.
    pub(super) fn command(self, path: &str) -> String {
        let start = self.start(path);
        match self {
            Self::QemuGuestAgent => format!("{start} --daemonize"),
            Self::Telegraf => format!("{start} >/dev/null 2>&1 &"),
        }
    }

    fn start(self, path: &str) -> String {
        match self {
            Self::QemuGuestAgent => path.to_owned(),
            Self::Telegraf => format!("{path} -config {}", settings(path)),
        }
    }

    /// Adds a note if something is missing that the agent needs to start.
    pub(super) fn add_notes(self, guest: &mut Guest, path: &str) -> Result<()> {
        if self == Self::Telegraf && !guest.stage.exists(&settings(path))? {
            let settings = settings(path);
            guest.note(format!(
                "missing {settings} in the guest: telegraf does not start without it"
            ));
        }
        Ok(())
    }
}

fn settings(path: &str) -> String {
    format!("{}/telegraf.conf", above(path).trim_end_matches('/'))
}
