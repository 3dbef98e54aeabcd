//! Mistakes of newcomers, with every command that allows them: the message says what and where on
//! one line, the exit code is the documented one, and `--json` reports the same.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use diskfs::Disk;
use diskfs_fixtures::{image, require, require_root, run};
use serde_json::Value;

use crate::{DISKFS, diskfs_in};

/// A mistake, and the expected report of it.
struct Mistake {
    /// The kind of error, in JSON.
    kind: &'static str,
    code: i32,
    /// The name that every message must contain.
    names: &'static str,
    /// The command lines that make the mistake.
    lines: &'static [&'static str],
}

const WRONG_PATH: Mistake = Mistake {
    kind: "not_found",
    code: 3,
    names: "/no/such",
    lines: &[
        "ls demo.qcow2:/no/such",
        "tree demo.qcow2:/no/such",
        "find demo.qcow2:/no/such",
        "stat demo.qcow2:/no/such",
        "cat demo.qcow2:/no/such",
        "grep root demo.qcow2:/no/such",
        "du demo.qcow2:/no/such",
        "hash demo.qcow2:/no/such",
        "diff demo.qcow2:/no/such demo.qcow2:/etc",
        "cp demo.qcow2:/no/such out",
        "cp file demo.qcow2:/no/such/file",
        "tar -f out.tar demo.qcow2:/no/such",
        "tar-in -f empty.tar demo.qcow2:/no/such",
        "log --file /no/such demo.qcow2",
        "rm demo.qcow2:/no/such",
        "mv demo.qcow2:/no/such /etc/x",
        "mv demo.qcow2:/etc/hostname /no/such/x",
        "ln demo.qcow2:/no/such /etc/x",
        "ln -s x demo.qcow2:/no/such/x",
        "mkdir demo.qcow2:/no/such/x",
        "chmod 0600 demo.qcow2:/no/such",
        "chown 1:1 demo.qcow2:/no/such",
        "touch demo.qcow2:/no/such/x",
        "truncate -s 0 demo.qcow2:/no/such/x",
        "write demo.qcow2:/no/such/x",
        "xattr list demo.qcow2:/no/such",
        "xattr get user.x demo.qcow2:/no/such",
        "xattr set user.x y demo.qcow2:/no/such",
    ],
};

const WRONG_IMAGE: Mistake = Mistake {
    kind: "not_found",
    code: 3,
    names: "gone.qcow2",
    lines: &[
        "info gone.qcow2",
        "inspect gone.qcow2",
        "log gone.qcow2",
        "df gone.qcow2",
        "du gone.qcow2",
        "ls gone.qcow2",
        "tree gone.qcow2:/etc",
        "find gone.qcow2",
        "stat gone.qcow2:/etc",
        "cat gone.qcow2:/etc/fstab",
        "grep root gone.qcow2:/etc",
        "hash gone.qcow2",
        "diff gone.qcow2 demo.qcow2",
        "diff demo.qcow2 gone.qcow2",
        "cp gone.qcow2:/etc/fstab .",
        "cp file gone.qcow2:/etc",
        "tar -f out.tar gone.qcow2",
        "tar-in -f empty.tar gone.qcow2:/",
        "deploy gone.qcow2 --hostname x",
        "write gone.qcow2:/etc/motd",
        "edit gone.qcow2:/etc/motd",
        "rm gone.qcow2:/etc/motd",
        "mkdir gone.qcow2:/etc/x",
        "mkfs fat gone.qcow2",
        "snapshot list gone.qcow2",
        "snapshot create gone.qcow2 x",
        "bitmap list gone.qcow2",
        "amend -o compat=1.1 gone.qcow2",
        "bitmap add gone.qcow2 x",
        "commit gone.qcow2",
        "rebase -b demo.qcow2 -F qcow2 gone.qcow2",
        "uefi list gone.qcow2",
        "mount --explain gone.qcow2",
        "mount gone.qcow2 .",
        "wait gone.qcow2",
        "export gone.qcow2 --vhost-user-blk socket",
    ],
};

const NO_IMAGE: Mistake = Mistake {
    kind: "not_found",
    code: 3,
    names: "file",
    lines: &[
        "inspect file",
        "log file",
        "ls file",
        "cat file:/etc/fstab",
        "cp file:/etc/fstab .",
        "tar -f out.tar file",
        "write file:/etc/motd",
        "deploy file --hostname x",
        "mount file .",
    ],
};

