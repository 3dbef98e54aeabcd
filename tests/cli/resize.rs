//! resize: image, partition and filesystem grow in one command, judged by sfdisk, sgdisk, e2fsck
//! and qemu-img.

use std::path::Path;

use diskfs_fixtures::have;

use crate::diskfs_in;
use crate::resize_stacks::shell;

#[test]
fn image_partition_and_filesystem_grow() {
    if !have(&[
        "mke2fs", "e2fsck", "sfdisk", "sgdisk", "qemu-img", "dumpe2fs",
    ]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let run = |words: &[&str]| diskfs_in(path, words);
    let tool = |words: &[&str]| {
        let mut command = diskfs_fixtures::command(words[0]);
        let output = command
            .args(&words[1..])
            .current_dir(path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (label, format) in [("gpt", "qcow2"), ("dos", "raw")] {
        run(&["mkfs", "ext4", "--force", "--size", "30M", "part.img"]).bytes();
        std::fs::write(path.join("file"), "contents\n").unwrap();
        run(&["cp", "file", "part.img:/file"]).bytes();
        run(&["create", "--force", "disk.raw", "32M"]).bytes();
        let script = format!(
            "printf 'label: {label}\\n2048,61440,L\\n' | sfdisk -q disk.raw && \
             dd if=part.img of=disk.raw bs=1M seek=1 conv=notrunc status=none && \
             qemu-img convert -O {format} disk.raw disk.img"
        );
        tool(&["sh", "-c", &script]);
        let words = ["resize", "--format", format, "disk.img", "+160M"];
        let said = run(&words).text();
        let expected = if label == "gpt" {
            "p1: ext4, 30 MiB -> 190.98 MiB\n"
        } else {
            "p1: ext4, 30 MiB -> 191 MiB\n"
        };
        assert!(said.ends_with(expected), "{said}");
        tool(&["qemu-img", "convert", "-O", "raw", "disk.img", "after.raw"]);
        tool(&["sfdisk", "--verify", "after.raw"]);
        if label == "gpt" {
            let verified = tool(&["sgdisk", "-v", "after.raw"]);
            assert!(verified.contains("No problems found"), "{verified}");
        }
        tool(&[
            "dd",
            "if=after.raw",
            "of=part.img",
            "bs=1M",
            "skip=1",
            "status=none",
        ]);
        tool(&["e2fsck", "-fn", "part.img"]);
        let contents = run(&["cat", "--format", format, "disk.img:/file"]).text();
        assert_eq!(contents, "contents\n");
        // Nothing to grow is a success, and changes nothing.
        let before = std::fs::read(path.join("disk.img")).unwrap();
        run(&["resize", "--format", format, "disk.img"]).bytes();
        assert!(before == std::fs::read(path.join("disk.img")).unwrap());
        let smaller = run(&["resize", "--format", format, "disk.img", "20M"]);
        assert_eq!(smaller.code(), Some(2), "{}", smaller.stderr());
        assert!(before == std::fs::read(path.join("disk.img")).unwrap());
    }
}

/// Creates a disk with a GPT and two filesystems of 20 MiB and 40 MiB, the second with a file.
fn two_partitions(directory: &Path) {
    shell(
        directory,
        "truncate -s 64M disk.raw
         printf 'label: gpt\n2048,40960,L\n43008,81920,L\n' | sfdisk -q disk.raw
         head -c 9000000 /dev/urandom > file",
    );
    for volume in ["p1", "p2"] {
        let words = ["mkfs", "ext4", "--volume", volume, "disk.raw"];
        diskfs_in(directory, &words).bytes();
    }
    let words = ["cp", "--volume", "p2", "file", "disk.raw:/file"];
    diskfs_in(directory, &words).bytes();
}

/// Fails unless the table is valid and the second filesystem is whole.
fn judge_second(directory: &Path) {
    shell(
        directory,
        "sfdisk --verify disk.raw > said; sgdisk -v disk.raw | grep -q 'No problems'
         dd if=disk.raw of=part bs=512 skip=43008 status=none conv=sparse
         e2fsck -fn part > said 2>&1",
    );
    let read = diskfs_in(directory, &["cat", "--volume", "p2", "disk.raw:/file"]);
    assert!(read.bytes() == std::fs::read(directory.join("file")).unwrap());
}

fn length(directory: &Path) -> u64 {
    directory.join("disk.raw").metadata().unwrap().len()
}

#[test]
fn bad_requests_leave_the_image_as_it_was() {
    if !have(&["sfdisk", "sgdisk", "mke2fs"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    two_partitions(directory.path());
    run(&["create", "blank.raw", "8M"]).bytes();
    shell(
        directory.path(),
        "truncate -s 64M mbr.raw; printf 'label: dos\n2048,40960,L\n' | sfdisk -q mbr.raw
         truncate -s 16M small.raw; mke2fs -qF -t ext4 -b 1024 -O ^64bit,^resize_inode small.raw",
    );
    run(&["mkfs", "ext4", "--volume", "p1", "mbr.raw"]).bytes();
    let hash = || shell(directory.path(), "sha256sum *.raw");
    let sizes = || shell(directory.path(), "stat -c '%n %s' *.raw");
    let (before, sizes_before) = (hash(), sizes());
    for (words, reason) in [
        (
            &["disk.raw", "+8M", "--volume", "p1"][..],
            "partition p2 follows it",
        ),
        (&["disk.raw", "32M", "--volume", "p2"], "--shrink"),
        (&["disk.raw", "+8M", "--volume", "p9"], "p9"),
        (&["mbr.raw", "3T"], "MBR"),
        // Blocks of 1 KiB without 64bit end at 4 TiB.
        (
            &["small.raw", "5T"],
            "without the feature `64bit`, at most 4294967295 are possible; microVMs are disabled",
        ),
        (&["disk.raw", "7E", "--volume", "p2"], ""),
        (&["blank.raw", "+1M"], ""),
        (
            &["disk.raw", "24M", "--shrink", "--volume", "p2"],
            "at least",
        ),
        (
            &["disk.raw", "128M", "--shrink", "--volume", "p2"],
            "larger",
        ),
    ] {
        let (_, said) = run(&[&["resize"], words].concat()).failure();
        assert!(said.contains(reason), "{words:?}: {said}");
        assert_eq!(sizes(), sizes_before, "{words:?}");
        assert_eq!(hash(), before, "{words:?}");
    }
    // Without a new size there is nothing to do, which is no failure.
    let said = run(&["resize", "--volume", "p1", "disk.raw"]).text();
    assert!(said.contains("p2 follows"), "{said}");
    assert!(said.ends_with("nothing to resize\n"), "{said}");
    let done = run(&["resize", "--json", "--volume", "p1", "disk.raw"]).json();
    assert_eq!(done["changed"], false);
    let note = done["steps"][1]["note"].as_str().unwrap();
    assert!(note.contains("p2"), "{done}");
    assert_eq!(hash(), before);
}

#[test]
fn an_overlay_and_a_dry_run_leave_the_image_as_it_is() {
    if !have(&["sfdisk", "sgdisk", "qemu-img"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    two_partitions(directory.path());
    let hash = || shell(directory.path(), "sha256sum disk.raw");
    let before = hash();
    let words = ["resize", "--json", "--volume", "p2", "disk.raw", "128M"];
    let planned = run(&[&words[..], &["--dry-run"]].concat()).json();
    assert_eq!(hash(), before);
    let done = run(&[&words[..], &["--overlay", "o.qcow2"]].concat()).json();
    assert_eq!(planned["steps"].as_array().unwrap().len(), 3);
    assert_eq!(planned["steps"][2], done["steps"][2]);
    assert_eq!(hash(), before);
    let script = "qemu-img check -q o.qcow2; qemu-img convert -O raw o.qcow2 new.raw
                  mv new.raw disk.raw";
    shell(directory.path(), script);
    judge_second(directory.path());
    assert_eq!(length(directory.path()), 128 << 20);
}

#[test]
fn a_disk_shrinks_from_the_inside_to_the_outside() {
    if !have(&["sfdisk", "sgdisk", "e2fsck"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let run = |words: &[&str]| diskfs_in(path, words);
    two_partitions(path);
    run(&["resize", "--volume", "p2", "disk.raw", "256M"]).bytes();
    let words = ["resize", "--shrink", "--volume", "p2", "disk.raw", "100M"];
    run(&words).bytes();
    assert_eq!(length(path), 100 << 20);
    judge_second(path);
    let words = [
        "resize",
        "--json",
        "--shrink-to-minimum",
        "--volume",
        "p2",
        "disk.raw",
    ];
    let done = run(&words).json();
    let layers = done["steps"].as_array().unwrap().iter();
    let layers: Vec<_> = layers.map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(layers, ["filesystem", "partition", "image"]);
    assert!(length(path) < 60 << 20, "{done}");
    judge_second(path);
}

/// Makes a disk of 128 MiB whose second partition has a file at its end.
fn file_at_the_end(directory: &Path, kind: &str) {
    shell(
        directory,
        "rm -f disk.raw; truncate -s 128M disk.raw
         printf 'label: gpt\n2048,40960,L\n43008,,L\n' | sfdisk -q disk.raw
         head -c 9000000 /dev/urandom > file; truncate -s 80M filler",
    );
    let run = |words: &[&str]| drop(diskfs_in(directory, words).bytes().to_vec());
    run(&["mkfs", kind, "--volume", "p2", "disk.raw"]);
    for name in ["filler", "file"] {
        let to = format!("disk.raw:/{name}");
        run(&["cp", "--volume", "p2", name, &to]);
    }
    run(&["rm", "--volume", "p2", "disk.raw:/filler"]);
}

/// Fails unless the table is valid and the second filesystem, of this checker, is whole.
fn judge_second_by(directory: &Path, fsck: &str) {
    shell(
        directory,
        &format!(
            "sfdisk --verify disk.raw > said; sgdisk -v disk.raw | grep -q 'No problems'
             dd if=disk.raw of=part bs=512 skip=43008 status=none conv=sparse
             {fsck} -n part > said 2>&1 || {{ cat said; false; }}"
        ),
    );
    let read = diskfs_in(directory, &["cat", "--volume", "p2", "disk.raw:/file"]);
    assert!(read.bytes() == std::fs::read(directory.join("file")).unwrap());
}

#[test]
fn fat_and_exfat_shrink_with_their_disk() {
    if !have(&["sfdisk", "sgdisk", "fsck.fat", "fsck.exfat"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for (kind, fsck) in [("fat", "fsck.fat"), ("exfat", "fsck.exfat")] {
        file_at_the_end(path, kind);
        let shrink = |words: &[&str]| {
            let common = ["resize", "--json", "--volume", "p2", "disk.raw"];
            diskfs_in(path, &[&common, words].concat())
        };
        let before = std::fs::read(path.join("disk.raw")).unwrap();
        let (code, said) = shrink(&["--shrink", "24M"]).failure();
        assert_eq!(code, 1, "{said}");
        shrink(&["--shrink", "100M", "--dry-run"]).bytes();
        assert!(before == std::fs::read(path.join("disk.raw")).unwrap());
        shrink(&["--shrink", "100M"]).bytes();
        assert_eq!(length(path), 100 << 20);
        judge_second_by(path, fsck);
        let done = shrink(&["--shrink-to-minimum"]).json();
        assert!(length(path) < 50 << 20, "{done}");
        judge_second_by(path, fsck);
        let again = shrink(&["--shrink-to-minimum"]).json();
        assert_eq!(again["changed"], false, "{again}");
    }
}

/// The command is killed at some moments of its run; the same command then completes the work.
#[test]
fn a_killed_shrink_is_completed_by_the_same_command() {
    if !have(&["sfdisk", "sgdisk", "fsck.fat", "fsck.exfat", "e2fsck"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for (kind, fsck) in [
        ("ext4", "e2fsck -f"),
        ("fat", "fsck.fat"),
        ("exfat", "fsck.exfat"),
    ] {
        file_at_the_end(path, kind);
        std::fs::copy(path.join("disk.raw"), path.join("old.raw")).unwrap();
        let words = ["resize", "--shrink", "--volume", "p2", "disk.raw", "72M"];
        for delay_ms in [5, 10, 15, 20, 30, 45] {
            std::fs::copy(path.join("old.raw"), path.join("disk.raw")).unwrap();
            let mut command = std::process::Command::new(crate::DISKFS);
            let command = command.args(words).current_dir(path);
            let command = command.stdout(std::process::Stdio::null());
            let mut child = command.spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(delay_ms));
            let _ = child.kill();
            child.wait().unwrap();
            let again = diskfs_in(path, &words);
            assert_eq!(
                again.code(),
                Some(0),
                "{kind} {delay_ms}: {}",
                again.stderr()
            );
            assert_eq!(length(path), 72 << 20);
            judge_second_by(path, fsck);
        }
    }
}

#[test]
fn swap_shrinks_with_its_disk() {
    if !have(&["sfdisk", "blkid"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    shell(
        path,
        "truncate -s 64M disk.raw
         printf 'label: gpt\n2048,,S\n' | sfdisk -q disk.raw",
    );
    let run = |words: &[&str]| diskfs_in(path, words);
    run(&["mkfs", "swap", "--volume", "p1", "disk.raw"]).bytes();
    run(&["resize", "--shrink", "disk.raw", "--volume", "p1", "20M"]).bytes();
    assert_eq!(length(path), 20 << 20);
    shell(
        path,
        "dd if=disk.raw of=part bs=1M skip=1 count=18 status=none
         test \"$(blkid -p -o value -s TYPE part)\" = swap",
    );
}

/// The command is killed at some moments of its run; the same command then completes the work.
#[test]
fn a_killed_resize_is_completed_by_the_same_command() {
    if !have(&["sfdisk", "sgdisk", "e2fsck"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    two_partitions(path);
    std::fs::copy(path.join("disk.raw"), path.join("old.raw")).unwrap();
    let words = ["resize", "--json", "--volume", "p2", "disk.raw", "300M"];
    for delay_ms in [1, 4, 10, 20, 35, 60] {
        std::fs::copy(path.join("old.raw"), path.join("disk.raw")).unwrap();
        let mut command = std::process::Command::new(crate::DISKFS);
        let command = command
            .args(words)
            .current_dir(path)
            .stdout(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay_ms));
        let _ = child.kill();
        child.wait().unwrap();
        let again = diskfs_in(path, &words);
        assert_eq!(again.code(), Some(0), "{delay_ms}: {}", again.stderr());
        judge_second(path);
        let done = diskfs_in(path, &words).json();
        assert_eq!(done["changed"], false, "{done}");
    }
}

#[test]
fn an_image_in_use_is_refused() {
    if !have(&["sfdisk", "sgdisk"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    two_partitions(directory.path());
    let path = directory.path().join("disk.raw");
    let options = diskfs::Disk::options().read_only(false);
    let in_use = options.open(&path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let words = ["resize", "--volume", "p2", "disk.raw", "+8M"];
    let (code, said) = diskfs_in(directory.path(), &words).failure();
    assert_eq!(code, 6, "{said}");
    assert!(before == std::fs::read(&path).unwrap());
    in_use.close().unwrap();
    diskfs_in(directory.path(), &words).bytes();
}
