//! check: its verdicts, compared with e2fsck's, and what it says about damage.

use diskfs_fixtures::have;

use crate::diskfs_in;

#[test]
fn damage_is_found_and_named() {
    if !have(&["mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    let tool = |words: &[&str]| {
        let mut command = diskfs_fixtures::command(words[0]);
        let command = command.args(&words[1..]).current_dir(directory.path());
        command.output().unwrap().status.code()
    };
    for (damage, code) in [
        ("freeb 9", "block-bitmap"),
        ("clri /file", "unused-inode"),
        ("set_inode_field /file links_count 7", "link-count"),
        ("set_super_value free_blocks_count 1", "superblock-count"),
    ] {
        run(&["create", "--force", "disk.img", "16M"]).bytes();
        tool(&["mke2fs", "-qF", "-t", "ext4", "disk.img"]);
        std::fs::write(directory.path().join("file"), "contents\n").unwrap();
        run(&["cp", "file", "disk.img:/file"]).bytes();
        assert_eq!(run(&["check", "disk.img"]).text(), "disk: ext4, clean\n");

        tool(&["debugfs", "-w", "-R", damage, "disk.img"]);
        let before = std::fs::read(directory.path().join("disk.img")).unwrap();
        let checked = run(&["check", "disk.img"]);
        assert_eq!(checked.code(), Some(5), "{damage}");
        assert!(
            checked.stderr().contains("--repair"),
            "{}",
            checked.stderr()
        );
        let document = run(&["check", "--json", "disk.img"]);
        let document = String::from_utf8_lossy(&document.output.stdout).into_owned();
        assert!(document.contains(code), "{damage}: {document}");
        let after = std::fs::read(directory.path().join("disk.img")).unwrap();
        assert!(before == after, "{damage}");
        tool(&["e2fsck", "-fn", "disk.img"]);
    }
}

#[test]
fn a_damaged_image_is_repaired() {
    if !have(&["qemu-img"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    let path = directory.path().join("disk.qcow2");
    run(&["mkfs", "ext4", "--size", "16M", "disk.qcow2"]).bytes();
    let clean = "image: qcow2, clean\ndisk: ext4, clean\n";
    assert_eq!(run(&["check", "disk.qcow2"]).text(), clean);
    // The first refcount block is at cluster 2 in new images; its first counts become 0.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0x20000..0x2000a].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let checked = run(&["check", "disk.qcow2"]);
    assert_eq!(checked.code(), Some(5), "{}", checked.stderr());
    assert!(std::fs::read(&path).unwrap() == bytes);
    let repaired = run(&["check", "--repair", "disk.qcow2"]).text();
    assert_eq!(
        repaired,
        "image: qcow2, clean, repaired\ndisk: ext4, clean\n"
    );
    let mut command = diskfs_fixtures::command("qemu-img");
    assert!(command.arg("check").arg(&path).status().unwrap().success());
}

#[test]
fn nothing_is_left_out_in_silence() {
    if !have(&["qemu-img"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    let path = directory.path().join("disk.qcow2");
    run(&["create", "disk.qcow2", "32M"]).bytes();
    run(&["partition", "create-table", "disk.qcow2", "gpt"]).bytes();
    run(&["partition", "add", "disk.qcow2", "--size", "8M"]).bytes();
    let unknown = run(&["check", "disk.qcow2"]);
    assert!(
        unknown.stderr().contains("p1 has no known content"),
        "{}",
        unknown.stderr()
    );
    // The first L1 entry leads past the end of the file: the image cannot be opened.
    let mut bytes = std::fs::read(&path).unwrap();
    let l1 = usize::try_from(u64::from_be_bytes(bytes[40..48].try_into().unwrap())).unwrap();
    bytes[l1..l1 + 8].copy_from_slice(&0x8000_0080_0000_0000_u64.to_be_bytes());
    std::fs::write(&path, bytes).unwrap();
    let damaged = run(&["check", "disk.qcow2"]);
    assert_eq!(damaged.code(), Some(5));
    let text = String::from_utf8_lossy(&damaged.output.stdout).into_owned();
    assert!(text.starts_with("image: qcow2, damaged"), "{text}");
}

#[test]
fn a_native_repair_says_that_it_repairs_no_filesystem() {
    if !have(&["mke2fs", "debugfs"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["mkfs", "ext4", "--size", "16M", "disk.img"]).bytes();
    let mut command = diskfs_fixtures::command("debugfs");
    let command = command.args(["-w", "-R", "freeb 9", "disk.img"]);
    let output = command.current_dir(directory.path()).output().unwrap();
    assert!(output.status.success());
    let before = std::fs::read(directory.path().join("disk.img")).unwrap();
    let checked = run(&["check", "--repair", "--with", "native", "disk.img"]);
    assert_eq!(checked.code(), Some(5), "{}", checked.stderr());
    let said = checked.stderr();
    assert!(said.contains("repairs no filesystem itself"), "{said}");
    assert!(!said.contains("appliance"), "{said}");
    assert!(before == std::fs::read(directory.path().join("disk.img")).unwrap());
}

#[test]
fn progress_names_the_phase_of_a_check() {
    let directory = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| diskfs_in(directory.path(), words);
    run(&["mkfs", "ext4", "--size", "64M", "disk.img"]).bytes();
    let checked = run(&["check", "--progress", "json", "disk.img"]);
    let said = checked.stderr();
    assert!(said.contains(r#""step":"#), "{said}");
}
