//! Guests that `diskfs deploy` has edited, booted: Debian by debootstrap with Debian's kernel, in
//! an emulated machine.
//!
//! The test logs in on the serial console with the password of the plan, and by ssh with the key,
//! and checks every setting from inside. It takes some minutes, and needs root and the emulator.

mod built;
mod exported;
mod hotplugged;
mod images;
mod machine;
mod microvm;
mod questions;
#[path = "../serve/server.rs"]
#[allow(dead_code, reason = "the tests of the service use more of it")]
mod server;
mod service;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use diskfs_fixtures::run;
use serde_json::json;

use images::images;
use machine::{MAC, Machine, Start};
use questions::QUESTIONS;

const DISKFS: &str = env!("CARGO_BIN_EXE_diskfs");

const PASSWORD: &str = "Correct-horse-7-battery";

/// The plan with all steps that are checked.
const PLAN: &str = include_str!("plan.yaml");

/// The unit that runs the commands of [`Guest::runs`], before agetty hangs up the console: a command
/// that prints would then fail.
const UNIT: &str = "[Unit]
Description=Commands of a test
After=local-fs.target
Before=serial-getty@ttyS0.service
SuccessAction=poweroff
FailureAction=poweroff
[Service]
Type=oneshot
ExecStart=/bin/sh -exc 'exec > /dev/ttyS0 2>&1; . /root/commands'
";

/// A guest in preparation: an overlay on one of the images, with the files for the login.
struct Guest {
    work: tempfile::TempDir,
    images: &'static Path,
}

impl Guest {
    fn new(images: &'static Path, base: &str) -> Result<Self> {
        let work = tempfile::tempdir()?;
        let guest = Self { work, images };
        let words = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b"].map(Path::new);
        let image = guest.image();
        run(
            "qemu-img",
            words.into_iter().chain([&*images.join(base), &*image]),
        )?;
        let key = guest.at("key").display().to_string();
        run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", &key])?;
        Ok(guest)
    }

    /// Makes the files on this machine that the plan names.
    fn make_files(&self) -> Result<()> {
        let agent = "#!/bin/sh\necho runs > /run/deployed-agent\nexec sleep infinity\n";
        fs::write(self.at("agent"), agent)?;
        fs::create_dir(self.at("app"))?;
        fs::write(self.at("app/file"), "of the archive\n")?;
        fs::set_permissions(self.at("app/file"), Permissions::from_mode(0o640))?;
        symlink("file", self.at("app/link"))?;
        let (archive, directory) = (self.at("app.tar"), self.at("app"));
        let words = [
            "-czf".as_ref(),
            archive.as_path(),
            "-C".as_ref(),
            &directory,
            ".".as_ref(),
        ];
        run("tar", words)?;
        Ok(())
    }

    /// Lets the system run these commands when it boots, until one fails, and power itself off.
    fn runs(&self, commands: &str) -> Result<()> {
        let (unit, wants) = (
            "/etc/systemd/system/commands.service",
            "multi-user.target.wants",
        );
        let plan = json!({ "steps": [
            { "write": { "path": "/root/commands", "text": commands } },
            { "write": { "path": unit, "text": UNIT } },
            { "link": { "path": format!("/etc/systemd/system/{wants}/commands.service"),
                "target": "../commands.service" } },
        ] });
        fs::write(self.at("plan.yaml"), plan.to_string())?;
        self.diskfs(&["deploy", "guest.qcow2", "--plan", "plan.yaml"])?;
        Ok(())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn image(&self) -> PathBuf {
        self.at("guest.qcow2")
    }

    fn diskfs(&self, words: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new(DISKFS)
            .args(words)
            .arg("--allow-backing")
            .arg(self.images)
            .current_dir(self.work.path())
            .env("DISKFS_VM", "none")
            .output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "diskfs {words:?}: {told}");
        Ok(output.stdout)
    }

    fn deploy(&self, stack: &str) -> Result<()> {
        self.make_files()?;
        let key = fs::read_to_string(self.at("key.pub"))?;
        let plan = PLAN
            .replace("PASSWORD", PASSWORD)
            .replace("KEY", key.trim_end())
            .replace("STACK", stack)
            .replace("MAC", MAC);
        fs::write(self.at("plan.yaml"), plan)?;
        self.diskfs(&["deploy", "guest.qcow2", "--plan", "plan.yaml"])?;
        let host = self.diskfs(&["cat", "guest.qcow2:/etc/ssh/ssh_host_ed25519_key.pub"])?;
        let host = String::from_utf8(host)?;
        fs::write(self.at("known_hosts"), format!("guest {host}"))?;
        Ok(())
    }

    /// Copies the kernel and its initramfs to the work directory.
    fn take_out_kernel(&self) -> Result<()> {
        for name in ["vmlinuz", "initrd.img"] {
            let bytes = self.diskfs(&["cat", &format!("guest.qcow2:/{name}")])?;
            fs::write(self.at(name), bytes)?;
        }
        Ok(())
    }

    fn start(&self, start: Start<'_>) -> Result<Machine> {
        if let Start::Kernel { .. } = start {
            self.take_out_kernel()?;
        }
        Machine::start(&[&self.image()], self.work.path(), start)
    }
}

