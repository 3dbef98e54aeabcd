//! sparsify: the space that it frees, compared with the kernel's fstrim, and the contents that it
//! keeps.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use diskfs_fixtures::{Mount, have, require_root};

use crate::diskfs_in;

const SIZE: &str = "96M";
/// The blocks of the host's extent tree, which count as allocated for the file, too.
const HOST_METADATA_BYTES: u64 = 256 << 10;

/// The command that formats a file, the command that checks it, and whether this kernel mounts it.
struct Filesystem {
    make: &'static [&'static str],
    check: &'static [&'static str],
    is_mountable: bool,
}

const fn ext(make: &'static [&'static str]) -> Filesystem {
    Filesystem {
        make,
        check: &["e2fsck", "-fn"],
        is_mountable: true,
    }
}

const FILESYSTEMS: &[Filesystem] = &[
    ext(&["mke2fs", "-qF", "-t", "ext4"]),
    ext(&[
        "mke2fs", "-qF", "-t", "ext4", "-b", "1024", "-O", "^flex_bg",
    ]),
    ext(&[
        "mke2fs",
        "-qF",
        "-t",
        "ext4",
        "-O",
        "bigalloc,^resize_inode",
    ]),
    ext(&[
        "mke2fs",
        "-qF",
        "-t",
        "ext4",
        "-b",
        "1024",
        "-O",
        "meta_bg,^resize_inode",
    ]),
    ext(&["mke2fs", "-qF", "-t", "ext2", "-b", "2048"]),
    Filesystem {
        make: &["mkfs.vfat", "-F", "32", "-s", "1"],
        check: &["fsck.vfat", "-n"],
        is_mountable: false,
    },
    Filesystem {
        make: &["mkfs.vfat", "-F", "16"],
        check: &["fsck.vfat", "-n"],
        is_mountable: false,
    },
    Filesystem {
        make: &["mkfs.exfat", "-c", "4096"],
        check: &["fsck.exfat", "-n"],
        is_mountable: false,
    },
];

