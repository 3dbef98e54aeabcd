//! A full filesystem of the host: the commands that make and change images say what is full and what
//! to do, and leave the image as it was, or a state that the same command completes.

use std::fs;
use std::path::Path;

use diskfs_fixtures::{Tmpfs, Tree, have, image};

use crate::resize_stacks::shell;
use crate::{Run, diskfs_in, diskfs_with};

const KIB: u64 = 1 << 10;

/// Fails unless a command has failed because the host is full, and says so.
fn is_full(run: &Run, name: &str) {
    let (code, said) = run.failure();
    assert_eq!(code, 1, "{said}");
    for words in [name, "no space left on the host", "free space there"] {
        assert!(said.contains(words), "{words:?} is not in {said:?}");
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != Tmpfs::FILLER).collect();
    names.sort();
    names
}

/// Makes a sparse disk of 64 MiB with a GPT and a filesystem with a file.
fn disk(directory: &Path, kind: &str) {
    let script = "truncate -s 64M disk.raw
        printf 'label: gpt\n2048,,L\n' | sfdisk -q disk.raw
        head -c 300000 /dev/urandom > file";
    shell(directory, script);
    diskfs_in(directory, &["mkfs", kind, "--volume", "p1", "disk.raw"]).bytes();
    diskfs_in(directory, &["cp", "file", "disk.raw:/file"]).bytes();
}

/// Fails unless the disk `judged.raw` is whole, with its file.
fn judge(directory: &Path, kind: &str) {
    let checker = match kind {
        "ext4" => "e2fsck -fn",
        _ => "fsck.fat -n",
    };
    let script = format!(
        "sgdisk -v judged.raw | grep -q 'No problems'
         dd if=judged.raw of=part bs=1M skip=1 status=none conv=sparse
         {checker} part > said 2>&1 || {{ cat said; false; }}"
    );
    shell(directory, &script);
    let read = diskfs_in(directory, &["cat", "judged.raw:/file"]);
    assert!(read.bytes() == fs::read(directory.join("file")).unwrap());
}

#[test]
fn a_filesystem_without_room_stays_whole_and_clean() {
    if !have(&["sgdisk", "sfdisk", "fsck.fat", "e2fsck"]) {
        return;
    }
    for kind in ["vfat", "ext4"] {
        let Some(tmpfs) = Tmpfs::new("24M") else {
            return;
        };
        disk(tmpfs.path(), kind);
        let elsewhere = tempfile::tempdir().unwrap();
        let large = elsewhere.path().join("large");
        fs::write(&large, vec![1; 32 << 20]).unwrap();
        let copy = ["cp", large.to_str().unwrap(), "disk.raw:/large"];
        is_full(&diskfs_in(tmpfs.path(), &copy), "disk.raw");
        let script = format!(
            "cp --sparse=always {}/disk.raw judged.raw; cp {0}/file .",
            tmpfs.path().display()
        );
        shell(elsewhere.path(), &script);
        judge(elsewhere.path(), kind);
        let said = fs::read_to_string(elsewhere.path().join("said")).unwrap();
        assert!(!said.contains("Dirty bit is set"), "{said}");
    }
}

/// Resizes with less and less space, until the command fails at its first write.
fn resize(kind: &str, format: &str, words: &[&str]) {
    let Some(tmpfs) = Tmpfs::new("24M") else {
        return;
    };
    let (full, directory) = (tmpfs.path(), tempfile::tempdir().unwrap());
    let directory = directory.path();
    disk(directory, kind);
    if words.contains(&"--shrink") {
        diskfs_in(directory, &["resize", "disk.raw", "1G"]).bytes();
    }
    if format != "raw" {
        let convert = format!("qemu-img convert -f raw -O {format} disk.raw disk.{format}");
        shell(directory, &convert);
    }
    let name = format!("disk.{format}");
    let resize = |words: &[&str]| {
        let all = [&["resize", "--format", format, &name], words].concat();
        diskfs_in(full, &all)
    };
    let mut failures = 0;
    for but_kib in [0, 8, 64, 200, 1024] {
        let copy = format!("cp --sparse=always {name} {}", full.display());
        shell(directory, &copy);
        tmpfs.fill(but_kib * KIB);
        let run = resize(words);
        tmpfs.free();
        if run.code() != Some(0) {
            is_full(&run, &name);
            failures += 1;
            // The first copy of a table may be broken, which is a warning.
            let again = resize(words);
            assert_eq!(again.code(), Some(0), "{}", again.stderr());
        }
        let convert = format!(
            "qemu-img convert -f {format} -O raw {}/{name} judged.raw",
            full.display()
        );
        shell(directory, &convert);
        judge(directory, kind);
        assert_eq!(names(full), [name.as_str()], "{kind} {but_kib}");
    }
    assert!(failures > 0, "{kind} {format} {words:?}");
}

