//! Plans on hostile guests. An input has 8 bytes that select steps, a byte for each of [`PATHS`]
//! that selects a replacement for that path, and a tree in the format of Go's txtar.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use diskfs::deploy::{Deployment, Plan, Step};
use diskfs::{ErrorKind, Filesystem, WritableFilesystem};
use diskfs_block::BlockRead;
use diskfs_vfs::testing::{MemoryFs, WritableMemoryFs};
use diskfs_vfs::{
    Device, FileType, FsRead, FsWrite, InodeNumber, NewAttributes, NewKind, edit::make_dirs,
    edit::remove_tree, resolve_parent,
};

use crate::{Sparse, guest};

/// The maximum length of the tree. No seed is longer.
const TEXT_BYTES: u64 = 64 << 10;

const MASK_BYTES: usize = 8;

/// The paths that steps read.
const PATHS: [&str; 76] = [
    "/etc/docker/daemon.json",
    "/etc/passwd",
    "/etc/shadow",
    "/etc/group",
    "/etc/gshadow",
    "/etc/subuid",
    "/etc/login.defs",
    "/etc/default/useradd",
    "/etc/skel",
    "/etc/skel/.profile",
    "/etc/pam.d/common-password",
    "/etc/security/pwquality.conf",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssh/sshd_config",
    "/etc/ssh/sshd_config.d",
    "/etc/ssh/sshd_config.d/50-cloud-init.conf",
    "/root",
    "/root/.ssh",
    "/root/.ssh/authorized_keys",
    "/home",
    "/etc/fstab",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/sysconfig/network",
    "/etc/conf.d/hostname",
    "/etc/config/system",
    "/etc/config/network",
    "/etc/rc.conf",
    "/etc/resolv.conf",
    "/etc/netplan",
    "/etc/netplan/50-cloud-init.yaml",
    "/etc/network",
    "/etc/network/interfaces",
    "/etc/network/interfaces.d",
    "/etc/NetworkManager/system-connections",
    "/etc/NetworkManager/system-connections/eth0.nmconnection",
    "/etc/sysconfig/network-scripts",
    "/etc/sysconfig/network-scripts/ifcfg-eth0",
    "/etc/sysconfig/network/ifcfg-eth0",
    "/etc/systemd/network",
    "/etc/udev/rules.d",
    "/etc/default/grub",
    "/etc/kernel/cmdline",
    "/boot",
    "/boot/grub",
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
    "/boot/grub2/grubenv",
    "/boot/loader/entries",
    "/boot/loader/entries/a.conf",
    "/etc/selinux/config",
    "/etc/selinux/targeted/contexts/files/file_contexts",
    "/etc/os-release",
    "/usr/lib/os-release",
    "/etc/cloud",
    "/etc/cloud/cloud.cfg",
    "/etc/cloud/cloud.cfg.d",
    "/usr/lib/systemd/systemd",
    "/usr/lib/systemd/system",
    "/usr/lib/systemd/system/app.service",
    "/usr/lib/systemd/system/app.service.d",
    "/usr/lib/systemd/system-preset",
    "/etc/systemd/system",
    "/etc/systemd/system/multi-user.target.wants",
    "/etc/inittab",
    "/etc/securetty",
    "/etc/machine-id",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/etc/cron.d",
    "/var/lib/cloud",
    "/etc/apt/sources.list.d",
    "/swapfile",
    "/opt",
];

