//! cp and tar: the copies on the host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{Tree, expected_tree, image, require, require_root};

use crate::diskfs;

/// Removes what a copy can't have: inode numbers and change times of its own filesystem.
fn comparable(mut tree: Tree, without: &[&str]) -> Tree {
    tree.statfs = None;
    tree.entries
        .retain(|entry| !without.contains(&entry.path.as_str()));
    let root = tree
        .entries
        .iter()
        .find(|entry| entry.path.is_empty())
        .map(|root| root.inode);
    assert!(root.is_some(), "the tree has a root");
    for entry in &mut tree.entries {
        entry.inode = 0;
        entry.allocated = 0;
        entry.ctime = String::new();
        // Reading the copy to compare it changes the access time.
        entry.atime = String::new();
        entry.btime = None;
        entry.holes = None;
        entry.flags = Vec::new();
        if entry.kind == 'd' {
            entry.size = 0;
            entry.links = 0;
        }
    }
    tree
}

fn assert_same(what: &str, directory: &Path, without: &[&str]) {
    let expected = comparable(expected_tree("ext4-default"), without);
    let found = comparable(Tree::of_directory(directory).unwrap(), &[]);
    let differences = expected.differences(&found);
    assert!(differences.is_empty(), "{what}: {differences:#?}");
}

#[test]
fn cp_keeps_everything() {
    if require_root().is_none() {
        return;
    }
    let image = image("ext4-default");
    diskfs(&image, &["cp", "-a", "ext4-default:/", "out"]).bytes();
    let out = image.directory().join("out");
    assert_same("cp -a", &out, &[]);
    let sparse = fs::metadata(out.join("sparse-middle")).unwrap();
    assert!(sparse.blocks() * 512 < sparse.size(), "holes stay holes");
    // A second copy replaces the first one.
    diskfs(&image, &["cp", "-a", "ext4-default:/.", "out"]).bytes();
    assert_same("cp -a twice", &out, &[]);
}

