//! `diskfs build`: whole images from a plan or from one source, judged by the kernel and by the
//! programs of the formats; failures leave no image.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use diskfs_fixtures::{Mount, have, require, require_root};

use crate::{DISKFS, diskfs_in};

const PLAN: &str = "disk: {size: fit+10%}
seed: a test
time: 1700000000
partitions:
  - {name: esp, type: esp, size: 8M, filesystem: {type: fat, label: ESP, mount: /boot/efi}}
  - {name: root, size: rest, filesystem: {type: ext4, label: root, mount: /}}
sources:
  - tar: tree.tar
  - {text: \"hello\\n\", to: /etc/motd}
bootloader: {type: systemd-boot, arguments: console=ttyS0}
";

/// Makes a tree with the names of a boot loader's files, and its archive.
fn make_tree(path: &Path) {
    for directory in ["etc", "boot/efi", "usr/lib/systemd/boot/efi", "data"] {
        fs::create_dir_all(path.join("tree").join(directory)).unwrap();
    }
    for (name, contents) in [
        ("etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian\"\n"),
        ("boot/vmlinuz-6.1.0-9", "an older kernel"),
        ("boot/vmlinuz-6.1.0-10", "a kernel"),
        ("boot/initrd.img-6.1.0-10", "an initramfs"),
        ("usr/lib/systemd/boot/efi/systemd-bootx64.efi", "a program"),
        ("data/file", "contents"),
    ] {
        fs::write(path.join("tree").join(name), contents).unwrap();
    }
    let mode = fs::Permissions::from_mode(0o4711);
    fs::set_permissions(path.join("tree/data/file"), mode).unwrap();
    for nth in 0..300_usize {
        fs::write(path.join(format!("tree/data/{nth}")), vec![5; nth * 61]).unwrap();
    }
    tool(path, &["tar", "-cf", "tree.tar", "-C", "tree", "."]);
    fs::write(path.join("plan.yaml"), PLAN).unwrap();
}

/// Runs a program in a directory; returns its output.
fn tool(directory: &Path, words: &[&str]) -> String {
    let mut command = diskfs_fixtures::command(words[0]);
    let output = command
        .args(&words[1..])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs diskfs, which must fail with this exit code; returns its messages.
fn fails(path: &Path, words: &[&str], code: i32) -> String {
    let (ended, said) = diskfs_in(path, words).failure();
    assert_eq!(ended, code, "{said}");
    said
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_plan_becomes_a_disk() {
    if !have(&["tar", "sgdisk", "qemu-img", "diff"]) || require_root().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(path);
    let planned = diskfs_in(path, &["build", "plan.yaml", "--dry-run"]).text();
    assert!(
        planned.contains("boot loader systemd-boot (x64)"),
        "{planned}"
    );
    assert!(!names(path).iter().any(|name| name.contains("disk")));
    let built = diskfs_in(path, &["build", "plan.yaml", "-o", "disk.qcow2"]).text();
    assert_eq!(built.lines().next(), planned.lines().next());
    tool(path, &["qemu-img", "check", "disk.qcow2"]);
    tool(
        path,
        &["qemu-img", "convert", "-O", "raw", "disk.qcow2", "disk.raw"],
    );
    let verdict = tool(path, &["sgdisk", "-v", "disk.raw"]);
    assert!(verdict.contains("No problems found"), "{verdict}");

    let cat = |file: &str| diskfs_in(path, &["cat", file]).text();
    let entry = cat("disk.qcow2:/boot/efi/loader/entries/diskfs.conf");
    let uuid = cat("disk.qcow2:/etc/fstab");
    let uuid = uuid
        .lines()
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    let expected = format!(
        "title Debian\nlinux /linux/vmlinuz-6.1.0-10\ninitrd /linux/initrd.img-6.1.0-10\n\
         options root={uuid} ro console=ttyS0\n"
    );
    assert_eq!(entry, expected);
    assert_eq!(
        cat("disk.qcow2:/boot/efi/EFI/BOOT/BOOTX64.EFI"),
        "a program"
    );
    assert_eq!(
        cat("disk.qcow2:/boot/efi/linux/vmlinuz-6.1.0-10"),
        "a kernel"
    );
    assert_eq!(cat("disk.qcow2:/etc/motd"), "hello\n");

    // The kernel shows the archive's tree, besides what the plan adds.
    let start = 1024 * 1024 + 8 * 1024 * 1024;
    let mount = Mount::of_image(&path.join("disk.raw"), &format!("ro,offset={start}")).unwrap();
    let mounted = mount.path().to_str().unwrap().to_owned();
    let words = [
        "diff",
        "-r",
        "--exclude=lost+found",
        "--exclude=fstab",
        "--exclude=motd",
    ];
    tool(path, &[&words[..], &["tree", &mounted]].concat());
    let file = fs::metadata(mount.path().join("data/file")).unwrap();
    assert_eq!(file.permissions().mode() & 0o7777, 0o4711);
    mount.unmount().unwrap();
}

#[test]
fn one_source_needs_no_plan() {
    if !have(&["tar", "e2fsck"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(path);
    let built = diskfs_in(path, &["build", "--from-tar", "tree.tar", "-o", "a.raw"]).text();
    assert!(built.contains("boot loader systemd-boot (x64)"), "{built}");
    assert!(built.contains(" /boot/efi "), "{built}");
    fs::remove_dir_all(path.join("tree/usr")).unwrap();
    let words = [
        "build",
        "--from-dir",
        "tree",
        "--owner",
        "0:0",
        "--size",
        "64M",
        "-o",
        "b.qcow2",
    ];
    let json = diskfs_in(path, &[&words[..], &["--json"]].concat()).json();
    assert_eq!(json["size_bytes"], 64 << 20);
    assert_eq!(json["volumes"].as_array().unwrap().len(), 1);
    assert_eq!(json["volumes"][0]["mount"], "/");
    let stat = diskfs_in(path, &["stat", "b.qcow2:/data/file", "--json"]).json();
    assert_eq!(stat["entries"][0]["uid"], 0);
}

#[test]
fn the_same_plan_makes_the_same_bytes() {
    if require("tar").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(path);
    for kind in ["raw", "qcow2"] {
        let build = |name: &str| {
            let words = ["build", "plan.yaml", "--format", kind, "-o", name];
            diskfs_in(path, &words).text();
            fs::read(path.join(name)).unwrap()
        };
        assert!(
            build(&format!("1.{kind}")) == build(&format!("2.{kind}")),
            "{kind}"
        );
    }
}

#[test]
fn a_failure_leaves_no_image() {
    if require("tar").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(path);
    fs::write(
        path.join("small.yaml"),
        PLAN.replace("size: rest", "size: 3M"),
    )
    .unwrap();
    fs::write(path.join("unknown.yaml"), PLAN.replace("seed:", "sed:")).unwrap();
    fs::write(
        path.join("missing.yaml"),
        PLAN.replace("tree.tar", "missing.tar"),
    )
    .unwrap();
    let before = names(path);
    for (plan, code, words) in [
        ("small.yaml", 1, &["no space", "larger size"][..]),
        (
            "unknown.yaml",
            2,
            &["unknown.yaml", "`sed`", "line 2", "--describe"],
        ),
        ("missing.yaml", 3, &["missing.tar", "sources[0]"]),
        ("none.yaml", 3, &["none.yaml"]),
    ] {
        let said = fails(path, &["build", plan, "-o", "disk.raw"], code);
        for word in words {
            assert!(said.contains(word), "{word:?} is not in {said:?}");
        }
        assert_eq!(names(path), before, "{plan}");
    }
    fs::write(path.join("disk.raw"), "old").unwrap();
    let said = fails(path, &["build", "plan.yaml", "-o", "disk.raw"], 1);
    assert!(said.contains("--force"), "{said}");
    assert_eq!(fs::read(path.join("disk.raw")).unwrap(), b"old");
    diskfs_in(path, &["build", "plan.yaml", "--force", "-o", "disk.raw"]).text();
    assert!(fs::metadata(path.join("disk.raw")).unwrap().len() > 8 << 20);
}

/// Returns true if a process has a file open in a directory that has no name there.
fn has_unnamed_file(process: u32, directory: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    let mut files = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    files.any(|file| {
        file.parent() == Some(directory) && file.to_string_lossy().ends_with(" (deleted)")
    })
}

/// Starts a command that creates an image of large files, and ends it by a signal when the image
/// exists without a name.
pub(crate) fn interrupted(path: &Path, words: &[&str], signal: &str) {
    let mut command = Command::new(DISKFS);
    let mut child = command
        .args(words)
        .current_dir(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    while !has_unnamed_file(child.id(), path) {
        assert!(
            child.try_wait().unwrap().is_none(),
            "the command has ended early"
        );
        assert!(Instant::now() < deadline, "no new file appears");
        std::thread::sleep(Duration::from_millis(1));
    }
    let id = child.id().to_string();
    tool(path, &["sh", "-c", &format!("kill {signal} {id}")]);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn an_interrupted_build_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().canonicalize().unwrap();
    fs::create_dir(path.join("large")).unwrap();
    for nth in 0..64_u8 {
        fs::write(path.join(format!("large/{nth}")), vec![nth + 1; 4 << 20]).unwrap();
    }
    let build = "build --from-dir large --owner 0:0 -o disk.raw";
    let mkfs = "mkfs ext4 --size fit --from-dir large disk.qcow2";
    for (words, signal) in [(build, "-INT"), (build, "-KILL"), (mkfs, "-KILL")] {
        let words: Vec<&str> = words.split(' ').collect();
        interrupted(path, &words, signal);
        assert_eq!(names(path), ["large"], "{words:?} {signal}");
    }
}

#[test]
fn a_key_without_a_volume_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir(path.join("tree")).unwrap();
    fs::write(path.join("secret"), "correct horse").unwrap();
    let encrypted = "partitions:
  - {luks: {name: cryptroot, filesystem: {type: ext4, mount: /}}}
  - {luks: {name: cryptdata, key: {file: secret}, filesystem: {type: ext4, mount: /data}}}
";
    fs::write(path.join("encrypted.yaml"), encrypted).unwrap();
    let before = names(path);
    for (source, key, word) in [
        ("encrypted.yaml", "cryptrot", "cryptroot, cryptdata"),
        ("--from-dir=tree", "cryptroot", "no encrypted volume"),
        ("--from-dir=tree", "all", "no encrypted volume"),
    ] {
        let key = format!("{key}:file:secret");
        let said = fails(path, &["build", source, "-o", "disk.raw", "--key", &key], 2);
        assert!(said.contains(word), "{word:?} is not in {said:?}");
        assert_eq!(names(path), before, "{key}");
    }
}

#[test]
fn neither_root_nor_devices_are_needed() {
    if !have(&["tar", "bwrap"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    make_tree(path);
    let path_text = path.to_str().unwrap();
    let mut command = Command::new("bwrap");
    let output = command
        .args(["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"])
        .args([
            "--bind", path_text, path_text, "--uid", "65534", "--gid", "65534",
        ])
        .args(["--chdir", path_text, "--cap-drop", "ALL"])
        .args([DISKFS, "build", "plan.yaml", "-o", "disk.qcow2"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let motd = diskfs_in(path, &["cat", "disk.qcow2:/etc/motd"]).text();
    assert_eq!(motd, "hello\n");
}

#[test]
fn the_keys_of_plans_are_described() {
    let directory = tempfile::tempdir().unwrap();
    let list = diskfs_in(directory.path(), &["build", "--describe"]).text();
    for key in ["disk", "partitions", "sources", "bootloader", "deploy"] {
        assert!(
            list.lines().any(|line| line.starts_with(key)),
            "{key}: {list}"
        );
    }
    let text = diskfs_in(directory.path(), &["build", "--describe", "partitions"]).text();
    for words in ["type: TEXT", "size: ", "luks: {...}", "volume-key:"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let said = fails(directory.path(), &["build", "--describe", "no-such-key"], 2);
    assert!(said.contains("no-such-key"), "{said}");
    let schema = diskfs_in(directory.path(), &["build", "--schema"]).text();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert!(schema["properties"]["partitions"].is_object());
}
