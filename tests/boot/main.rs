//! Guests that `diskfs deploy` has edited, started: Debian by debootstrap with Debian's kernel, in an emulated machine.
//!
//! One logs in on the serial console with the password that the plan gave, and by ssh with the key, and looks at every
//! setting from inside. It takes some minutes, root, and the emulator.

mod images;
mod machine;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use diskfs_fixtures::run;

use images::images;
use machine::{MAC, Machine, Start};

const DISKFS: &str = env!("CARGO_BIN_EXE_diskfs");

const PASSWORD: &str = "Correct-horse-7-battery";

/// All that is asked of a guest, but for what its stack and loader are.
const PLAN: &str = "steps:
- hostname: web1
- hosts:
  - {address: 10.0.2.15, names: [web1.example.org, web1]}
  - {address: 192.0.2.5, names: [db1.example.org]}
- machine-id: 0123456789abcdef0123456789abcdef
- random-seed: new
- timezone: Europe/Berlin
- user:
    name: ann
    comment: Ann Example
    uid: 1234
    shell: /bin/bash
    groups: [adm]
    sudo: true
    password: PASSWORD
    ssh-keys: [\"KEY\"]
- root-password: {locked: true}
- ssh-host-keys: regenerate
- sshd: {password-authentication: false, permit-root-login: \"no\"}
- network:
    stack: STACK
    metadata-route: true
    interfaces:
    - mac: MAC
      name: wan0
      addresses: [10.0.2.15/24]
      gateway4: 10.0.2.2
      nameservers: [10.0.2.3]
      search: [example.org]
      mtu: 1400
      routes: [{to: 192.0.2.0/24, via: 10.0.2.9}]
- serial-console: {tty: ttyS0}
- kernel-arguments: {add: [panic=11]}
- sysctl: {vm.swappiness: \"17\"}
- modules: [dummy]
- fstab:
    add: [{device: scratch, path: /srv/scratch, type: tmpfs, options: \"size=1m,mode=0750\"}]
- units:
    write:
    - name: mark.service
      text: |
        [Unit]
        Description=Leaves a mark
        [Service]
        Type=oneshot
        RemainAfterExit=yes
        ExecStart=/bin/sh -c 'echo marked > /run/mark'
        [Install]
        WantedBy=multi-user.target
    enable: [mark.service]
    mask: [apt-daily.timer]
- cron: {name: tick, user: root, schedule: \"*/5 * * * *\", command: /bin/true}
- write: {path: /etc/motd, text: \"deployed\\n\", mode: 0640, owner: \"root:adm\"}
- firstboot: {name: hello, script: \"echo hello from $(hostname) >> /var/lib/hello\"}
";

/// What a shell in the guest says of it: a name, and the command whose output is its value.
const QUESTIONS: &[(&str, &str, &str)] = &[
    ("name", "hostname", "web1"),
    ("full name", "hostname --fqdn", "web1.example.org"),
    (
        "other host",
        "getent hosts db1.example.org",
        "192.0.2.5 db1.example.org",
    ),
    (
        "machine ID",
        "cat /etc/machine-id",
        "0123456789abcdef0123456789abcdef",
    ),
    (
        "time zone",
        "timedatectl show -p Timezone --value",
        "Europe/Berlin",
    ),
    (
        "user",
        "getent passwd ann",
        "ann:x:1234:1234:Ann Example:/home/ann:/bin/bash",
    ),
    ("groups", "id -Gn", "ann adm"),
    (
        "home",
        "stat -c '%a %U:%G' ~ ~/.ssh ~/.ssh/authorized_keys ~/.bashrc",
        "755 ann:ann 700 ann:ann 600 ann:ann 644 ann:ann",
    ),
    ("sudo", "echo $PASSWORD | sudo -S -p '' id -u", "0"),
    (
        "root",
        "echo $PASSWORD | sudo -S -p '' passwd -S root | cut -d' ' -f1,2",
        "root L",
    ),
    ("MAC", "cat /sys/class/net/wan0/address", MAC),
    (
        "address",
        "ip -4 -o address show dev wan0 | awk '{print $4}'",
        "10.0.2.15/24",
    ),
    ("MTU", "cat /sys/class/net/wan0/mtu", "1400"),
    (
        "gateway",
        "ip route show default | awk '{print $3, $5}'",
        "10.0.2.2 wan0",
    ),
    (
        "route",
        "ip route show 192.0.2.0/24 | awk '{print $3, $5}'",
        "10.0.2.9 wan0",
    ),
    (
        "metadata",
        "ip route get 169.254.169.254 | awk 'NR == 1 {print $1, $2, $3}'",
        "169.254.169.254 dev wan0",
    ),
    (
        "name server",
        "awk '$1 == \"nameserver\" {print $2}' /etc/resolv.conf",
        "10.0.2.3",
    ),
    (
        "search",
        "awk '$1 == \"search\" {print $2}' /etc/resolv.conf",
        "example.org",
    ),
    ("swappiness", "cat /proc/sys/vm/swappiness", "17"),
    ("module", "ls -d /sys/module/dummy", "/sys/module/dummy"),
    (
        "mount",
        "findmnt -n -o FSTYPE,OPTIONS /srv/scratch | grep -o 'tmpfs\\|size=[^,]*\\|mode=[^,]*'",
        "tmpfs size=1024k mode=750",
    ),
    (
        "unit",
        "systemctl is-active mark; cat /run/mark",
        "active marked",
    ),
    ("masked", "systemctl is-enabled apt-daily.timer", "masked"),
    (
        "file",
        "stat -c '%a %U:%G' /etc/motd; cat /etc/motd",
        "640 root:adm deployed",
    ),
    ("first boot", "cat /var/lib/hello", "hello from web1"),
    ("scripts left", "ls /usr/local/lib/diskfs/firstboot.d", ""),
    ("failed", "systemctl --failed --no-legend --plain", ""),
    (
        "console",
        "systemctl is-active serial-getty@ttyS0",
        "active",
    ),
];

/// A guest to be: an overlay on one of the images, with what one needs to get in.
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

    fn start(&self, start: Start<'_>) -> Result<Machine> {
        if let Start::Kernel { .. } = start {
            for name in ["vmlinuz", "initrd.img"] {
                let bytes = self.diskfs(&["cat", &format!("guest.qcow2:/{name}")])?;
                fs::write(self.at(name), bytes)?;
            }
        }
        Machine::start(&self.image(), self.work.path(), start)
    }
}

/// Deploys one of the images, starts it, and asks all questions, those of the start besides.
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

/// On the serial console, with the password.
fn log_in(machine: &mut Machine) -> Result<()> {
    machine.expect("web1 login: ")?;
    machine.type_line("ann")?;
    machine.expect("Password: ")?;
    machine.type_line(PASSWORD)?;
    // What is typed before that is thrown away.
    machine.expect("ann@web1:~$ ")?;
    // The sum is the shell's own: the terminal shows what is typed, too.
    machine.type_line("echo at $((40 + 2)) on $(tty)")?;
    machine.expect("at 42 on /dev/ttyS0")
}

/// By ssh, with the key: all questions in one session, and all wrong answers in one error.
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

/// What has no loader of its own has the kernel's command line from the machine.
const WITHOUT_LOADER: (&str, &str, &str) = (
    "kernel arguments",
    "grep -o 'console=[^ ]*' /proc/cmdline",
    "console=ttyS0,115200n8",
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
    ];
    check("uefi.raw", "auto", Start::Firmware, &own)
}

#[test]
fn debian_with_networkmanager_is_as_deployed() -> Result<()> {
    let start = Start::Kernel { root: "LABEL=root" };
    let own = [
        WITHOUT_LOADER,
        (
            "stack",
            "systemctl is-active NetworkManager; ls /etc/netplan",
            "active",
        ),
        (
            "connection",
            "nmcli -t -f DEVICE,STATE device | grep wan0",
            "wan0:connected",
        ),
    ];
    check("uefi.raw", "networkmanager", start, &own)
}
