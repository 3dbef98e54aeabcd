//! Systems in unusual layouts, and volumes that may contain a system and can't be read.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use diskfs_fixtures::require;
use serde_json::Value;
use tempfile::TempDir;

use crate::{Run, diskfs_in};

const LINUX: &str = "0FC63DAF-8483-4772-8E79-3D69D8477DE4";
const ESP: &str = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";
const USR_X86_64: &str = "8484680C-9521-48C6-9C11-B0720656F69E";

const MIB: u64 = 1 << 20;

const RELEASE: &str =
    "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";

/// A merged root without its `/usr`: paths, each with the link's target or the file's contents.
const ROOT: &[(&str, &str)] = &[
    ("usr/", ""),
    ("bin", "-> usr/bin"),
    ("lib", "-> usr/lib"),
    ("etc/os-release", "-> ../usr/lib/os-release"),
    ("etc/hostname", "apart\n"),
    ("etc/hosts", "127.0.0.1 localhost\n127.0.1.1 apart\n"),
];
const USR: &[(&str, &str)] = &[
    ("bin/sh", "sh\n"),
    ("lib/os-release", RELEASE),
    ("share/", ""),
];
const WHOLE: &[(&str, &str)] = &[
    ("bin/sh", "sh\n"),
    ("etc/os-release", RELEASE),
    ("etc/hostname", "whole\n"),
];

/// A partition: its size, type, name, and the function that fills it.
struct Part<'a> {
    mib: u64,
    kind: &'a str,
    name: &'a str,
    make: Make<'a>,
}

/// A function that fills a file of a partition's size.
type Make<'a> = &'a dyn Fn(&Path);

/// A disk of partitions, `disk.raw` in its own directory.
struct Layout {
    directory: TempDir,
    starts: Vec<u64>,
}