const WRONG_VOLUME: Mistake = Mistake {
    kind: "not_found",
    code: 3,
    names: "p9",
    lines: &[
        "info --volume p9 demo.qcow2",
        "inspect --volume p9 demo.qcow2",
        "log --volume p9 demo.qcow2",
        "df --volume p9 demo.qcow2",
        "du --volume p9 demo.qcow2",
        "ls --volume p9 demo.qcow2",
        "find --volume p9 demo.qcow2",
        "cat --volume p9 demo.qcow2:/etc/fstab",
        "grep --volume p9 root demo.qcow2",
        "hash --volume p9 demo.qcow2",
        "cp --volume p9 demo.qcow2:/etc/fstab .",
        "cp --volume p9 file demo.qcow2:/etc",
        "tar --volume p9 -f out.tar demo.qcow2",
        "tar-in --volume p9 -f empty.tar demo.qcow2:/",
        "deploy --volume p9 demo.qcow2 --hostname x",
        "write --volume p9 demo.qcow2:/etc/motd",
        "rm --volume p9 demo.qcow2:/etc/motd",
        "mkfs fat --volume p9 demo.qcow2",
        "mount --volume p9 demo.qcow2 .",
        "export --volume p9 demo.qcow2 --vhost-user-blk socket",
    ],
};

const NO_KEY: Mistake = Mistake {
    kind: "denied",
    code: 6,
    names: "--key",
    lines: &[
        "inspect luks.img",
        "log luks.img",
        "ls luks.img",
        "find luks.img",
        "cat luks.img:/etc/fstab",
        "cp luks.img:/etc/fstab .",
        "cp file luks.img:/etc",
        "tar -f out.tar luks.img",
        "write luks.img:/etc/motd",
        "deploy luks.img --hostname x",
        "mount luks.img .",
    ],
};

const WRONG_KEY: Mistake = Mistake {
    kind: "denied",
    code: 6,
    names: "no key slot",
    lines: &[
        "inspect --key all:file:file luks.img",
        "ls --key all:file:file luks.img",
        "cat --key all:file:file luks.img:/etc/fstab",
        "cp --key all:file:file file luks.img:/etc",
        "tar --key all:file:file -f out.tar luks.img",
        "write --key all:file:file luks.img:/etc/motd",
        "deploy --key all:file:file luks.img --hostname x",
        "mount --key all:file:file luks.img .",
    ],
};

const NO_TERMINAL: Mistake = Mistake {
    kind: "other",
    code: 1,
    names: "no terminal is available",
    lines: &[
        "inspect --key all:ask luks.img",
        "ls --key all:ask luks.img",
        "cp --key all:ask file luks.img:/etc",
        "deploy --key all:ask luks.img --hostname x",
        "mount --key all:ask luks.img .",
    ],
};

const IN_USE: Mistake = Mistake {
    kind: "locked",
    code: 6,
    names: "demo.qcow2",
    lines: &[
        "info demo.qcow2",
        "inspect demo.qcow2",
        "log demo.qcow2",
        "df demo.qcow2",
        "ls demo.qcow2",
        "find demo.qcow2",
        "cat demo.qcow2:/etc/fstab",
        "grep root demo.qcow2:/etc",
        "cp demo.qcow2:/etc/fstab .",
        "cp file demo.qcow2:/etc",
        "tar -f out.tar demo.qcow2",
        "write demo.qcow2:/etc/motd",
        "rm demo.qcow2:/etc/motd",
        "edit demo.qcow2:/etc/motd",
        "deploy demo.qcow2 --hostname x",
        "mkfs fat demo.qcow2",
        "snapshot create demo.qcow2 x",
        "bitmap add demo.qcow2 x",
        "amend -o refcount_bits=64 demo.qcow2",
        "mount demo.qcow2 .",
        "mount --rw demo.qcow2 .",
        "export demo.qcow2 --vhost-user-blk socket",
    ],
};

const NO_PERMISSION: Mistake = Mistake {
    kind: "denied",
    code: 6,
    names: "secret.img",
    lines: &[
        "info secret.img",
        "inspect secret.img",
        "log secret.img",
        "ls secret.img",
        "cat secret.img:/etc/fstab",
        "find secret.img",
        "cp secret.img:/etc/fstab out",
        "cp file secret.img:/etc",
        "tar -f out.tar secret.img",
        "write secret.img:/etc/motd",
        "rm secret.img:/etc/motd",
        "deploy secret.img --hostname x",
        "mkfs fat secret.img",
        "snapshot list secret.img",
        "mount secret.img .",
        "wait secret.img",
    ],
};

const NO_ROOM: Mistake = Mistake {
    kind: "no_space",
    code: 1,
    names: "small.img",
    lines: &[
        "cp large small.img:/large",
        "write small.img:/large",
        "tar-in -f large.tar small.img:/",
    ],
};