/// Deploys to one of the images, boots it, and asks all questions, with those that depend on the
/// boot.
fn check(base: &str, stack: &str, start: Start<'_>, own: &[(&str, &str, &str)]) -> Result<()> {
    let Some(images) = images() else {
        return Ok(());
    };
    let guest = Guest::new(images, base)?;
    guest.deploy(stack)?;
    let mut machine = guest.start(start)?;
    log_in(&mut machine)?;
    ask(&machine, QUESTIONS.iter().chain(own))?;
    only_the_key_lets_in(&machine)?;
    machine.type_line("sudo -S -p sudo-asks poweroff")?;
    machine.expect("sudo-asks")?;
    machine.type_line(PASSWORD)?;
    machine.is_off()?;
    ensure!(
        guest.diskfs(&["cat", "guest.qcow2:/var/lib/hello"])? == b"hello from web1\n",
        "the first boot's script runs once"
    );
    Ok(())
}

/// Logs in on the serial console, with the password.
fn log_in(machine: &mut Machine) -> Result<()> {
    machine.expect("web1 login: ")?;
    machine.type_line("ann")?;
    machine.expect("Password: ")?;
    machine.type_line(PASSWORD)?;
    // Input that is typed earlier is discarded.
    machine.expect("ann@web1:~$ ")?;
    // The shell computes the sum, because the terminal also shows the typed text.
    machine.type_line("echo at $((40 + 2)) on $(tty)")?;
    machine.expect("at 42 on /dev/ttyS0")
}

/// Asks all questions in one ssh session, with the key, and reports all wrong answers in one error.
fn ask<'a>(
    machine: &Machine,
    questions: impl Iterator<Item = &'a (&'a str, &'a str, &'a str)>,
) -> Result<()> {
    let questions: Vec<_> = questions.collect();
    let mut script = format!("PASSWORD={PASSWORD}\nexport LC_ALL=C\n");
    for (_, command, _) in &questions {
        let line = format!("({command}) 2>&1 < /dev/null | tr -s '\\n ' ' '; echo\n");
        script.push_str(&line);
    }
    let output = machine.ssh(&["ann@127.0.0.1", "sh"], &script)?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ssh: {}: {told}", output.status);
    let answers = String::from_utf8(output.stdout)?;
    let mut wrong = Vec::new();
    let answers: Vec<&str> = answers.lines().map(str::trim).collect();
    ensure!(answers.len() == questions.len(), "{answers:#?}\n{told}");
    for ((name, _, expected), answer) in questions.iter().zip(answers) {
        if answer != *expected {
            wrong.push(format!("{name}: `{answer}`, not `{expected}`"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn only_the_key_lets_in(machine: &Machine) -> Result<()> {
    for (user, way) in [("ann", "password"), ("root", "publickey")] {
        let way = format!("PreferredAuthentications={way}");
        let output = machine.ssh(&["-o", &way, &format!("{user}@127.0.0.1"), "true"], "")?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(
            told.contains("Permission denied (publickey)"),
            "{user} by {way}: {told}"
        );
    }
    Ok(())
}

/// The question for a guest without a boot loader: the machine provides its kernel command line.
const WITHOUT_LOADER: (&str, &str, &str) = (
    "kernel arguments",
    "grep -o 'console=[^ ]*' /proc/cmdline",
    "console=ttyS0,115200n8",
);

/// The question for the interface's connection in `NetworkManager`.
const CONNECTION: (&str, &str, &str) = (
    "connection",
    "nmcli -t -f DEVICE,STATE device | grep wan0",
    "wan0:connected",
);

#[test]
fn debian_with_ifupdown_is_as_deployed() -> Result<()> {
    let start = Start::Kernel { root: "LABEL=root" };
    let own = [
        WITHOUT_LOADER,
        (
            "stack",
            "systemctl is-active networking; command -v netplan",
            "active",
        ),
    ];
    check("ifupdown.raw", "auto", start, &own)
}

#[test]
fn debian_on_lvm_is_as_deployed() -> Result<()> {
    let start = Start::Kernel {
        root: "/dev/vg0/root",
    };
    let own = [
        WITHOUT_LOADER,
        ("root", "findmnt -n -o SOURCE /", "/dev/vg0/root"),
    ];
    check("lvm.raw", "auto", start, &own)
}

#[test]
fn debian_with_netplan_behind_grub_is_as_deployed() -> Result<()> {
    let own = [
        (
            "kernel arguments",
            "grep -o 'console=.*' /proc/cmdline",
            "console=tty0 console=ttyS0,115200n8 panic=11",
        ),
        ("panic", "cat /proc/sys/kernel/panic", "11"),
        ("firmware", "ls -d /sys/firmware/efi", "/sys/firmware/efi"),
        (
            "stack",
            "cd /etc/netplan; stat -c '%a %n' *",
            "600 60-diskfs.yaml",
        ),
        // netplan generates the connection.
        CONNECTION,
    ];
    check("uefi.raw", "auto", Start::Firmware, &own)
}

#[test]
#[ignore = "takes another minute; the guest with netplan also tests NetworkManager"]
fn debian_with_networkmanager_is_as_deployed() -> Result<()> {
    let start = Start::Kernel { root: "LABEL=root" };
    let own = [
        WITHOUT_LOADER,
        (
            "stack",
            "systemctl is-active NetworkManager; ls /etc/netplan",
            "active",
        ),
        CONNECTION,
    ];
    check("uefi.raw", "networkmanager", start, &own)
}
