//! `diskfs deploy`, checked with e2fsck and the tools that read the changed files.

mod filesystems;
mod fs_uuids;
mod judged;
mod together;
mod untouched;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use diskfs_fixtures::require;
use serde_json::Value;
use tempfile::TempDir;

use crate::{Run, diskfs_in, text_of};

/// The files of a small Debian that plans need.
const TREE: &[(&str, &str)] = &[
    ("/etc/hostname", "old\n"),
    ("/etc/hosts", "127.0.0.1\tlocalhost\n127.0.1.1\told\n"),
    ("/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n"),
    ("/etc/fstab", "# x\nUUID=1 / ext4 defaults 0 1\n"),
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"),
    ("/etc/group", "root:x:0:\nstaff:x:50:\n"),
    ("/etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    ("/usr/share/zoneinfo/Europe/Berlin", "TZif\n"),
    ("/usr/lib/systemd/systemd", "ELF\n"),
    (
        "/usr/lib/systemd/system/ssh.service",
        "[Unit]\nDescription=SSH\n[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nAlias=sshd.service\n",
    ),
    (
        "/usr/lib/systemd/system/app@.service",
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nDefaultInstance=main\nAlso=app.timer\n",
    ),
    (
        "/usr/lib/systemd/system/app.timer",
        "[Timer]\nOnBootSec=1\n[Install]\nRequiredBy=timers.target\n",
    ),
    (
        "/usr/lib/systemd/system/off.service",
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
    ),
];

/// A directory with a guest, `disk.img`, made from the directory `tree`.
struct Guest(TempDir);

impl Guest {
    fn new() -> Option<Self> {
        require("mke2fs")?;
        require("e2fsck")?;
        let guest = Self(tempfile::tempdir().unwrap());
        for (path, text) in TREE {
            let path = guest.at("tree").join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let wants = guest.at("tree/etc/systemd/system/multi-user.target.wants");
        fs::create_dir_all(&wants).unwrap();
        let target = "/usr/lib/systemd/system/off.service";
        std::os::unix::fs::symlink(target, wants.join("off.service")).unwrap();
        let made = diskfs_fixtures::command("mke2fs")
            .args(["-q", "-t", "ext4", "-d"])
            .args([guest.at("tree"), guest.at("disk.img")])
            .arg("64M")
            .status();
        assert!(made.unwrap().success());
        Some(guest)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn diskfs(&self, words: &[&str]) -> Run {
        diskfs_in(self.0.path(), words)
    }

    fn cat(&self, path: &str) -> String {
        self.diskfs(&["cat", &format!("disk.img:{path}")]).text()
    }

    fn is_right(&self) {
        let fsck = diskfs_fixtures::command("e2fsck")
            .args(["-f", "-n"])
            .arg(self.at("disk.img"))
            .output();
        let fsck = fsck.unwrap();
        assert!(fsck.status.success(), "{fsck:?}");
    }
}

const PLAN: &str = "steps:
- hostname: web1
- hosts:
  - {address: 127.0.1.1, names: [web1.example.org, web1]}
- timezone: Europe/Berlin
- machine-id: reset
- fstab:
    add: [{device: UUID=2, path: /data, type: ext4, options: nofail}]
- write: {path: /etc/motd, text: \"Welcome\\n\", mode: 0640, owner: \"root:staff\"}
- firstboot: {name: hello, script: echo hello}
";

#[test]
fn a_plan_is_shown_applied_and_done() {
    let Some(guest) = Guest::new() else { return };
    fs::write(guest.at("plan.yaml"), PLAN).unwrap();
    let before = fs::read(guest.at("disk.img")).unwrap();
    let words = ["deploy", "disk.img", "--plan", "plan.yaml"];
    let shown = guest.diskfs(&[&words[..], &["--dry-run"]].concat()).text();
    for part in [
        "changed /etc/hostname (contents)\n--- a/etc/hostname\n+++ b/etc/hostname\n@@ -1 +1 @@\n-old\n+web1\n",
        "created /data (directory, 0755, 0:0)\n",
        "created /etc/localtime (symlink to ../usr/share/zoneinfo/Europe/Berlin, 0777, 0:0)\n",
        "created /etc/motd (file, 0640, 0:50)\n",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(fs::read(guest.at("disk.img")).unwrap() == before);

    let told = guest.diskfs(&words).text();
    assert!(
        told.contains("hostname: /etc/hostname, /etc/hosts\n"),
        "{told}"
    );
    guest.is_right();
    assert_eq!(guest.cat("/etc/hostname"), "web1\n");
    let hosts = "127.0.0.1\tlocalhost\n127.0.1.1\tweb1.example.org web1\n";
    assert_eq!(guest.cat("/etc/hosts"), hosts);
    let fstab = "# x\nUUID=1 / ext4 defaults 0 1\nUUID=2 /data ext4 nofail 0 0\n";
    assert_eq!(guest.cat("/etc/fstab"), fstab);
    let stat = guest
        .diskfs(&["stat", "--json", "disk.img:/etc/motd"])
        .json();
    let entry = &stat["entries"][0];
    assert_eq!(
        (&entry["mode"], &entry["gid"]),
        (&"0640".into(), &50.into())
    );

    let again = guest.diskfs(&words).text();
    let done = again
        .lines()
        .filter(|line| line.ends_with(": nothing to do"));
    assert_eq!(done.count(), 7, "{again}");
    let again = guest.diskfs(&[&words[..], &["--dry-run", "--json"]].concat());
    let again = again.json();
    assert_eq!(text_of(&again["guests"][0]["diff"]), "");
}

#[test]
fn what_can_not_be_done_changes_nothing() {
    let Some(guest) = Guest::new() else { return };
    let large = guest.at("large");
    fs::File::create(&large).unwrap().set_len(80 << 20).unwrap();
    let before = fs::read(guest.at("disk.img")).unwrap();
    for (words, code, part) in [
        (
            &["--hostname", "new", "--chmod", "0600:/none"][..],
            3,
            "step 2 of the plan (permissions)",
        ),
        (
            &["--hostname", "new", "--upload", "large:/srv/"],
            1,
            "the plan needs",
        ),
        (
            &["--hostname", "new", "--write", "/etc/hostname/x:y"],
            1,
            "not a directory",
        ),
        (&["--run-command", "id"], 2, "--firstboot-command"),
        (&[], 2, "no step is given"),
    ] {
        let run = guest.diskfs(&[&["deploy", "disk.img"][..], words].concat());
        let (found, stderr) = run.failure();
        assert_eq!(found, code, "{stderr}");
        assert!(stderr.contains(part), "{stderr}");
        assert!(fs::read(guest.at("disk.img")).unwrap() == before);
    }
}

/// Returns the symlinks below a directory, with their targets.
fn links(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(here) = dirs.pop() {
        for entry in fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            if let Ok(target) = fs::read_link(&path) {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap();
                found.insert(name.to_owned(), target);
            } else if path.is_dir() {
                dirs.push(path);
            }
        }
    }
    found
}

#[test]
fn units_are_as_systemctl_has_them() {
    let Some(guest) = Guest::new().filter(|_| require("systemctl").is_some()) else {
        return;
    };
    let steps = "steps: [{units: {enable: [ssh, app@.service, app@two.service], disable: [off], mask: [never.socket]}}]";
    fs::write(guest.at("plan.yaml"), steps).unwrap();
    let words = ["deploy", "disk.img", "--plan", "plan.yaml"];
    guest.diskfs(&words).text();
    let copy = ["cp", "-r", "disk.img:/etc/systemd/system", "ours"];
    guest.diskfs(&copy).text();
    let root = format!("--root={}", guest.at("tree").display());
    for words in [
        &["enable", "ssh.service", "app@.service", "app@two.service"][..],
        &["disable", "off.service"],
        &["mask", "never.socket"],
    ] {
        let run = Command::new("systemctl").arg(&root).args(words).output();
        let run = run.unwrap();
        assert!(run.status.success(), "{run:?}");
    }
    let theirs = links(&guest.at("tree/etc/systemd/system"));
    assert_eq!(links(&guest.at("ours")), theirs);
    assert_eq!(theirs.len(), 6, "{theirs:?}");
}

#[test]
fn archives_and_swap_files_are_whole() {
    let Some(guest) = Guest::new().filter(|_| require("tar").is_some()) else {
        return;
    };
    let pack = guest.at("pack");
    fs::create_dir_all(pack.join("dir")).unwrap();
    fs::write(pack.join("dir/conf"), "a=1\n").unwrap();
    // The hard link is archived before it.
    fs::hard_link(pack.join("dir/conf"), pack.join("0")).unwrap();
    let large: Vec<u8> = (0..3_u32 << 18).flat_map(u32::to_le_bytes).collect();
    fs::write(pack.join("large"), &large).unwrap();
    std::os::unix::fs::symlink("large", pack.join("link")).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&pack).args(["--sort=name", "-czf"]);
    tar.arg(guest.at("pack.tar.gz"))
        .args(["large", "dir", "0", "link"]);
    assert!(tar.status().unwrap().success());
    let steps = "steps: [{tar: {from: pack.tar.gz, to: /opt, owner: \"root:staff\"}}, {swap: {file: /swapfile, size: 1M, label: more}}]";
    fs::write(guest.at("plan.yaml"), steps).unwrap();
    let words = ["deploy", "disk.img", "--plan", "plan.yaml"];
    guest.diskfs(&words).text();
    guest.is_right();
    assert_eq!(guest.cat("/opt/0"), "a=1\n");
    guest.diskfs(&["cp", "disk.img:/opt/link", "got"]).text();
    assert!(fs::read(guest.at("got")).unwrap() == large);
    let stat = |path: &str| {
        let path = format!("disk.img:{path}");
        let stat = guest.diskfs(&["stat", "--json", &path]).json();
        stat["entries"][0].clone()
    };
    let (first, other) = (stat("/opt/dir/conf"), stat("/opt/0"));
    assert_eq!((&first["links"], &other["links"]), (&2.into(), &2.into()));
    assert_eq!(first["gid"], 50);
    guest.diskfs(&["cp", "disk.img:/swapfile", "swap"]).text();
    let swap = fs::read(guest.at("swap")).unwrap();
    assert_eq!(swap.len(), 1 << 20);
    assert_eq!(&swap[4086..4096], b"SWAPSPACE2");
    // It has no hole: all of its blocks are allocated.
    let mut debugfs = diskfs_fixtures::command("debugfs");
    debugfs
        .args(["-R", "stat /swapfile"])
        .arg(guest.at("disk.img"));
    if let Ok(output) = debugfs.output() {
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("Blockcount: 2048"), "{told}");
    }
    let again = guest.diskfs(&words).text();
    let done = again
        .lines()
        .filter(|line| line.ends_with(": nothing to do"));
    assert_eq!(done.count(), 2, "{again}");
}

#[test]
fn many_guests_have_a_line_each() {
    let Some(guest) = Guest::new() else { return };
    fs::copy(guest.at("disk.img"), guest.at("two.img")).unwrap();
    let jobs = [
        r#"{"image": "disk.img", "plan": {"steps": [{"hostname": "one"}]}}"#,
        r#"{"image": "none.img"}"#,
        r#"{"image": "two.img", "plan": {"steps": [{"hostname": "two"}]}}"#,
    ];
    fs::write(guest.at("jobs"), jobs.join("\n")).unwrap();
    let words = [
        "deploy",
        "--fleet",
        "jobs",
        "-j",
        "2",
        "--write",
        "/etc/motd:x",
    ];
    let run = guest.diskfs(&words);
    assert_eq!(run.code(), Some(3), "{}", run.stderr());
    let lines = String::from_utf8(run.output.stdout).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let images: Vec<&str> = lines.iter().map(|line| text_of(&line["image"])).collect();
    assert_eq!(images, ["disk.img", "none.img", "two.img"]);
    assert_eq!(lines[0]["steps"][1]["changed"][0], "/etc/hostname");
    assert_eq!(lines[1]["error"]["kind"], "not_found");
    assert_eq!(guest.cat("/etc/hostname"), "one\n");
    let two = guest.diskfs(&["cat", "two.img:/etc/hostname", "/etc/motd"]);
    assert_eq!(two.text(), "two\nx");
}

/// Several jobs name one image in different ways: each job sees the changes of the previous ones.
#[test]
fn jobs_of_one_image_are_done_one_after_the_other() {
    let Some(guest) = Guest::new() else { return };
    fs::hard_link(guest.at("disk.img"), guest.at("hard.img")).unwrap();
    std::os::unix::fs::symlink("disk.img", guest.at("soft.img")).unwrap();
    let names = ["disk.img", "hard.img", "./disk.img", "soft.img", "disk.img"];
    let jobs = names.iter().zip(1..).map(|(name, number)| {
        format!(
            r#"{{"image": "{name}", "plan": {{"steps": [{{"append": {{"path": "/etc/order", "text": "{number}\n"}}}}]}}}}"#
        )
    });
    fs::write(guest.at("jobs"), jobs.collect::<Vec<_>>().join("\n")).unwrap();
    let told = guest
        .diskfs(&["deploy", "--fleet", "jobs", "-j", "4"])
        .text();
    assert_eq!(told.lines().count(), names.len(), "{told}");
    guest.is_right();
    assert_eq!(guest.cat("/etc/order"), "1\n2\n3\n4\n5\n");
    // The first and the last job name the image in the same way.
    let shard = ["deploy", "--fleet", "jobs", "--shard", "0/4", "-j", "2"];
    let told = guest.diskfs(&shard).text();
    let images: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["image"].take())
        .collect();
    assert_eq!(images, ["disk.img", "disk.img"]);
}

/// Every step is described, with all its keys.
#[test]
fn steps_are_described() {
    let directory = tempfile::tempdir().unwrap();
    let diskfs = |words: &[&str]| diskfs_in(directory.path(), words);
    let steps = diskfs(&["deploy", "--list-steps"]).text();
    assert!(steps.lines().count() > 30, "{steps}");
    for line in steps.lines() {
        let name = line.split(' ').next().unwrap();
        let told = diskfs(&["deploy", "--describe", name]).text();
        assert!(told.starts_with(&format!("{name}: ")), "{told}");
        assert!(told.lines().all(|line| !line.trim().is_empty()), "{told}");
    }
    let user = diskfs(&["deploy", "--describe", "user"]).text();
    for part in [
        "    name: TEXT (required)\n",
        "    groups: [TEXT, ...]\n",
        "random: true | false\n",
    ] {
        assert!(user.contains(part), "{part}\n{user}");
    }
    let (code, told) = diskfs(&["deploy", "--describe", "hostnam"]).failure();
    assert!(code == 2 && told.contains("--list-steps"), "{code} {told}");
}

/// The schema of plans, checked by another validator.
#[test]
fn plans_keep_to_the_schema() {
    if require("jsonschema").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let schema = diskfs_in(directory.path(), &["deploy", "--schema"]).text();
    fs::write(directory.path().join("schema.json"), schema).unwrap();
    let is_right = |plan: &str| {
        fs::write(directory.path().join("plan.json"), plan).unwrap();
        let judge = Command::new("jsonschema")
            .args(["-i", "plan.json", "schema.json"])
            .current_dir(directory.path())
            .output();
        judge.unwrap().status.success()
    };
    let plan = diskfs::deploy::Plan::parse(PLAN).unwrap();
    assert!(is_right(&serde_json::to_string(&plan).unwrap()));
    for wrong in [
        r#"{"steps": [{"hostnam": "x"}]}"#,
        r#"{"steps": [{"write": {"path": "/x"}}]}"#,
        r#"{"steps": [{"network": {"interfaces": [], "stack": "none"}}]}"#,
    ] {
        assert!(!is_right(wrong), "{wrong}");
    }
}