/// A step of each kind. No step reverts another, and none has random results.
const STEPS: &str = r##"steps:
- sysprep: [all, -machine-id, -random-seed, -ssh-hostkeys, -ssh-userdir, -cron-spool, -firewall-rules, -net-nmconn, -cloud-init, -dhcp-client-state, -package-manager-cache, -user-account, -net-hostname]
- ssh-host-keys: remove
- hostname: web1.example.org
- hosts: [{address: 127.0.1.1, names: [web1.example.org, web1]}, {address: "2001:db8::1", names: [six]}]
- machine-id: reset
- random-seed: remove
- timezone: Europe/Berlin
- locale: de_DE.UTF-8
- resolver: {nameservers: [192.0.2.53], search: [example.org], replace: true}
- fstab: {add: [{device: UUID=2, path: /srv/data, type: ext4, options: nofail}, {device: /dev/x, path: none, type: swap}], remove: [/mnt*]}
- sysctl: {net.ipv4.ip_forward: "1"}
- kernel-arguments: {add: [quiet, console=ttyS1, "a=b"], remove: [rhgb, splash]}
- serial-console: {tty: ttyS0}
- certificate: {name: mine, pem: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"}
- cron: {name: job, schedule: "@daily", command: "true"}
- modules: [dummy, loop]
- units: {write: [{name: mine.service, text: "[Install]\nWantedBy=multi-user.target\n"}], enable: [mine]}
- units: {unmask: [masked.service], enable: [app, app@.service], disable: [off]}
- units: {mask: [never.socket]}
- units: {preset: [ssh.service]}
- firstboot: {name: hello, script: echo hello}
- firstboot: {script: echo more}
- cloud-init: {enabled: false, clean: true}
- cloud-init: {seed: {user-data: "#cloud-config\n", network-config: "version: 2\n"}}
- selinux: {mode: permissive, relabel: true}
- network: {interfaces: [{mac: "52:54:00:12:34:56", addresses: [192.0.2.9/24, "2001:db8::9/64"], gateway4: 192.0.2.1, nameservers: [192.0.2.53]}]}
- user: {name: ann, password: {text: secret}, groups: [users], sudo: nopasswd, ssh-keys: [KEY]}
- user: {name: system, system: true, home: /var/lib/system, shell: /bin/bash}
- root-password: {hash: "$6$saltsalt$abcdefghijkl"}
- password: {user: daemon, locked: true}
- password: {user: bin, disabled: true, expire: true}
- ssh-key: {user: root, keys: [KEY], exclusive: true}
- sshd: {permit-root-login: prohibit-password, port: 2222, options: {X11Forwarding: false}}
- sudoers: {name: extra, text: "%adm ALL=(ALL) ALL"}
- write: {path: /etc/motd, text: "hello\n", mode: 0640, owner: "root:adm"}
- write: {path: /opt/a/b/c, text: "x"}
- append: {path: /etc/profile, text: "umask 077\n"}
- json: {path: /etc/docker/daemon.json, merge: {mtu: 1450, log-opts: {max-size: 2m}, debug: null}}
- write: {path: /etc/gai.conf, text: "x", only-if-missing: true}
- upload: {from: HERE/Cargo.toml, to: /srv/}
- copy-in: {from: HERE/fuzz_targets, to: /opt}
- mkdir: {path: /var/lib/app/data, mode: 0700}
- link: {path: /usr/local/bin/app, target: ../../opt/app}
- delete: "/var/cache/*"
- permissions: {path: /etc/issue, mode: 0600}
- udev: {write: {90-mine.rules: "ACTION==\"add\"\n"}, names: {"52:54:00:12:34:57": lan0}}
- repository: {name: mine, url: "https://example.org/", suites: [stable], components: [main], unsigned: true}
- template: {path: /etc/motd.d/mine, text: "{{ guest.hostname }} {{ x }}\n", vars: {x: 5}}
- agent: {preset: qemu-guest-agent, binary: HERE/Cargo.toml}
- swap: {file: /swapfile, size: 64K, uuid: 8ea0c1ae-6a5c-4b5a-9f4e-0123456789ab}
- tar: {from: HERE/src/deploy/small.tar, to: /opt/small}
- cloud-init: {user-data: "#cloud-config\nwrite_files: [{path: /etc/x, content: y}]\nssh-authorized-keys: [KEY]\nruncmd: [[ls, -l]]\n"}
"##;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHw5jFmJ8u0oD5nB6wQ1zvO7pV0cY8aJ1mWq2xT3rKfL a@b";

static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let text = STEPS.replace("KEY", KEY);
    let text = text.replace("HERE", env!("CARGO_MANIFEST_DIR"));
    Plan::parse(&text).expect("the plan is valid")
});