#[test]
fn a_resize_is_completed_when_there_is_space_again() {
    if !have(&["sfdisk", "sgdisk", "e2fsck", "fsck.fat", "qemu-img"]) {
        return;
    }
    for format in ["raw", "qcow2"] {
        resize("ext4", format, &["2G"]);
        resize("fat", format, &["100M"]);
    }
    resize("ext4", "qcow2", &["--shrink", "64M"]);
}

#[test]
fn a_new_image_does_not_appear() {
    if !have(&["tar", "e2fsck"]) {
        return;
    }
    let Some(tmpfs) = Tmpfs::new("8M") else {
        return;
    };
    let full = tmpfs.path();
    let directory = tempfile::tempdir().unwrap();
    let script = "mkdir tree; head -c 3000000 /dev/urandom > tree/large
        for nth in $(seq 200); do head -c 5000 /dev/urandom > tree/$nth; done
        tar -cf tree.tar -C tree .
        printf 'sources: [{tar: tree.tar}]\npartitions: [{filesystem: {type: ext4, mount: /}}]' \
            > plan.yaml";
    shell(directory.path(), script);
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (tree, tar, plan) = (at("tree"), at("tree.tar"), at("plan.yaml"));
    let mkfs = ["mkfs", "ext4", "--size", "fit"];
    let owner = ["--owner", "0:0"];
    let commands = [
        [&mkfs[..], &["--from-tar", &tar, "new.raw"]].concat(),
        [&mkfs[..], &["--from-dir", &tree, "new.qcow2"]].concat(),
        [&["build", "--from-dir", &tree, "-o", "new.raw"][..], &owner].concat(),
        vec!["build", &plan, "-o", "new.qcow2"],
    ];
    for but_kib in [0, 64, 1024, 3000] {
        tmpfs.fill(but_kib * KIB);
        for words in &commands {
            is_full(&diskfs_in(full, words), "new.");
            assert_eq!(names(full), [""; 0], "{but_kib} {words:?}");
            let json = diskfs_in(full, &[&["--json"], &words[..]].concat());
            let (_, said) = json.failure();
            assert!(
                said.contains(r#""kind":"no_space""#),
                "{but_kib} {words:?}: {said}"
            );
        }
    }
    tmpfs.free();
    for words in &commands {
        assert_eq!(diskfs_in(full, words).code(), Some(0), "{words:?}");
        for name in names(full) {
            fs::remove_file(full.join(name)).unwrap();
        }
    }
}

#[test]
fn a_filesystem_in_an_image_is_made_or_not() {
    if !have(&["e2fsck"]) {
        return;
    }
    let Some(tmpfs) = Tmpfs::new("8M") else {
        return;
    };
    let full = tmpfs.path();
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().display().to_string();
    fs::write(directory.path().join("large"), vec![7; 2 << 20]).unwrap();
    diskfs_in(full, &["create", "disk.raw", "64M"]).bytes();
    let words = ["mkfs", "ext4", "--from-dir", &tree, "disk.raw"];
    for but_kib in [0, 8, 64, 1024] {
        tmpfs.fill(but_kib * KIB);
        is_full(&diskfs_in(full, &words), "disk.raw");
        tmpfs.free();
        let before = fs::read(full.join("disk.raw")).unwrap();
        // No filesystem is left, so the same command does not find one.
        let info = diskfs_in(full, &["info", "--json", "disk.raw"]).json();
        assert!(!info.to_string().contains("ext4"), "{info}");
        assert!(before.len() == 64 << 20);
    }
    diskfs_in(full, &words).bytes();
    shell(full, "e2fsck -fn disk.raw");
}

#[test]
fn a_table_is_changed_or_not() {
    if !have(&["sfdisk", "sgdisk"]) {
        return;
    }
    let Some(tmpfs) = Tmpfs::new("2M") else {
        return;
    };
    let full = tmpfs.path();
    for table in ["gpt", "mbr"] {
        let _ = fs::remove_file(full.join("disk.raw"));
        diskfs_in(full, &["create", "disk.raw", "64M"]).bytes();
        let create = ["partition", "create-table", "disk.raw", table];
        tmpfs.fill(0);
        is_full(&diskfs_in(full, &create), "disk.raw");
        tmpfs.free();
        diskfs_in(full, &create).bytes();
        let add = ["partition", "add", "disk.raw", "--size", "8M"];
        diskfs_in(full, &add).bytes();
        // Only the new place of the backup needs space.
        shell(full, "truncate -s 96M disk.raw");
        tmpfs.fill(0);
        let again = diskfs_in(full, &add);
        if table == "gpt" {
            is_full(&again, "disk.raw");
        }
        tmpfs.free();
        if again.code() != Some(0) {
            let again = diskfs_in(full, &add);
            assert_eq!(again.code(), Some(0), "{}", again.stderr());
        }
        let listed = diskfs_in(full, &["partition", "list", "disk.raw", "--json"]).json();
        let partitions = listed["partition_table"]["partitions"].as_array().unwrap();
        assert_eq!(partitions.len(), 2, "{listed}");
        shell(full, "sfdisk --verify disk.raw");
    }
}

/// Freeing space needs none.
#[test]
fn a_full_host_does_not_prevent_a_sparsify() {
    if !have(&["sfdisk", "sgdisk", "e2fsck", "qemu-img"]) {
        return;
    }
    let Some(tmpfs) = Tmpfs::new("64M") else {
        return;
    };
    let (full, directory) = (tmpfs.path(), tempfile::tempdir().unwrap());
    let directory = directory.path();
    disk(directory, "ext4");
    let script = format!(
        "head -c 9000000 /dev/urandom > junk; {0} cp junk disk.raw:/junk; {0} rm disk.raw:/junk
         qemu-img convert -S 0 -O qcow2 disk.raw disk.qcow2
         cp --sparse=always disk.raw disk.qcow2 {1}",
        crate::DISKFS,
        full.display()
    );
    shell(directory, &script);
    tmpfs.fill(0);
    for format in ["qcow2", "raw"] {
        let name = format!("disk.{format}");
        diskfs_in(full, &["sparsify", &name]).text();
        let script = format!(
            "qemu-img convert -f {format} -O raw {}/{name} judged.raw",
            full.display()
        );
        shell(directory, &script);
        judge(directory, "ext4");
    }
    shell(full, "qemu-img check -q disk.qcow2");
    let size = |name: &str| {
        use std::os::unix::fs::MetadataExt;
        full.join(name).metadata().unwrap().blocks() * 512
    };
    assert!(size("disk.raw") < 8 << 20 && size("disk.qcow2") < 8 << 20);
}

/// Fixtures of each kind that is read natively and can need memory for a replay.
const READ_NATIVELY: [&str; 5] = [
    "ext4-default",
    "journal-v3",
    "xfs-log",
    "btrfs-zstd",
    "btrfs-log-extents",
];

#[test]
fn copies_on_a_full_host_are_complete_or_missing() {
    let Some(tmpfs) = Tmpfs::new("4M") else {
        return;
    };
    let full = tmpfs.path();
    for name in READ_NATIVELY {
        let (image, whole) = (image(name), tempfile::tempdir().unwrap());
        let from = format!("{}:/", image.path().display());
        let copied = diskfs_in(whole.path(), &["cp", "-a", &from, "out"]);
        assert_eq!(copied.code(), Some(0), "{name}: {}", copied.stderr());
        tmpfs.fill(40 * KIB);
        is_full(&diskfs_in(full, &["cp", "-a", &from, "out"]), name);
        let complete = Tree::of_directory(&whole.path().join("out")).unwrap();
        let copied = Tree::of_directory(&full.join("out")).unwrap();
        assert!(copied.entries.len() > 1, "{name}");
        for entry in copied.entries.iter().filter(|entry| entry.kind == 'f') {
            let expected = complete.entry(&entry.path).expect(&entry.path);
            assert_eq!(entry.content, expected.content, "{name}: {}", entry.path);
        }
        fs::remove_dir_all(full.join("out")).unwrap();
        let tar = diskfs_in(full, &["tar", "-f", "out.tar", &from]);
        is_full(&tar, "");
        assert_eq!(names(full), [""; 0], "{name}");
        tmpfs.free();
    }
}

#[test]
fn reading_needs_no_temporary_files() {
    let Some(tmpfs) = Tmpfs::new("1M") else {
        return;
    };
    tmpfs.fill(0);
    let full = tmpfs.path().to_str().expect("the path is text");
    for name in READ_NATIVELY {
        let image = image(name);
        let hash = |envs: &[(&str, &str)]| {
            let run = diskfs_with(image.directory(), &["hash", name], envs);
            assert_eq!(run.code(), Some(0), "{name}: {}", run.stderr());
            run.output.stdout
        };
        let expected = hash(&[]);
        for none in [full, "/nonexistent"] {
            let variables = ["TMPDIR", "HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"];
            assert!(
                hash(&variables.map(|name| (name, none))) == expected,
                "{name}"
            );
        }
    }
}