impl Layout {
    fn new(parts: &[Part<'_>]) -> Option<Self> {
        for tool in ["sfdisk", "mke2fs", "debugfs"] {
            require(tool)?;
        }
        let directory = TempDir::new().unwrap();
        let image = directory.path().join("disk.raw");
        let total = parts.iter().map(|part| part.mib).sum::<u64>() + 2;
        File::create(&image).unwrap().set_len(total * MIB).unwrap();
        let mut table = String::from("label: gpt\nfirst-lba: 2048\n");
        let mut starts = Vec::new();
        let mut start = 1;
        for part in parts {
            let (sector, sectors) = (start * 2048, part.mib * 2048);
            let (kind, name) = (part.kind, part.name);
            writeln!(
                table,
                "start={sector}, size={sectors}, type={kind}, name={name}"
            )
            .unwrap();
            starts.push(start * MIB);
            start += part.mib;
        }
        let script = directory.path().join("table");
        fs::write(&script, table).unwrap();
        let mut sfdisk = diskfs_fixtures::command("sfdisk");
        let ended = sfdisk
            .args(["-q", "--no-reread", "--no-tell-kernel"])
            .arg(&image)
            .stdin(File::open(&script).unwrap())
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
        let layout = Self { directory, starts };
        for (number, part) in parts.iter().enumerate() {
            let file = layout.path("part");
            File::create(&file)
                .unwrap()
                .set_len(part.mib * MIB)
                .unwrap();
            (part.make)(&file);
            layout.put(number, &file);
        }
        Some(layout)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, number: usize, file: &Path) {
        run(Command::new("dd")
            .args(["status=none", "conv=notrunc,sparse", "bs=1M"])
            .arg(format!("seek={}", self.starts[number] / MIB))
            .arg(format!("if={}", file.display()))
            .arg(format!("of={}", self.path("disk.raw").display())));
    }

    fn diskfs(&self, words: &[&str]) -> Run {
        diskfs_in(self.directory.path(), words)
    }

    /// Runs all commands that search for a system; each must fail with this code, and name all of
    /// `words`.
    fn fails(&self, code: i32, words: &[&str]) {
        for command in [
            &["inspect", "disk.raw"][..],
            &["ls", "--os", "1", "disk.raw:/etc"],
            &["ls", "disk.raw:/etc"],
            &["log", "disk.raw"],
            &["deploy", "disk.raw", "--hostname", "x"],
            &["deploy", "disk.raw", "--hostname", "x", "--dry-run"],
            &["mount", "--explain", "disk.raw"],
        ] {
            let (got, stderr) = self.diskfs(command).failure();
            assert_eq!(got, code, "{command:?}: {stderr}");
            for word in words {
                assert!(stderr.contains(word), "{command:?}: {word}: {stderr}");
            }
        }
        let run = self.diskfs(&["inspect", "--json", "disk.raw"]);
        assert_eq!(run.code(), Some(code));
        let list = self.path("list");
        fs::write(&list, "disk.raw\n").unwrap();
        let fleet = self.diskfs(&["inspect", "--fleet", "list"]);
        let line: Value = serde_json::from_slice(&fleet.output.stdout).unwrap();
        let reason = line["error"]["message"].as_str().unwrap();
        for word in words {
            assert!(reason.contains(word), "{word}: {line}");
        }
    }
}

fn run(command: &mut Command) {
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{command:?}: {ended:?}");
}

/// Makes an ext4 filesystem with these files.
fn ext4(file: &Path, files: &[(&str, &str)], options: &[&str]) {
    let tree = TempDir::new().unwrap();
    for (path, contents) in files {
        let path = tree.path().join(path);
        if contents.is_empty() {
            fs::create_dir_all(path).unwrap();
            continue;
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match contents.strip_prefix("-> ") {
            Some(target) => symlink(target, path).unwrap(),
            None => fs::write(path, contents).unwrap(),
        }
    }
    run(diskfs_fixtures::command("mke2fs")
        .args(["-q", "-t", "ext4"])
        .args(options)
        .arg("-d")
        .arg(tree.path())
        .arg(file));
}

fn debugfs(file: &Path, request: &str) {
    run(diskfs_fixtures::command("debugfs")
        .args(["-w", "-R", request])
        .arg(file));
}

fn boot() -> Part<'static> {
    Part {
        mib: 8,
        kind: LINUX,
        name: "boot",
        make: &|file| ext4(file, &[("vmlinuz", "kernel\n")], &[]),
    }
}

fn linux<'a>(mib: u64, name: &'a str, make: &'a dyn Fn(&Path)) -> Part<'a> {
    Part {
        mib,
        kind: LINUX,
        name,
        make,
    }
}

#[test]
fn a_usr_of_its_own_belongs_to_its_system() {
    let by_fstab = [ROOT, &[("etc/fstab", "LABEL=usr /usr ext4 defaults 0 1\n")]].concat();
    let usr = |file: &Path| ext4(file, USR, &["-L", "usr"]);
    for (origin, root, kind) in [
        ("/etc/fstab, line 1", &by_fstab[..], LINUX),
        ("partition type", ROOT, USR_X86_64),
        ("its files", ROOT, LINUX),
    ] {
        let make_root = |file: &Path| ext4(file, root, &[]);
        let parts = [
            Part {
                mib: 16,
                kind,
                name: "USR-A",
                make: &usr,
            },
            linux(16, "ROOT", &make_root),
        ];
        let Some(disk) = Layout::new(&parts) else {
            return;
        };
        let text = disk.diskfs(&["inspect", "disk.raw"]).text();
        assert!(text.contains("Debian GNU/Linux 12"), "{origin}: {text}");
        let explained = disk.diskfs(&["mount", "--explain", "disk.raw"]).text();
        let line = format!("  /usr from p1 ({origin})");
        assert!(explained.lines().any(|it| it == line), "{explained}");
        let sh = disk.diskfs(&["cat", "--os", "1", "disk.raw:/bin/sh"]);
        assert_eq!(sh.text(), "sh\n");
        disk.diskfs(&["deploy", "disk.raw", "--hostname", "renamed"])
            .text();
        let name = disk.diskfs(&["cat", "disk.raw:/etc/hostname"]).text();
        assert_eq!(name, "renamed\n");
    }
}

#[test]
fn an_encrypted_root_without_a_key_is_named() {
    if require("cryptsetup").is_none() {
        return;
    }
    let luks = |file: &Path| {
        let key = file.with_extension("key");
        fs::write(&key, "secret").unwrap();
        run(diskfs_fixtures::command("cryptsetup")
            .args([
                "luksFormat",
                "-q",
                "--type",
                "luks1",
                "--pbkdf-force-iterations",
                "1000",
            ])
            .arg(file)
            .arg(&key));
    };
    if let Some(disk) = Layout::new(&[boot(), linux(8, "root", &luks)]) {
        disk.fails(6, &["p2 (crypto_LUKS)", "no key was given"]);
    }
}

#[test]
fn a_root_without_a_driver_is_named() {
    if require("mkfs.f2fs").is_none() {
        return;
    }
    let f2fs = |file: &Path| run(diskfs_fixtures::command("mkfs.f2fs").arg("-q").arg(file));
    if let Some(disk) = Layout::new(&[boot(), linux(120, "root", &f2fs)]) {
        disk.fails(4, &["p2 (f2fs)", "not supported"]);
    }
}

#[test]
fn a_damaged_root_is_named() {
    let no_root = |file: &Path| {
        ext4(file, WHOLE, &[]);
        debugfs(file, "clri <2>");
    };
    let no_superblock = |file: &Path| {
        ext4(file, WHOLE, &["-b", "1024"]);
        run(Command::new("dd")
            .args([
                "status=none",
                "conv=notrunc",
                "if=/dev/zero",
                "bs=1024",
                "seek=1",
                "count=1",
            ])
            .arg(format!("of={}", file.display())));
    };
    let too_long = |file: &Path| {
        File::create(file).unwrap().set_len(32 * MIB).unwrap();
        ext4(file, WHOLE, &[]);
        File::options()
            .write(true)
            .open(file)
            .unwrap()
            .set_len(16 * MIB)
            .unwrap();
    };
    let cases: [(&str, Make<'_>); 3] = [
        ("root directory", &no_root),
        ("superblock", &no_superblock),
        ("device", &too_long),
    ];
    for (word, make) in cases {
        if let Some(disk) = Layout::new(&[boot(), linux(16, "root", make)]) {
            disk.fails(5, &["p2 (ext4)", word]);
        }
    }
}

#[test]
fn a_plan_is_not_for_a_filesystem_that_is_no_system() {
    if require("mkfs.vfat").is_none() {
        return;
    }
    let esp = Part {
        mib: 8,
        kind: ESP,
        name: "esp",
        make: &|file| run(diskfs_fixtures::command("mkfs.vfat").arg(file)),
    };
    let Some(disk) = Layout::new(&[esp, linux(8, "root", &|_| ())]) else {
        return;
    };
    let before = fs::read(disk.path("disk.raw")).unwrap();
    let write = ["deploy", "disk.raw", "--write", "/motd:hello"];
    let (code, stderr) = disk.diskfs(&write).failure();
    assert_eq!(code, 3, "{stderr}");
    assert!(
        stderr.contains("no operating system") && stderr.contains("--volume"),
        "{stderr}"
    );
    assert!(fs::read(disk.path("disk.raw")).unwrap() == before);
    let named = [&write[..], &["--volume", "p1"]].concat();
    assert_eq!(disk.diskfs(&named).code(), Some(0));
    assert_eq!(disk.diskfs(&["cat", "disk.raw:/motd"]).text(), "hello");
}

#[test]
fn a_partition_of_a_grown_image_grows() {
    let Some(disk) = Layout::new(&[linux(16, "root", &|file| ext4(file, WHOLE, &[]))]) else {
        return;
    };
    let image = File::options().write(true).open(disk.path("disk.raw"));
    image.unwrap().set_len(64 * MIB).unwrap();
    let files = || disk.diskfs(&["find", "disk.raw:/"]).output.stdout;
    let before = files();
    let grown = disk.diskfs(&["resize", "disk.raw"]).text();
    let steps = "image: raw, 64 MiB\n\
        p1: partition, 16 MiB -> 62.98 MiB\n\
        p1: ext4, 16 MiB -> 62.98 MiB\n";
    assert_eq!(grown, steps);
    assert!(before == files());
    assert_eq!(
        disk.diskfs(&["check", "disk.raw"]).text(),
        "p1: ext4, clean\n"
    );
}

#[test]
fn an_entry_of_an_unused_inode_is_damage() {
    let damaged = |file: &Path| {
        ext4(file, WHOLE, &[]);
        debugfs(file, "clri /etc/hostname");
    };
    let Some(disk) = Layout::new(&[linux(16, "root", &damaged)]) else {
        return;
    };
    for words in [
        &["cat", "disk.raw:/etc/hostname"][..],
        &["find", "disk.raw:/"],
        &["ls", "-l", "disk.raw:/etc"],
        &["stat", "disk.raw:/etc/hostname"],
    ] {
        let (code, stderr) = disk.diskfs(words).failure();
        assert_eq!(code, 5, "{words:?}: {stderr}");
        assert!(
            stderr.contains("which is not in use"),
            "{words:?}: {stderr}"
        );
    }
}
