//! The memory of large changes: as little as for small ones.

use std::fs;
use std::path::Path;
use std::process::Command;

use diskfs_fixtures::require;

use crate::{DISKFS, diskfs_in};

/// The most memory that writing may use.
const MEMORY_MAX_BYTES: u64 = 128 << 20;

/// Returns a number from the environment.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect(variable))
}

/// Runs `diskfs` with `stdin` from a file, if given, and fails if it used more memory than allowed.
fn frugally(directory: &Path, words: &[&str], stdin: &str) {
    // Prints the memory that the kernel counted for the child: `ru_maxrss`, in KiB.
    const MEASURE: &str = "\
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:], stdin=open(sys.argv[1]))
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let output = Command::new("python3")
        .args(["-c", MEASURE, stdin, DISKFS])
        .args(words)
        .current_dir(directory)
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let (code, peak) = said.trim().rsplit_once(' ').expect(&stderr);
    assert_eq!(code, "0", "{words:?}: {stderr}");
    let peak = peak.parse::<u64>().unwrap() << 10;
    assert!(peak < MEMORY_MAX_BYTES, "{words:?} used {peak} bytes");
}

fn run(directory: &Path, program: &str, words: &[&str]) {
    let mut command = Command::new(program);
    let output = command.args(words).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Makes a tree of this many files, the first of them in one directory.
fn make_tree(root: &Path, files: u64, in_one: u64) {
    for n in 0..files {
        let dir = if n < in_one {
            root.join("one")
        } else {
            root.join(format!("{}/{}", n / 1000, n / 30))
        };
        fs::create_dir_all(&dir).unwrap();
        let len = usize::try_from(n * 7919 % 20_000).unwrap();
        let len = if n < in_one { 0 } else { len };
        fs::write(dir.join(format!("file-{n}")), vec![1; len]).unwrap();
    }
}

/// Writes a large file, very many names in one directory, and a large tree to a filesystem in a raw
/// image and in qcow2. `DISKFS_MEMORY_MIB` and `DISKFS_MEMORY_FILES` set the sizes.
#[test]
fn large_changes_take_little() {
    for program in ["mke2fs", "e2fsck", "tar", "qemu-img", "python3"] {
        if require(program).is_none() {
            return;
        }
    }
    let mib = number("DISKFS_MEMORY_MIB", 256);
    let files = number("DISKFS_MEMORY_FILES", 3_000);
    let at = tempfile::tempdir().unwrap();
    let at = at.path();
    make_tree(&at.join("tree"), files * 2, files);
    run(at, "tar", &["-cf", "tree.tar", "-C", "tree", "."]);
    let chunk = vec![0x5a; 1 << 20];
    let mut large = fs::File::create(at.join("large")).unwrap();
    for _ in 0..mib {
        std::io::Write::write_all(&mut large, &chunk).unwrap();
    }
    drop(large);

    let size = format!("{}M", mib * 2 + files / 10 + 200);
    let inodes = (files * 6 + 1000).to_string();
    let empty = ["-q", "-F", "-t", "ext4", "-N", &inodes, "empty", &size];
    run(at, "mke2fs", &empty);
    for format in ["raw", "qcow2"] {
        let convert = ["convert", "-f", "raw", "-O", format, "empty", "disk"];
        run(at, "qemu-img", &convert);
        frugally(at, &["cp", "large", "disk:/large"], "/dev/null");
        frugally(at, &["write", "disk:/again"], "large");
        frugally(at, &["mkdir", "disk:/tree"], "/dev/null");
        frugally(at, &["tar-in", "disk:/tree"], "tree.tar");
        frugally(at, &["cp", "-r", "tree", "disk:/copy"], "/dev/null");
        frugally(at, &["rm", "-r", "disk:/tree/one"], "/dev/null");
        let listed = diskfs_in(at, &["ls", "disk:/copy/one"]).text();
        assert_eq!(listed.lines().count() as u64, files);
        if format == "qcow2" {
            run(at, "qemu-img", &["check", "-q", "disk"]);
        }
        run(at, "qemu-img", &["convert", "-O", "raw", "disk", "checked"]);
        run(at, "e2fsck", &["-f", "-n", "checked"]);
        fs::remove_file(at.join("disk")).unwrap();
    }
}
