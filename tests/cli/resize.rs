//! resize: image, partition and filesystem grow in one command, judged by sfdisk, sgdisk, e2fsck
//! and qemu-img.

use diskfs_fixtures::have;

use crate::diskfs_in;

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
            "p1: ext4, 190"
        } else {
            "p1: ext4, 191 MiB\n"
        };
        assert!(said.starts_with(expected), "{said}");
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

#[test]
fn what_cannot_grow_is_refused_before_the_image_grows() {
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["mkfs", "swap", "--size", "8M", "swap.img"]).bytes();
    for words in [
        &["resize", "swap.img", "+1M"][..],
        &["resize", "--volume", "p9", "swap.img", "+1M"],
    ] {
        let refused = run(words);
        assert_ne!(refused.code(), Some(0), "{words:?}");
        let len = directory.path().join("swap.img").metadata().unwrap().len();
        assert_eq!(len, 8 << 20, "{words:?}");
    }
}