/// Makes a directory with the files that the command lines name.
fn scene() -> Option<tempfile::TempDir> {
    require("mke2fs")?;
    require("cryptsetup")?;
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    fs::set_permissions(at, fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(image("demo.qcow2").path(), at.join("demo.qcow2")).unwrap();
    for name in ["secret.img", "small.img"] {
        let made = diskfs_fixtures::command("mke2fs")
            .args(["-q", "-F", "-t", "ext4"])
            .arg(at.join(name))
            .arg("2M")
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    fs::set_permissions(at.join("secret.img"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::write(at.join("file"), "This is text, and no image.\n".repeat(100)).unwrap();
    fs::write(at.join("empty.tar"), [0; 1024]).unwrap();
    fs::write(at.join("large"), vec![1; 4 << 20]).unwrap();
    let script = "truncate -s 20M luks.img && echo -n right > key && tar -cf large.tar large &&
        cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 luks.img key";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(at)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    Some(scene)
}

/// The way in which a command line is run.
#[derive(Default)]
struct Way {
    /// True if it runs as a user other than root.
    is_nobody: bool,
    /// The file for standard input.
    input: Option<PathBuf>,
}

impl Way {
    fn run(&self, directory: &Path, words: &[&str]) -> (Option<i32>, String) {
        // Without a terminal, wherever the tests run.
        let mut command = Command::new("setsid");
        if self.is_nobody {
            command.arg("-w").arg(directory.join("diskfs"));
        } else {
            command.args(["-w", DISKFS]);
        }
        if self.is_nobody {
            command.uid(65534).gid(65534);
        }
        let input = self.input.as_ref();
        let output = command
            .args(words)
            .current_dir(directory)
            .env("DISKFS_VM", "none")
            .env("EDITOR", "true")
            .env_remove("RUST_LOG")
            .stdin(input.map_or_else(Stdio::null, |path| fs::File::open(path).unwrap().into()))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), stderr)
    }
}

/// Lists the errors in the report of a mistake.
fn wrong(directory: &Path, mistake: &Mistake, way: &Way) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in mistake.lines {
        let words: Vec<&str> = line.split(' ').collect();
        // These exit with 2, like the programs of the same names.
        let code = match words[0] {
            "grep" | "diff" => 2,
            _ => mistake.code,
        };
        let (found, text) = way.run(directory, &words);
        let first = text.lines().next().unwrap_or_default();
        let is_told = first.starts_with("diskfs: ") && text.contains(mistake.names);
        if found != Some(code) || !is_told || text.lines().count() > 3 {
            wrong.push(format!("{line}: {found:?}: {text}"));
        }
        let (found, text) = way.run(directory, &[&words, &["--json"][..]].concat());
        let documents: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let is_it = |document: &Value| {
            document["diskfs"]["command"] == words[0]
                && document["error"]["kind"] == mistake.kind
                && document["error"]["exit_code"] == code
        };
        let is_told = documents.iter().any(is_it) && text.contains(mistake.names);
        if found != Some(code) || !is_told || documents.len() != text.lines().count() {
            wrong.push(format!("{line} --json: {found:?}: {text}"));
        }
    }
    wrong
}

fn check_reports(directory: &Path, mistakes: &[Mistake], way: &Way) {
    let found: Vec<String> = mistakes
        .iter()
        .flat_map(|mistake| wrong(directory, mistake, way))
        .collect();
    assert!(
        found.is_empty(),
        "{} wrong:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn wrong_names_are_told() {
    let Some(scene) = scene() else { return };
    let way = Way::default();
    check_reports(
        scene.path(),
        &[WRONG_PATH, WRONG_IMAGE, NO_IMAGE, WRONG_VOLUME],
        &way,
    );
}

#[test]
fn wrong_keys_are_told() {
    let Some(scene) = scene() else { return };
    check_reports(
        scene.path(),
        &[NO_KEY, WRONG_KEY, NO_TERMINAL],
        &Way::default(),
    );
}

#[test]
fn an_image_in_use_is_told() {
    let Some(scene) = scene() else { return };
    let path = scene.path().join("demo.qcow2");
    let disk = Disk::options().read_only(false).open(path).unwrap();
    check_reports(scene.path(), &[IN_USE], &Way::default());
    drop(disk);
}

#[test]
fn what_is_not_permitted_is_told() {
    if require_root().is_none() {
        return;
    }
    let Some(scene) = scene() else { return };
    let program = scene.path().join("diskfs");
    // Copied by another process: a child of another thread would inherit a descriptor that this
    // process writes, and the file could then not be executed.
    run("cp", [Path::new(DISKFS), &*program]).unwrap();
    let way = Way {
        is_nobody: true,
        ..Way::default()
    };
    check_reports(scene.path(), &[NO_PERMISSION], &way);
}

#[test]
fn no_room_is_told() {
    let Some(scene) = scene() else { return };
    let files = || diskfs_in(scene.path(), &["hash", "small.img"]).text();
    let before = files();
    let way = Way {
        input: Some(scene.path().join("large")),
        ..Way::default()
    };
    check_reports(scene.path(), &[NO_ROOM], &way);
    assert_eq!(files(), before);
    // No space left for the output.
    for line in [
        "ls demo.qcow2",
        "cat demo.qcow2:/etc/passwd",
        "info demo.qcow2",
        "tar demo.qcow2",
        "find demo.qcow2",
        "hash demo.qcow2",
    ] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let output = Command::new(DISKFS)
            .args(&words)
            .current_dir(scene.path())
            .env("DISKFS_VM", "none")
            .stdout(full)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("o space left"), "{line}: {told}");
        assert_eq!(output.status.code(), Some(1), "{line}: {told}");
    }
}