fn tool(directory: &Path, words: &[&str], image: &str) {
    let mut command = diskfs_fixtures::command(words[0]);
    let command = command.args(&words[1..]).arg(image);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Fills an image with files of many sizes, and removes every second one.
fn fill(directory: &Path, image: &str) {
    let tree = directory.join("tree");
    if !tree.exists() {
        for group in ["kept", "removed"] {
            fs::create_dir_all(tree.join(group)).unwrap();
        }
        for nth in 0..60_usize {
            let group = if nth.is_multiple_of(2) {
                "kept"
            } else {
                "removed"
            };
            let contents = vec![u8::try_from(nth + 1).unwrap(); nth * nth * 300];
            fs::write(tree.join(format!("{group}/{nth}")), contents).unwrap();
        }
    }
    // Alternating copies mix the files of both groups on the disk.
    for nth in 0..60_usize {
        let group = if nth.is_multiple_of(2) {
            "kept"
        } else {
            "removed"
        };
        let from = format!("tree/{group}/{nth}");
        let to = format!("{image}:/{group}{nth}");
        diskfs_in(directory, &["cp", &from, &to]).bytes();
    }
    let removed: Vec<_> = (1..60)
        .step_by(2)
        .map(|nth| format!("{image}:/removed{nth}"))
        .collect();
    let mut words = vec!["rm"];
    words.extend(removed.iter().map(String::as_str));
    diskfs_in(directory, &words).bytes();
}

#[test]
fn as_much_is_freed_as_by_the_kernel() {
    if !have(&[
        "mke2fs",
        "e2fsck",
        "mkfs.vfat",
        "fsck.vfat",
        "mkfs.exfat",
        "fsck.exfat",
        "fstrim",
    ]) {
        return;
    }
    if require_root().is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    for Filesystem {
        make,
        check,
        is_mountable,
    } in FILESYSTEMS
    {
        run(&["create", "--force", "disk.raw", SIZE]).bytes();
        tool(directory.path(), make, "disk.raw");
        fill(directory.path(), "disk.raw");
        let full = allocated(&at("disk.raw"));
        for copy in ["before.raw", "kernel.raw"] {
            tool(directory.path(), &["cp", "--sparse=auto", "disk.raw"], copy);
        }

        let planned = run(&["sparsify", "--dry-run", "--json", "disk.raw"]).json();
        assert_eq!(allocated(&at("disk.raw")), full, "{make:?}");
        let done = run(&["sparsify", "--json", "disk.raw"]).json();
        assert_eq!(done["free_bytes"], planned["free_bytes"], "{make:?}");
        assert_eq!(
            done["discarded_bytes"], planned["discarded_bytes"],
            "{make:?}"
        );
        let discarded = done["discarded_bytes"].as_u64().unwrap();
        assert!(discarded > 2 << 20, "{make:?}: {done}");
        let left = allocated(&at("disk.raw"));
        assert!(
            left + discarded <= full + HOST_METADATA_BYTES,
            "{make:?}: {full}, {left}, {discarded}"
        );
        tool(directory.path(), check, "disk.raw");
        assert_eq!(
            run(&["diff", "before.raw", "disk.raw"]).text(),
            "",
            "{make:?}"
        );

        let again = run(&["sparsify", "--json", "disk.raw"]).json();
        // Free blocks that share a block of the host with used ones stay allocated there.
        let rest = again["discarded_bytes"].as_u64().unwrap();
        assert!(rest * 16 < discarded, "{make:?}: {again}");
        if *is_mountable {
            // The copy lacks what the host had allocated without writing it.
            let copied = allocated(&at("kernel.raw"));
            let mount = Mount::of_image(&at("kernel.raw"), "rw").unwrap();
            let path = mount.path().to_str().unwrap().to_owned();
            tool(directory.path(), &["fstrim"], &path);
            mount.unmount().unwrap();
            let by_kernel = copied - allocated(&at("kernel.raw"));
            let ours = full - left;
            assert!(
                ours + HOST_METADATA_BYTES >= by_kernel,
                "{make:?}: {ours}, kernel {by_kernel}"
            );
        }
    }
}

#[test]
fn clusters_of_qcow2_are_freed_in_partitions() {
    if !have(&["qemu-img", "mke2fs", "sfdisk"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["create", "part.raw", SIZE]).bytes();
    tool(
        directory.path(),
        &["mke2fs", "-qF", "-t", "ext4"],
        "part.raw",
    );
    fill(directory.path(), "part.raw");
    run(&["create", "disk.raw", "100M"]).bytes();
    let script = "echo 2048,196608,L | sfdisk -q disk.raw && \
                  dd if=part.raw of=disk.raw bs=1M seek=1 conv=notrunc,sparse status=none";
    tool(directory.path(), &["sh", "-c"], script);
    tool(
        directory.path(),
        &["qemu-img", "convert", "-O", "qcow2", "disk.raw"],
        "disk.qcow2",
    );
    tool(directory.path(), &["cp", "disk.qcow2"], "before.qcow2");
    let said = run(&["sparsify", "--dry-run", "disk.qcow2"]).text();
    assert!(
        said.starts_with("p1: ") && said.contains("stores"),
        "{said}"
    );
    run(&["sparsify", "disk.qcow2"]).bytes();
    tool(directory.path(), &["qemu-img", "check"], "disk.qcow2");
    let diff = run(&["diff", "before.qcow2", "disk.qcow2"]);
    assert_eq!(diff.text(), "");
    let clusters = |name: &str| {
        let mut command = diskfs_fixtures::command("qemu-img");
        let command = command.args(["check", "--output=json", name]);
        let output = command.current_dir(directory.path()).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["allocated-clusters"].as_u64().unwrap()
    };
    assert!(clusters("disk.qcow2") + 32 < clusters("before.qcow2"));
}

#[test]
fn a_damaged_filesystem_is_refused() {
    if !have(&["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["create", "disk.raw", SIZE]).bytes();
    tool(
        directory.path(),
        &["mke2fs", "-qF", "-t", "ext4"],
        "disk.raw",
    );
    let damage = ["debugfs", "-w", "-R", "set_super_value state 2"];
    tool(directory.path(), &damage, "disk.raw");
    let before = fs::read(directory.path().join("disk.raw")).unwrap();
    for words in [
        &["sparsify", "disk.raw"][..],
        &["sparsify", "--dry-run", "disk.raw"],
    ] {
        let refused = run(words);
        assert_eq!(refused.code(), Some(5), "{}", refused.stderr());
        assert!(refused.stderr().contains("errors"), "{}", refused.stderr());
    }
    assert!(fs::read(directory.path().join("disk.raw")).unwrap() == before);
}

#[test]
fn what_only_the_backing_file_stores_is_left_alone() {
    if !have(&["qemu-img", "mke2fs", "e2fsck"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["create", "base.raw", SIZE]).bytes();
    tool(
        directory.path(),
        &["mke2fs", "-qF", "-t", "ext4"],
        "base.raw",
    );
    fill(directory.path(), "base.raw");
    let overlay = [
        "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "base.raw",
    ];
    tool(directory.path(), &overlay, "over.qcow2");
    let path = directory.path().join("over.qcow2");
    let before = allocated(&path);
    let planned = run(&["sparsify", "--dry-run", "--json", "over.qcow2"]).json();
    assert_eq!(planned["discarded_bytes"], 0, "{planned}");
    assert!(planned["free_bytes"].as_u64() > Some(2 << 20), "{planned}");
    run(&["sparsify", "over.qcow2"]).bytes();
    // Closing the filesystem may write its superblock: a few clusters at most.
    assert!(allocated(&path) <= before + (512 << 10));

    // Space that the overlay itself stores is freed.
    fs::write(directory.path().join("new"), vec![7; 20 << 20]).unwrap();
    run(&["cp", "new", "over.qcow2:/new"]).bytes();
    run(&["rm", "over.qcow2:/new"]).bytes();
    let full = allocated(&path);
    let done = run(&["sparsify", "--json", "over.qcow2"]).json();
    assert!(done["discarded_bytes"].as_u64() > Some(19 << 20), "{done}");
    assert!(allocated(&path) + (19 << 20) < full, "{done}");
    tool(directory.path(), &["qemu-img", "check", "-q"], "over.qcow2");
    assert_eq!(run(&["diff", "base.raw", "over.qcow2"]).text(), "");
}

#[test]
fn an_external_data_file_is_measured() {
    if !have(&["qemu-img", "mke2fs"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["create", "plain.raw", SIZE]).bytes();
    tool(
        directory.path(),
        &["mke2fs", "-qF", "-t", "ext4"],
        "plain.raw",
    );
    fill(directory.path(), "plain.raw");
    let script =
        "qemu-img create -q -f qcow2 -o data_file=data.raw,data_file_raw=on disk.qcow2 96M";
    tool(directory.path(), &["sh", "-c"], script);
    let convert = ["qemu-img", "convert", "-n", "-O", "qcow2", "plain.raw"];
    tool(directory.path(), &convert, "disk.qcow2");
    let words = [
        "sparsify",
        "--json",
        "--data-file",
        "data.raw",
        "disk.qcow2",
    ];
    let done = run(&words).json();
    let saved = done["before_bytes"].as_u64().unwrap() - done["after_bytes"].as_u64().unwrap();
    assert!(saved > 2 << 20, "{done}");
}
