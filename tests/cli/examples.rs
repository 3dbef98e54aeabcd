//! The examples of the help texts, the man pages and README, run literally.
//!
//! The examples of each command run one after another in a directory that has the files they name.
//! Absolute host paths are rewritten to paths below that directory. Examples that need a microVM or
//! a running virtual machine are only parsed, by the program's own unit test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use diskfs_fixtures::{require, require_fuse, require_root};

use crate::{DISKFS, diskfs_in};

/// The guest's files that examples name.
const TREE: &[(&str, &str)] = &[
    ("bin/ping", "ELF\n"),
    ("bin/sh", "ELF\n"),
    ("etc/fstab", "LABEL=root / ext4 defaults 0 1\n"),
    ("etc/group", "root:x:0:\nwww-data:x:33:\nme:x:1000:\n"),
    ("etc/hostname", "guest\n"),
    ("etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\tguest\n"),
    ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    ("etc/motd", "Hello\n"),
    ("etc/app.conf", "a=1\n"),
    (
        "etc/network/interfaces",
        "auto lo\niface lo inet loopback\n",
    ),
    (
        "etc/os-release",
        "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian\"\n",
    ),
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/srv:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n",
    ),
    ("etc/resolv.conf", "nameserver 127.0.0.1\n"),
    (
        "etc/shadow",
        "root:*:19000:0:99999:7:::\nme:*:19000:0:99999:7:::\n",
    ),
    ("etc/ssh/sshd_config", "PermitRootLogin no\n"),
    ("etc/sudoers.d/admin", "me ALL=(ALL) ALL\n"),
    ("home/a", "a\n"),
    ("home/b", "password secret\n"),
    ("home/me/letter", "x\n"),
    ("root/.ssh/known_hosts", "\n"),
    ("opt/x", "x\n"),
    ("srv/homes/x", "x\n"),
    ("srv/www/index.html", "x\n"),
    ("swapfile", ""),
    ("usr/bin/true", "ELF\n"),
    ("usr/sbin/dhclient", "ELF\n"),
    ("usr/sbin/ifup", "ELF\n"),
    ("usr/lib/modules/6.1/x.ko", "ELF\n"),
    ("usr/lib/systemd/systemd", "ELF\n"),
    (
        "usr/lib/systemd/system/ssh.service",
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
    ),
    (
        "var/lib/dpkg/status",
        "Package: base-files\nStatus: install ok installed\nVersion: 12\nArchitecture: amd64\n\n",
    ),
    ("var/cache/apt/archives/x.deb", "x\n"),
    (
        "var/log/apt/history.log",
        "Start-Date: 2024-02-01  12:00:00\n",
    ),
    (
        "var/log/auth.log",
        "Feb  1 12:00:00 guest sshd[1]: failed from 10.0.0.1\n",
    ),
    (
        "var/log/syslog",
        "Feb  1 12:00:00 guest kernel: Out of memory\n",
    ),
    (
        "var/log/kern.log",
        "Feb  1 12:00:00 guest kernel: Out of memory\n",
    ),
    ("var/log/wtmp", ""),
    ("vmlinuz", "kernel\n"),
];

/// Journal files, for `-b` and `-p`.
const JOURNAL: &str = "var/log/journal/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/system.journal";

/// The names that examples use for a guest's disk.
const GUESTS: &[&str] = &[
    "a.img",
    "after.qcow2",
    "base.qcow2",
    "before.qcow2",
    "debian.qcow2",
    "disk.qcow2",
    "new-base.qcow2",
    "system.qcow2",
    "srv/images/one.qcow2",
    "images/base.qcow2",
];

/// The host paths that examples name; they are rewritten to paths below the scratch directory.
const HOST: &[&str] = &[
    "/mnt",
    "/srv/images",
    "/etc/bash_completion.d",
    "/usr/local/share",
    "/backup/",
    "/tmp/guest/",
    "/target",
];