/// The replacement for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hostile {
    Nothing,
    File(&'static [u8]),
    Huge,
    Directory,
    Symlink(&'static str),
    Fifo,
    Device,
}

impl Hostile {
    const ALL: [Self; 16] = [
        Self::Nothing,
        Self::File(b""),
        Self::File(b"\xff\xfe\0:\xe4=\n::\n\n[\n"),
        Self::File(b"no end of line"),
        Self::Huge,
        Self::Directory,
        Self::Fifo,
        Self::Device,
        Self::Symlink("."),
        Self::Symlink(".."),
        Self::Symlink("/"),
        Self::Symlink("/etc/passwd"),
        Self::Symlink("../../../../../../etc/shadow"),
        Self::Symlink("/etc/hosts"),
        Self::Symlink("/nowhere/at/all"),
        Self::Symlink("/usr/lib/systemd/system"),
    ];

    /// Returns the replacement that a byte selects. Most bytes select none.
    fn of(byte: u8) -> Option<Self> {
        let at = usize::from(byte).checked_sub(1)?;
        Self::ALL.get(at).copied()
    }
}

/// Applies a plan of the steps that can be prepared, and checks that a second run changes nothing.
pub(crate) fn plan(device: &Arc<dyn BlockRead>) {
    let Some((chosen, fs)) = read(device) else {
        return;
    };
    let fs = Arc::new(fs);
    let reader = || {
        let reader = Arc::clone(&fs) as Arc<dyn FsRead>;
        Filesystem::new(reader, Path::new("guest.img"), "p1")
    };
    let mut plan = Plan { steps: Vec::new() };
    for step in chosen {
        let alone = Plan { steps: vec![step] };
        if Deployment::prepare(reader(), &alone).is_ok() {
            plan.steps.extend(alone.steps);
        }
    }
    // A step may conflict with another.
    let Ok(deployment) = Deployment::prepare(reader(), &plan) else {
        return;
    };
    if deployment.diff().is_err() {
        return;
    }
    let writer = Arc::clone(&fs) as Arc<dyn FsWrite>;
    let target = WritableFilesystem::new(writer, Path::new("guest.img"), "p1");
    deployment
        .apply(&target)
        .expect("a prepared plan can be applied");
    let again = match Deployment::prepare(reader(), &plan) {
        Ok(again) => again,
        // A dangling symlink gets its target created: a directory where another step needs a file,
        // or the other way round.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::IsADirectory | ErrorKind::NotADirectory
            ) =>
        {
            return;
        }
        Err(error) => panic!("cannot apply the plan a second time: {error}"),
    };
    let changes = again.changes().expect("written files can be read");
    let diff = again.diff().unwrap_or_default();
    assert!(
        changes.is_empty(),
        "the second run of {:?} changed {}",
        again.steps().iter().find(|step| !step.changed.is_empty()),
        String::from_utf8_lossy(&diff)
    );
}

/// Parses an input into steps and a guest.
fn read(device: &Arc<dyn BlockRead>) -> Option<(Vec<Step>, WritableMemoryFs)> {
    let len = device.size_bytes().min(TEXT_BYTES);
    let mut input = vec![0; usize::try_from(len).ok()?];
    device.read_at(0, &mut input).ok()?;
    let (mask, rest) = input.split_first_chunk::<MASK_BYTES>()?;
    let (places, text) = rest.split_at_checked(PATHS.len())?;
    let mask = u64::from_le_bytes(*mask);
    let steps = PLAN.steps.iter().zip(0_u32..);
    let steps = steps.filter(|(_, at)| mask.checked_shr(*at).unwrap_or(0) & 1 == 1);
    let steps = steps.map(|(step, _)| step.clone()).collect();
    let fs = WritableMemoryFs::new();
    let tree = MemoryFs::of_txtar(&String::from_utf8_lossy(text));
    copy(&tree, tree.root(), &fs, fs.root());
    for (path, byte) in PATHS.iter().zip(places) {
        if let Some(hostile) = Hostile::of(*byte) {
            put(&fs, path, hostile);
        }
    }
    Some((steps, fs))
}

const ATTRIBUTES: NewAttributes = NewAttributes {
    permissions: 0o755,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// Copies a tree. Files that do not fit are skipped.
fn copy(from: &MemoryFs, dir: InodeNumber, to: &WritableMemoryFs, to_dir: InodeNumber) {
    let entries = from.read_dir(dir, 0).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| !matches!(&*entry.name, b"." | b"..")) {
        let inode = entry.inode;
        let target = from.read_link(inode).unwrap_or_default();
        let kind = match entry.file_type {
            Some(FileType::Directory) => NewKind::Directory,
            Some(FileType::Symlink) => NewKind::Symlink(&target),
            _ => NewKind::Regular,
        };
        let Ok(made) = to.create(to_dir, &entry.name, kind, &ATTRIBUTES) else {
            continue;
        };
        if kind == NewKind::Directory {
            copy(from, inode, to, made);
        } else if kind == NewKind::Regular {
            let size = from.metadata(inode).map_or(0, |it| it.size_bytes);
            let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
            let _ = from.read_at(inode, 0, &mut bytes);
            let _ = to.write_at(made, 0, &bytes);
        }
    }
}

