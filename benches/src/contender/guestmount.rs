//! The contender libguestfs: `guestmount`, with `guestfish` for the commands.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Contender, Deployment};
use crate::command;
use crate::image::ImageFormat;
use crate::mount::{Mount, MountPoint};
use crate::server::{Machine, Server};

/// The default setting of its machine: emulated, because on some machines libguestfs hangs on the
/// KVM that it finds.
const SETTINGS: (&str, &str) = ("LIBGUESTFS_BACKEND_SETTINGS", "force_tcg");

/// The disk in its machine; the filesystem covers the whole disk.
const DEVICE: &str = "/dev/sda";

/// The deployment's files, each with its path in the guest.
const UPLOADS: [(&str, &str); 6] = [
    ("interfaces", "/etc/network/interfaces"),
    ("file-0", "/etc/file-0"),
    ("file-1", "/etc/file-1"),
    ("file-2", "/etc/file-2"),
    ("agent", "/usr/local/bin/agent"),
    ("agent.service", "/etc/systemd/system/agent.service"),
];

/// The link that `systemctl enable` would create.
const AGENT_LINK: &str = "/etc/systemd/system/agent.service:\
    /etc/systemd/system/multi-user.target.wants/agent.service";

/// The contender `guestmount`.
#[derive(Debug)]
pub(super) struct Guestmount {
    /// True if there is another contender to measure.
    pub(super) by_name_only: bool,
}

impl Contender for Guestmount {
    fn program(&self) -> &'static str {
        "guestmount"
    }

    fn kind(&self) -> ImageFormat {
        ImageFormat::Raw
    }

    fn obstacle(&self) -> Option<String> {
        // The first start builds its appliance, which must not be part of any figure.
        let start = || command::output(program("guestfish").args(["-a", "/dev/null", "run"]));
        let programs = [
            "guestmount",
            "guestfish",
            "virt-inspector",
            "virt-customize",
        ];
        let missing = super::missing(&programs);
        missing.or_else(|| start().err().map(|error| format!("{error:#}")))
    }

    fn most_repetitions(&self) -> u32 {
        2
    }

    fn mount(&self, image: &Path, dir: &Path) -> Result<Mount> {
        mount(&["--ro"], image, dir)
    }

    fn mount_for_writing(&self, image: &Path, dir: &Path) -> Result<Mount> {
        mount(&[], image, dir)
    }

    fn cat(&self, image: &Path, path: &str) -> Option<Command> {
        // guestfish's `cat` is limited to the size of one message.
        Some(guestfish(image, &["download", path, "/dev/stdout"]))
    }

    fn list(&self, image: &Path, path: &str) -> Option<Command> {
        Some(guestfish(image, &["ll", path]))
    }

    fn inspect(&self, image: &Path) -> Option<Command> {
        let mut inspector = program("virt-inspector");
        inspector.args(["--format=raw", "-a"]).arg(image);
        Some(inspector)
    }

    fn deploy(&self, image: &Path, deployment: &Deployment) -> Option<Command> {
        let file = |name: &str| deployment.file(name).display().to_string();
        let mut customize = program("virt-customize");
        customize.args(["--quiet", "--no-network", "--format=qcow2", "-a"]);
        customize.arg(image);
        customize.args(["--hostname", "web1"]);
        customize.args(["--root-password", "password:Correct-horse-7"]);
        customize.args([
            "--ssh-inject".into(),
            format!("root:file:{}", file("key.pub")),
        ]);
        for (from, to) in UPLOADS {
            customize.args(["--upload".into(), format!("{}:{to}", file(from))]);
        }
        customize.args(["--chmod", "0755:/usr/local/bin/agent"]);
        customize.args(["--link", AGENT_LINK]);
        Some(customize)
    }

    fn is_by_name_only(&self) -> bool {
        self.by_name_only
    }
}

fn mount(options: &[&str], image: &Path, dir: &Path) -> Result<Mount> {
    let machine = Machine::in_directory(dir.join("libguestfs"))?;
    let point = MountPoint::directory(dir.join("mnt"))?;
    let pid_file = dir.join("pid");
    let mut server = program("guestmount");
    server.env("LIBGUESTFS_TMPDIR", machine.dir());
    server.args(["--format=raw", "-a"]).arg(image);
    server.args(["-m", DEVICE]).args(options);
    server.arg("--pid-file").arg(&pid_file);
    command::started(server.arg(point.path()))?;
    let pid = fs::read_to_string(&pid_file).context("guestmount's pid")?;
    fs::remove_file(&pid_file)?;
    let server = Server::of_mount(pid.trim().parse()?);
    Mount::by_machine(server, machine, point)
}

fn guestfish(image: &Path, request: &[&str]) -> Command {
    let mut guestfish = program("guestfish");
    guestfish.args(["--ro", "--format=raw", "-a"]).arg(image);
    guestfish.args(["-m", DEVICE]).args(request);
    guestfish
}

fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env("LIBGUESTFS_BACKEND", "direct");
    if std::env::var_os(SETTINGS.0).is_none() {
        command.env(SETTINGS.0, SETTINGS.1);
    }
    command
}