/// Words of the examples that can't be run here.
const ELSEWHERE: &[&str] = &[
    // These need a microVM; tests/vm runs them.
    "diskfs appliance",
    "diskfs check",
    "rootfs.tar.zst",
    "alpine.tar",
    "p2 data.raw",
    "diskfs resize",
    "diskfs run",
    "--vm ",
    "mkfs xfs",
    "fedora",
    // These need LVM, or run until they are stopped: tests/oracle, tests/cli/export.rs,
    // tests/cli/hotplug.rs, tests/cli/browse.rs, tests/serve.
    "vg0/",
    "diskfs browse",
    "diskfs export",
    "diskfs hotplug",
    "diskfs serve",
    "qemu-system",
    // A terminal: tests/cli/encrypting.rs.
    "--encrypt ask",
    "--key-add",
    // These need a server: tests/cli/remote.rs has one.
    "nbd://",
    "https://",
    "s3://",
    "oci://",
    "nbd+unix://",
];

fn bash(directory: &Path, script: &str) -> Output {
    let program = Path::new(DISKFS).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let own = directory.join("bin");
    // An example that does not end is an error, not a test that stands still.
    Command::new("timeout")
        .args(["300", "bash", "-o", "pipefail", "-c", script])
        .current_dir(directory)
        .env(
            "PATH",
            format!(
                "{}:{}:{path}:/usr/sbin:/sbin",
                program.display(),
                own.display()
            ),
        )
        .env("HOME", directory.join("home"))
        .env("EDITOR", "true")
        .env("DISKFS_VM", "none")
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

fn must(directory: &Path, script: &str) {
    let output = bash(directory, script);
    assert!(output.status.success(), "{script}: {output:?}");
}

fn unpacked(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    zstd::decode_all(fs::File::open(path).unwrap()).unwrap()
}

fn write(directory: &Path, path: &str, bytes: &[u8]) {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Makes a directory with everything that examples name.
fn scene() -> tempfile::TempDir {
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    for (path, text) in TREE {
        write(&at.join("tree"), path, text.as_bytes());
    }
    let journal = unpacked("files/journal/tests/fixtures/three-boots.journal.zst");
    write(&at.join("tree"), JOURNAL, &journal);
    write(
        at,
        "VARS.fd",
        &unpacked("files/varstore/tests/stores/mixed.fd.zst"),
    );
    for (path, text) in [
        ("etc/hostname", "guest\n"),
        ("fstab", "LABEL=root / ext4 defaults 0 1\n"),
        (
            "key.pub",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0hxGYvvJmyyTBhVvpnLhJ1f5Jp5VYMXVIoyDZOA6Zo me\n",
        ),
        ("keys", "ssh-ed25519 AAAA me\n"),
        ("key", "a passphrase"),
        ("user-data", "#cloud-config\npackages: [nginx]\n"),
        ("meta-data", "instance-id: i-1\n"),
        ("unattend.xml", "<unattend/>\n"),
        ("answers.xml", "<unattend/>\n"),
        ("plan.yaml", "steps:\n- hostname: web1\n"),
        ("changes.txt", "mkdir /srv/new\nls -l /srv\n"),
        (
            "disk.yaml",
            "partitions: [{size: 16M, filesystem: {type: ext4, mount: /}}]\n\
             sources: [{text: x, to: /etc/motd}]\n",
        ),
        (
            "encrypted.yaml",
            "partitions: [{size: 32M, luks: {name: cryptroot, pbkdf: {pbkdf2: {iterations: 1000}}, \
             filesystem: {type: ext4, mount: /}}}]\n\
             sources: [{text: x, to: /etc/motd}]\n",
        ),
        (
            "jobs.jsonl",
            "{\"image\": \"disk.qcow2\", \"plan\": {\"steps\": [{\"hostname\": \"web2\"}]}}\n",
        ),
        ("secret", "secret\n"),
        ("site/index.html", "x\n"),
        ("app/run", "x\n"),
    ] {
        write(at, path, text.as_bytes());
    }
    for path in HOST
        .iter()
        .map(|path| &path[1..])
        .chain(["home/mnt", "home/.zfunc", "images"])
    {
        fs::create_dir_all(at.join(path)).unwrap();
    }
    must(
        at,
        "set -e
        truncate -s 48M guest.raw
        printf 'label: gpt\\n1MiB 7MiB U\\n8MiB - L\\n' | sed 's/^\\([0-9]*MiB\\) \\([^ ]*\\) /start=\\1, size=\\2, type=/; s/size=-, //' |
            sfdisk -q guest.raw
        setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 tree/bin/ping
        qemu-img convert -O qcow2 guest.raw blank.qcow2
        mke2fs -q -t ext4 -L root -d tree -E offset=8388608 guest.raw 39m
        diskfs mkfs fat --label ESP --volume p1 guest.raw > /dev/null
        diskfs xattr set user.comment x guest.raw:/etc/motd
        qemu-img convert -O qcow2 guest.raw guest.qcow2
        for name in before s1 s2; do diskfs snapshot create guest.qcow2 $name > /dev/null; done
        qemu-img create -q -f qcow2 data.qcow2 8M
        diskfs mkfs fat --label DATA data.qcow2 > /dev/null
        tar -C site -czf site.tar.gz .
        tar -C site -cf - . | zstd -q > root.tar.zst
        cp root.tar.zst layer.tar.zst
        rm -r tree guest.raw
        mkdir -p tree bin && echo x > tree/x
        printf '#!/bin/sh\\n' > bin/nano && chmod +x bin/nano",
    );
    scene
}

/// Copies the directory, with a disk under each name; files that the examples of `create` make are
/// omitted.
fn copy_of(scene: &Path, script: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let at = copy.path();
    must(
        scene,
        &format!("cp -a --sparse=always . '{}'", at.display()),
    );
    for name in GUESTS {
        if script.contains(name.rsplit('/').next().unwrap()) || name.contains("images/") {
            fs::copy(at.join("guest.qcow2"), at.join(name)).unwrap();
        }
    }
    if script.contains("mkfs fat --label ESP") {
        fs::copy(at.join("blank.qcow2"), at.join("disk.qcow2")).unwrap();
    }
    if script.contains("b.img") {
        fs::copy(at.join("guest.qcow2"), at.join("b.img")).unwrap();
        must(at, "echo other | diskfs write b.img:/etc/hostname");
    }
    if script.contains("../images/") {
        // The examples run in a directory beside them.
        fs::create_dir(at.join("here")).unwrap();
    }
    if script.contains("overlay.qcow2") {
        must(
            at,
            "cp images/base.qcow2 base.qcow2 && diskfs create -b base.qcow2 -F qcow2 overlay.qcow2",
        );
    }
    if script.contains("oci-layout:web") && !script.contains("oci build") {
        must(
            at,
            "diskfs oci build guest.qcow2 -o web --tag 41 --path /disk/debian.qcow2",
        );
    }
    if script.contains("disk.raw") {
        must(at, "qemu-img convert -O raw guest.qcow2 disk.raw");
    }
    if script.contains("mount disk.img") {
        fs::copy(at.join("data.qcow2"), at.join("disk.img")).unwrap();
    }
    copy
}

/// Extracts the examples from a text of `--help`.
fn in_help(text: &str) -> Vec<String> {
    let mut examples: Vec<String> = Vec::new();
    let mut is_example = false;
    for line in text.lines() {
        match line {
            "Example:" | "Examples:" => is_example = true,
            _ if line.starts_with("  ") && is_example => examples.push(line.trim().to_owned()),
            _ => is_example = false,
        }
    }
    examples
}

/// Extracts the examples from README.
fn in_readme() -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ "));
    let lines = lines.map(|line| line.split(" #").next().unwrap_or(line).trim().to_owned());
    lines.filter(|line| line.contains("diskfs ")).collect()
}

/// Writes the man pages to the directory, and returns their paths.
fn pages(directory: &Path) -> Vec<PathBuf> {
    diskfs_in(directory, &["man", "pages"]).bytes();
    let mut pages: Vec<PathBuf> = fs::read_dir(directory.join("pages"))
        .unwrap()
        .map(|page| page.unwrap().path())
        .filter(|page| page.extension().is_some_and(|section| section == "1"))
        .collect();
    pages.sort();
    pages
}

/// Rewrites host paths to paths below the scratch directory.
fn here(example: &str, directory: &Path) -> String {
    let mut script = example.to_owned();
    for path in HOST {
        for before in [" ", "> "] {
            let there = format!("{before}{path}");
            script = script.replace(&there, &format!("{before}{}{path}", directory.display()));
        }
    }
    script.replace("../images/", "images/")
}

/// Runs examples one after another, and records failures with their output.
fn run(scene: &Path, examples: &[String], wrong: &Mutex<Vec<String>>) {
    let copy = copy_of(scene, &examples.join("\n"));
    let at = copy.path();
    for example in examples {
        let is_mount = ["diskfs mount", "diskfs umount", "fusermount3"];
        let is_mount = is_mount.iter().any(|words| example.contains(words));
        let is_mount = is_mount && !example.contains("--explain");
        if ELSEWHERE.iter().any(|words| example.contains(words)) {
            continue;
        }
        if is_mount && require_fuse().is_none() {
            continue;
        }
        if example.contains("diskfs create ") {
            for name in ["disk.img", "disk.qcow2", "overlay.qcow2"] {
                if example.contains(&format!("create {name}")) || example.ends_with(name) {
                    let _ = fs::remove_file(at.join(name));
                }
            }
        }
        if example.contains("umount ") || example.contains("fusermount3") {
            must(
                at,
                "test -e debian.qcow2 || cp guest.qcow2 debian.qcow2; diskfs mount debian.qcow2 mnt",
            );
        }
        let script = here(example, at);
        let reads = example.contains('|') || example.contains("< ");
        let input = if reads { "" } else { " < /dev/null" };
        let output = bash(at, &format!("{script}{input}"));
        if is_mount {
            bash(
                at,
                "for dir in mnt home/mnt; do mountpoint -q $dir && fusermount3 -uz $dir; done; true",
            );
        }
        // diff(1) and `diskfs diff` exit with 1 if they find a difference.
        let differs = output.status.code() == Some(1) && example.contains("diff ");
        if !output.status.success() && !differs {
            let told = String::from_utf8_lossy(&output.stderr);
            wrong
                .lock()
                .unwrap()
                .push(format!("{example}: {}: {told}", output.status));
        }
    }
}

#[test]
fn every_example_works() {
    let tools = [
        "bash", "jq", "mke2fs", "patch", "qemu-img", "setfattr", "sfdisk", "zstd",
    ];
    // Only root can set owners and security attributes.
    if tools.iter().any(|tool| require(tool).is_none()) || require_root().is_none() {
        return;
    }
    let scene = scene();
    let mut groups: Vec<Vec<String>> = Vec::new();
    let written = tempfile::tempdir().unwrap();
    for page in pages(written.path()) {
        let name = page.file_stem().unwrap().to_str().unwrap();
        let roff = fs::read_to_string(&page).unwrap();
        let roff = roff.replace("\\*(Aq", "'").replace('\\', "");
        let words = match name.split_once('-') {
            None => vec!["--help"],
            Some((_, command)) => command_of(command),
        };
        let examples = in_help(&diskfs_in(written.path(), &words).text());
        for example in &examples {
            let plain = example.replace('\\', "");
            assert!(roff.contains(&plain), "{name} lacks: {example}");
        }
        groups.push(examples);
    }
    let all: usize = groups.iter().map(Vec::len).sum();
    assert!(all > 100, "{all} examples are too few");
    groups.extend(in_readme().into_iter().map(|example| vec![example]));
    let wrong = Mutex::new(Vec::new());
    let next = Mutex::new(groups.iter());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let group = next.lock().unwrap().next();
                    let Some(group) = group else { break };
                    run(scene.path(), group, &wrong);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the words of a command: `tar-in` and `qemu-img` are one word, `snapshot-create` two.
fn command_of(name: &str) -> Vec<&str> {
    let mut words: Vec<&str> = match name {
        "tar-in" | "qemu-img" => vec![name],
        _ => match name.split_once('-') {
            Some((command, action)) => vec![command, action],
            None => vec![name],
        },
    };
    if let Some(("build", what)) = words.last().and_then(|action| action.split_once('-')) {
        words.pop();
        words.extend(["build", what]);
    }
    words.push("--help");
    words
}

#[test]
fn the_plan_of_the_page_is_one() {
    if require("mke2fs").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for (path, text) in TREE {
        write(&at.join("tree"), path, text.as_bytes());
    }
    symlink("usr/lib", at.join("tree/lib")).unwrap();
    must(at, "mke2fs -q -t ext4 -d tree disk.img 32M");
    diskfs_in(at, &["man", "."]).bytes();
    let page = fs::read_to_string(at.join("diskfs-plan.5"))
        .unwrap()
        .replace("\\-", "-");
    let page = page.replace("\\\\", "\\").replace("\\e", "\\");
    let (_, example) = page.split_once(".nf\n").unwrap();
    let (example, _) = example.split_once(".fi").unwrap();
    write(at, "plan.yaml", example.as_bytes());
    diskfs_in(
        at,
        &["deploy", "disk.img", "--plan", "plan.yaml", "--dry-run"],
    )
    .bytes();
}
