//! The commands on a FAT filesystem, checked with `fsck.vfat` and mtools.

use std::fs;
use std::process::Command;

use diskfs_fixtures::{TempImage, image, require};

use crate::{Run, diskfs};

fn all(image: &TempImage, commands: &[&str]) {
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let run = diskfs(image, &words);
        assert_eq!(
            (run.code(), run.stderr()),
            (Some(0), String::new()),
            "{command}"
        );
    }
}

fn fails(run: &Run, code: i32, part: &str) {
    let stderr = run.stderr();
    assert_eq!(run.code(), Some(code), "{stderr}");
    assert!(stderr.contains(part), "{stderr}");
}

#[test]
fn an_esp_is_looked_at_and_changed() {
    if require("fsck.vfat").is_none() || require("mtype").is_none() {
        return;
    }
    let esp = image("fat32-small");
    let host = esp.directory().join("EFI");
    fs::create_dir_all(host.join("BOOT")).unwrap();
    fs::write(
        host.join("BOOT/bootx64.efi"),
        diskfs_fixtures::pattern("efi", 100_000),
    )
    .unwrap();
    fs::write(host.join("Long name of a loader.conf"), "timeout 3\n").unwrap();
    all(
        &esp,
        &[
            "cp -r EFI fat32-small:/",
            "mkdir -p fat32-small:/loader/entries",
            "cp EFI/BOOT/bootx64.efi fat32-small:/loader/copy",
            "mv fat32-small:/loader/copy fat32-small:/loader/entries/moved.efi",
            "truncate -s 70000 fat32-small:/loader/entries/moved.efi",
            "touch fat32-small:/loader/new",
            "rm fat32-small:/loader/new",
            "tar fat32-small:/EFI -f out.tar",
            "tar-in -f out.tar fat32-small:/loader",
            "cp -a fat32-small:/EFI out",
        ],
    );
    let listed = diskfs(&esp, &["ls", "fat32-small:/loader"]).text();
    assert!(listed.contains("entries"), "{listed}");
    let conf = "fat32-small:/efi/LONG NAME OF A LOADER.CONF";
    assert_eq!(diskfs(&esp, &["cat", conf]).text(), "timeout 3\n");
    let out = fs::read(esp.directory().join("out/BOOT/bootx64.efi")).unwrap();
    assert_eq!(out, diskfs_fixtures::pattern("efi", 100_000));
    let run = diskfs(&esp, &["ln", "-s", "x", "fat32-small:/link"]);
    fails(&run, 4, "symbolic links are not supported on FAT");
    fails(
        &diskfs(&esp, &["mkdir", "fat32-small:/a:b"]),
        2,
        "invalid name for FAT: control characters",
    );
    fails(
        &diskfs(&esp, &["mkdir", "fat32-small:/LOADER"]),
        1,
        "exists",
    );
    fails(&diskfs(&esp, &["cat", "fat32-small:/none"]), 3, "none");
    let output = diskfs_fixtures::command("fsck.vfat")
        .arg("-n")
        .arg(esp.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn short_names_are_in_the_code_page_that_is_given() {
    if require("mcopy").is_none() {
        return;
    }
    let esp = image("fat16");
    let at = |name: &str| esp.directory().join(name);
    fs::write(at("mtoolsrc"), "default_codepage=866\n").unwrap();
    fs::write(at("text"), "мир\n").unwrap();
    let copied = Command::new("mcopy")
        .args(["-i", "fat16", "text", "::МИР.TXT"])
        .current_dir(esp.directory())
        .env("MTOOLSRC", at("mtoolsrc"))
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap();
    assert!(copied.status.success(), "{copied:?}");
    let listed = |words: &[&str]| diskfs(&esp, &[&["ls"], words, &["fat16:/"]].concat()).text();
    assert!(listed(&["--code-page", "866"]).contains("МИР.TXT"));
    assert!(!listed(&[]).contains("МИР.TXT"));
    let words = ["cat", "--code-page", "cp866", "fat16:/мир.txt"];
    assert_eq!(diskfs(&esp, &words).text(), "мир\n");
    all(&esp, &["mv --code-page 866 fat16:/МИР.TXT /mir.txt"]);
    assert!(listed(&[]).contains("mir.txt"));
    fails(
        &diskfs(&esp, &["ls", "--code-page", "932", "fat16:/"]),
        2,
        "known: 437,",
    );
}