/// Puts a replacement at a path, if possible.
fn put(fs: &WritableMemoryFs, path: &str, hostile: Hostile) {
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    let above = if above.is_empty() { "/" } else { above };
    if make_dirs(fs, above.as_bytes(), &ATTRIBUTES, &mut |_| {}).is_err() {
        return;
    }
    let _ = remove_tree(fs, path.as_bytes(), &mut |_| ControlFlow::Continue(()));
    let Ok((dir, name)) = resolve_parent(fs, path) else {
        return;
    };
    let device = Device { major: 1, minor: 5 };
    let kind = match hostile {
        Hostile::Nothing => return,
        Hostile::File(_) | Hostile::Huge => NewKind::Regular,
        Hostile::Directory => NewKind::Directory,
        Hostile::Symlink(target) => NewKind::Symlink(target.as_bytes()),
        Hostile::Fifo => NewKind::Fifo,
        Hostile::Device => NewKind::CharacterDevice(device),
    };
    let Ok(inode) = fs.create(dir, &name, kind, &ATTRIBUTES) else {
        return;
    };
    let _ = match hostile {
        Hostile::File(bytes) => fs.write_at(inode, 0, bytes).map(|_| ()),
        Hostile::Huge => fs.set_len(inode, 10 << 30),
        _ => Ok(()),
    };
}

/// Returns some of the trees of the `inspect` tests, and one tree in which all steps can be
/// applied, combined with each replacement at each path.
pub(crate) fn seeds() -> Vec<(String, Sparse)> {
    let trees = guest::seeds().into_iter().step_by(4).map(|(name, tree)| {
        let bytes: Vec<u8> = (0..tree.size_bytes()).map(|at| tree.byte(at)).collect();
        (name, input(u64::MAX, [0; PATHS.len()], &bytes))
    });
    let whole = include_bytes!("deploy/whole.txtar");
    let of_whole = |mask, places| input(mask, places, whole);
    let all = ("all steps".to_owned(), of_whole(u64::MAX, [0; PATHS.len()]));
    let hostile = (1_u8..).zip(Hostile::ALL).map(|(byte, hostile)| {
        // Each replacement at a path in 16 and at one other path. Replaced parents hide their
        // children.
        let mut places = [0; PATHS.len()];
        for place in places
            .iter_mut()
            .skip(byte.into())
            .step_by(Hostile::ALL.len())
        {
            *place = byte;
        }
        (format!("{hostile:?}"), of_whole(u64::MAX, places))
    });
    trees.chain([all]).chain(hostile).collect()
}

fn input(mask: u64, places: [u8; PATHS.len()], tree: &[u8]) -> Sparse {
    let parts = [&mask.to_le_bytes()[..], &places, tree];
    let mut input = Sparse::zeroes(parts.iter().map(|part| part.len() as u64).sum());
    let mut at = 0;
    for part in parts {
        input.write(at, part);
        at += part.len() as u64;
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_steps_can_be_done() {
        let seeds = seeds();
        assert!(seeds.iter().all(|(_, seed)| seed.size_bytes() < TEXT_BYTES));
        let (_, seed) = seeds
            .into_iter()
            .find(|(name, _)| name == "all steps")
            .unwrap();
        let device: Arc<dyn BlockRead> = Arc::new(seed);
        let (steps, fs) = read(&device).unwrap();
        assert_eq!(steps.len(), PLAN.steps.len());
        let reader = Filesystem::new(Arc::new(fs), Path::new("guest.img"), "p1");
        let deployment = Deployment::prepare(reader, &PLAN).unwrap();
        let steps = deployment.steps().iter().take(PLAN.steps.len());
        let idle: Vec<_> = steps.filter(|step| step.changed.is_empty()).collect();
        assert!(idle.is_empty(), "{idle:?}");
        plan(&device);
    }
}
