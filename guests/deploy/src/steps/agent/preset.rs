//! Agents whose units, rules and paths are known.

use serde::{Deserialize, Serialize};

use super::super::super::guest::Guest;
use super::super::super::stage::above;
use super::super::super::text::WRITTEN;
use diskfs_disk::Result;

/// An agent that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// QEMU's, which answers what the host asks through a port of virtio.
    QemuGuestAgent,
    /// Telegraf, which sends measurements; its settings are `telegraf.conf` beside it.
    Telegraf,
}

impl Preset {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::QemuGuestAgent => "qemu-guest-agent",
            Self::Telegraf => "telegraf",
        }
    }

    /// Where its program goes.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::QemuGuestAgent => "/usr/bin/qemu-ga",
            Self::Telegraf => "/opt/.cloud-monitor/telegraf",
        }
    }

    /// Where distributions have theirs.
    pub(super) fn skip_if(self) -> &'static [&'static str] {
        match self {
            Self::QemuGuestAgent => &["/usr/bin/qemu-ga", "/usr/sbin/qemu-ga"],
            Self::Telegraf => &[],
        }
    }

    /// Its unit: of QEMU's as its sources have it, without a hook for freezing.
    pub(super) fn unit(self, path: &str) -> String {
        let (head, end) = match self {
            Self::QemuGuestAgent => (
                "Description=QEMU Guest Agent\n\
                 BindsTo=dev-virtio\\x2dports-org.qemu.guest_agent.0.device\n\
                 After=dev-virtio\\x2dports-org.qemu.guest_agent.0.device\n\
                 IgnoreOnIsolate=True\n",
                // The rule of udev starts it, when there is the port.
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

    /// What starts it without systemd: it comes back at once.
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

    /// What is missing for it to start.
    pub(super) fn tell(self, guest: &mut Guest, path: &str) -> Result<()> {
        if self == Self::Telegraf && !guest.stage.exists(&settings(path))? {
            let settings = settings(path);
            guest.note(format!(
                "the guest has no {settings}, without which telegraf does not start"
            ));
        }
        Ok(())
    }
}

fn settings(path: &str) -> String {
    format!("{}/telegraf.conf", above(path).trim_end_matches('/'))
}
