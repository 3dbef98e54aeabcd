//! Commands that find no space left, on the host or in the guest, leave the old contents.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use diskfs_fixtures::{Tmpfs, require};
use tempfile::TempDir;

use crate::DISKFS;

/// Makes a new filesystem with /etc/passwd in it.
fn guest(dir: &Path, kind: &[&str], size: u64) -> Option<PathBuf> {
    require("mke2fs")?;
    require("e2fsck")?;
    let image = dir.join("s.raw");
    File::create(&image).unwrap().set_len(size).unwrap();
    let made = diskfs_fixtures::command("mke2fs")
        .arg("-qF")
        .args(kind)
        .arg(&image)
        .output();
    assert!(made.as_ref().unwrap().status.success(), "{made:?}");
    let input = dir.join("input");
    for (path, contents) in [("/passwd", "root\n"), ("/log", "one\n")] {
        fs::write(&input, contents).unwrap();
        let written = with_input(&["write"], &image, path, &input);
        assert!(written.status.success(), "{written:?}");
    }
    fs::remove_file(input).unwrap();
    Some(image)
}

fn with_input(words: &[&str], image: &Path, path: &str, input: &Path) -> Output {
    Command::new(DISKFS)
        .args(words)
        .arg(format!("{}:{path}", image.display()))
        .env("DISKFS_VM", "none")
        .stdin(Stdio::from(File::open(input).unwrap()))
        .output()
        .unwrap()
}

fn cat(image: &Path, path: &str) -> String {
    let place = format!("{}:{path}", image.display());
    let output = Command::new(DISKFS).args(["cat", &place]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn is_as_before(image: &Path) {
    assert_eq!(cat(image, "/passwd"), "root\n");
    assert_eq!(cat(image, "/log"), "one\n");
    let listed = Command::new(DISKFS)
        .args(["ls", &format!("{}:/", image.display())])
        .output()
        .unwrap();
    assert_eq!(listed.stdout, b"log\nlost+found\npasswd\n");
    let checked = diskfs_fixtures::command("e2fsck")
        .arg("-fn")
        .arg(image)
        .output();
    assert!(checked.as_ref().unwrap().status.success(), "{checked:?}");
}

fn has_failed(output: &Output) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("nothing was changed"), "{told}");
}

/// Makes files for the commands that are too large.
fn too_much(dir: &Path, len_bytes: usize) -> PathBuf {
    let tree = dir.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("a"), "small").unwrap();
    fs::write(tree.join("b"), vec![b'x'; len_bytes]).unwrap();
    let packed = Command::new("tar")
        .arg("-C")
        .arg(dir)
        .args(["-cf", "tree.tar", "tree"])
        .current_dir(dir)
        .status();
    assert!(packed.unwrap().success());
    tree.join("b")
}

fn all_fail(image: &Path, dir: &Path, large: &Path) {
    has_failed(&with_input(&["write"], image, "/passwd", large));
    is_as_before(image);
    has_failed(&with_input(&["write"], image, "/new", large));
    is_as_before(image);
    has_failed(&with_input(&["write", "--append"], image, "/log", large));
    is_as_before(image);
    let null = Path::new("/dev/null");
    let tar = dir.join("tree.tar");
    for words in [
        &["cp", large.to_str().unwrap()][..],
        &["cp", "-r", dir.join("tree").to_str().unwrap()],
        &["tar-in", "-f", tar.to_str().unwrap()],
    ] {
        let to = if words[0] == "tar-in" {
            "/"
        } else {
            "/passwd2"
        };
        has_failed(&with_input(words, image, to, null));
        is_as_before(image);
    }
    let replaced = with_input(&["cp", large.to_str().unwrap()], image, "/passwd", null);
    has_failed(&replaced);
    is_as_before(image);
}

#[test]
fn a_full_host_leaves_the_image_as_it_was() {
    let Some(tmpfs) = Tmpfs::new("1M") else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let large = too_much(dir.path(), 700_000);
    let small_journal = ["-t", "ext4", "-b", "1024", "-J", "size=1", "-N", "64", "-E"];
    let words = [
        &small_journal[..],
        &["lazy_itable_init=1,lazy_journal_init=1"],
    ]
    .concat();
    let Some(image) = guest(tmpfs.path(), &words, 16 << 20) else {
        return;
    };
    let fill = File::create(tmpfs.path().join("fill")).unwrap();
    let mut rest = 0;
    while std::os::unix::fs::FileExt::write_at(&fill, &[1; 4096], rest).is_ok_and(|n| n > 0) {
        rest += 4096;
    }
    fill.set_len(rest.saturating_sub(128 << 10)).unwrap();
    all_fail(&image, dir.path(), &large);
}

#[test]
fn a_full_guest_leaves_the_image_as_it_was() {
    for kind in ["ext4", "ext3", "ext2"] {
        let dir = TempDir::new().unwrap();
        let large = too_much(dir.path(), 14 << 20);
        let Some(image) = guest(dir.path(), &["-t", kind, "-b", "1024"], 12 << 20) else {
            return;
        };
        all_fail(&image, dir.path(), &large);
    }
}

/// The space of a replaced file is freed only when the replacement is durable, so both need space.
#[test]
fn a_file_is_replaced_with_room_beside_it_or_not_at_all() {
    let dir = TempDir::new().unwrap();
    let Some(image) = guest(dir.path(), &["-t", "ext4", "-b", "1024"], 12 << 20) else {
        return;
    };
    let input = dir.path().join("input");
    fs::write(&input, vec![b'1'; 6 << 20]).unwrap();
    assert!(
        with_input(&["write"], &image, "/large", &input)
            .status
            .success()
    );
    fs::write(&input, vec![b'2'; 6 << 20]).unwrap();
    let output = with_input(&["write"], &image, "/large", &input);
    has_failed(&output);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("beside the old ones"), "{told}");
    assert_eq!(cat(&image, "/large"), "1".repeat(6 << 20));
}

/// The next attempt would continue with the overlay.
#[test]
fn a_failed_command_leaves_no_overlay() {
    let dir = TempDir::new().unwrap();
    let large = too_much(dir.path(), 14 << 20);
    let Some(image) = guest(dir.path(), &["-t", "ext4", "-b", "1024"], 12 << 20) else {
        return;
    };
    let overlay = dir.path().join("o.qcow2");
    let words = ["write", "--overlay", overlay.to_str().unwrap()];
    has_failed(&with_input(&words, &image, "/passwd", &large));
    assert!(!overlay.exists());
    let nowhere = dir.path().join("nowhere");
    let mounted = Command::new(DISKFS)
        .args(["mount", "--overlay"])
        .args([&overlay, &image, &nowhere])
        .output()
        .unwrap();
    assert!(!mounted.status.success());
    assert!(!overlay.exists(), "{mounted:?}");
    is_as_before(&image);
}