#[test]
fn tar_keeps_everything() {
    if require_root().is_none() || require("tar").is_none() {
        return;
    }
    let image = image("ext4-default");
    let run = diskfs(&image, &["tar", "-f", "out.tar", "ext4-default"]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    assert!(
        run.stderr().contains("./socket: skipped a socket"),
        "{}",
        run.stderr()
    );
    let out = image.directory().join("out");
    fs::create_dir(&out).unwrap();
    let status = Command::new("tar")
        .args([
            "--numeric-owner",
            "--xattrs",
            "--xattrs-include=*",
            "-xpf",
            "../out.tar",
        ])
        .current_dir(&out)
        .status()
        .unwrap();
    assert!(status.success());
    assert_same("tar", &out, &["socket"]);
    let sparse = fs::metadata(out.join("sparse-middle")).unwrap();
    assert!(sparse.blocks() * 512 < sparse.size(), "holes stay holes");
}

#[test]
fn tar_is_the_same_every_time_and_takes_members() {
    let demo = image("demo.qcow2");
    let first = diskfs(&demo, &["tar", "demo.qcow2"]);
    let second = diskfs(&demo, &["tar", "demo.qcow2:/"]);
    assert_eq!(first.bytes(), second.bytes());
    let some = diskfs(
        &demo,
        &["tar", "demo.qcow2:/", "etc/hostname", "/etc/network/"],
    );
    let mut archive = tar::Archive::new(some.bytes());
    let names: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(
        names,
        ["etc/hostname", "etc/network/", "etc/network/interfaces"]
    );
    let below = diskfs(&demo, &["tar", "-C", "etc", "demo.qcow2:/", "hostname"]);
    assert_eq!(
        tar::Archive::new(below.bytes()).entries().unwrap().count(),
        1
    );
    let (code, _) = diskfs(&demo, &["tar", "demo.qcow2:/", "nothing"]).failure();
    assert_eq!(code, 3);
}

/// The largest sparse files are copied in no time and without space.
#[test]
fn tar_packs_the_largest_sparse_files() {
    let image = image("ext4-sparse");
    let archive = diskfs(&image, &["tar", "ext4-sparse"]);
    assert!(archive.bytes().len() < 64 << 20);
    if require("tar").is_none() {
        return;
    }
    fs::write(image.directory().join("out.tar"), archive.bytes()).unwrap();
    let list = Command::new("tar")
        .args(["-tvf", "out.tar"])
        .current_dir(image.directory())
        .output();
    let list = String::from_utf8(list.unwrap().stdout).unwrap();
    for entry in &expected_tree("ext4-sparse").entries {
        if entry.kind == '-' {
            let line = list
                .lines()
                .find(|line| line.ends_with(&format!("./{}", entry.path)));
            let line = line.unwrap_or_else(|| panic!("{} is not in\n{list}", entry.path));
            assert!(line.contains(&format!(" {} ", entry.size)), "{line}");
        }
    }
}

#[test]
fn cp_takes_files_where_they_are_told_to_go() {
    let demo = image("demo.qcow2");
    let read = |path: &str| fs::read_to_string(demo.directory().join(path)).unwrap();
    diskfs(&demo, &["cp", "demo.qcow2:/etc/hostname", "."]).bytes();
    assert_eq!(read("hostname"), "demo\n");
    diskfs(&demo, &["cp", "demo.qcow2:/etc/hostname", "renamed"]).bytes();
    assert_eq!(read("renamed"), "demo\n");
    fs::create_dir(demo.directory().join("into")).unwrap();
    diskfs(
        &demo,
        &["cp", "demo.qcow2:/etc/hostname", "/etc/timezone", "into"],
    )
    .bytes();
    assert_eq!(read("into/timezone"), "Etc/UTC\n");
    // A symlink is followed within the image, or copied as a symlink.
    diskfs(&demo, &["cp", "demo.qcow2:/etc/os-release", "followed"]).bytes();
    assert!(read("followed").contains("ID=demo"));
    diskfs(&demo, &["cp", "-r", "demo.qcow2:/etc/os-release", "link"]).bytes();
    let target = fs::read_link(demo.directory().join("link")).unwrap();
    assert_eq!(target, Path::new("../usr/lib/os-release"));
    let json = diskfs(
        &demo,
        &["cp", "-r", "--json", "demo.qcow2:/etc/network", "net"],
    )
    .json();
    assert_eq!(
        (json["files"].as_u64(), json["copied_bytes"].as_u64()),
        (Some(2), Some(63))
    );
}

#[test]
fn cp_leaves_alone_what_it_should() {
    let demo = image("demo.qcow2");
    let before = fs::read(demo.path()).unwrap();
    let cases: [(&[&str], i32, &str); 6] = [
        (
            &["cp", "demo.qcow2:/etc/hostname", "demo.qcow2"],
            2,
            "the image itself",
        ),
        (
            &["cat", "-o", "demo.qcow2", "demo.qcow2:/etc/hostname"],
            2,
            "the image itself",
        ),
        (
            &["tar", "-f", "demo.qcow2", "demo.qcow2"],
            2,
            "the image itself",
        ),
        (&["tar", "demo.qcow2:/etc/hostname"], 1, "as a member"),
        (
            &["cp", "demo.qcow2:/etc/hostname", "/dev/null"],
            2,
            "not a regular file",
        ),
        (&["cp", "demo.qcow2:/etc/hostname", "no/such"], 3, "no"),
    ];
    for (words, code, message) in cases {
        let (found, stderr) = diskfs(&demo, words).failure();
        assert_eq!(found, code, "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
    assert_eq!(fs::read(demo.path()).unwrap(), before);
    fs::write(demo.directory().join("mine"), "mine").unwrap();
    let (_, stderr) = diskfs(&demo, &["cp", "-n", "demo.qcow2:/etc/hostname", "mine"]).failure();
    assert!(!stderr.is_empty());
    assert_eq!(fs::read(demo.directory().join("mine")).unwrap(), b"mine");
}
