//! Images of the formats that are only read.

use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{have, image};

use crate::{diskfs, diskfs_in};

/// Runs qemu-img, which must succeed.
fn qemu_img(directory: &Path, words: &[&str]) {
    let mut command = Command::new("qemu-img");
    let done = command.args(words).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
}

/// The formats as `qemu-img convert -O` and its `-o` make them, with the format as diskfs names it.
const FORMATS: &[(&str, &str, &str)] = &[
    ("vdi", "static=off", "vdi"),
    ("vpc", "subformat=dynamic,force_size=on", "vhd"),
    ("vhdx", "block_size=1M", "vhdx"),
    ("qed", "cluster_size=64K", "qed"),
    ("parallels", "cluster_size=1M", "parallels"),
    ("qcow", "", "qcow"),
];

#[test]
fn files_are_read_out_of_every_format() {
    if !have(&["qemu-img"]) {
        return;
    }
    let demo = image("demo.qcow2");
    for (theirs, options, ours) in FORMATS {
        let name = format!("demo.{ours}");
        let mut words = vec!["convert", "-O", theirs];
        if !options.is_empty() {
            words.extend(["-o", options]);
        }
        qemu_img(
            demo.directory(),
            &[&words[..], &["demo.qcow2", &name]].concat(),
        );
        let cat = diskfs(&demo, &["cat", &format!("{name}:/etc/hostname")]);
        assert_eq!(cat.text(), "demo\n", "{name}");
        let listed = diskfs(&demo, &["ls", &format!("{name}:/etc")]).text();
        assert_eq!(listed, diskfs(&demo, &["ls", "demo.qcow2:/etc"]).text());
        let info = diskfs(&demo, &["info", "--json", &name]).json();
        assert_eq!(info["image"]["format"], *ours);
        assert!(info["image"]["details"].is_object());
        let text = diskfs(&demo, &["info", &name]).text();
        assert!(
            text.contains(&format!("{ours} (detected from its contents)")),
            "{text}"
        );
    }
}

#[test]
fn a_fixed_vhd_is_opened_by_its_format() {
    if !have(&["qemu-img"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let words = [
        "convert",
        "-O",
        "vpc",
        "-o",
        "subformat=fixed,force_size=on",
    ];
    qemu_img(
        demo.directory(),
        &[&words[..], &["demo.qcow2", "demo.vhd"]].concat(),
    );
    for format in ["vhd", "vpc"] {
        let file = format!("demo.vhd,format={format}:/etc/hostname");
        assert_eq!(diskfs(&demo, &["cat", &file]).text(), "demo\n");
    }
    let warned = diskfs(&demo, &["info", "demo.vhd"]);
    assert!(
        warned.stderr().contains("format=vhd"),
        "{}",
        warned.stderr()
    );
}

#[test]
fn no_command_writes_to_another_format() {
    if !have(&["qemu-img"]) {
        return;
    }
    let demo = image("demo.qcow2");
    qemu_img(
        demo.directory(),
        &["convert", "-O", "vhdx", "demo.qcow2", "demo.vhdx"],
    );
    let path = demo.directory().join("demo.vhdx");
    let before = std::fs::read(&path).unwrap();
    for words in [
        &["rm", "demo.vhdx:/etc/hostname"][..],
        &["resize", "demo.vhdx", "+1G"],
        &["deploy", "demo.vhdx", "--hostname", "x"],
        &["snapshot", "create", "demo.vhdx", "x"],
        &["mount", "--rw", "demo.vhdx", "."],
    ] {
        let (code, stderr) = diskfs(&demo, words).failure();
        assert!(
            stderr.contains("cannot write to a vhdx image: the format is only read"),
            "{words:?}: {code} {stderr}"
        );
        assert!(
            stderr.contains("diskfs create -b demo.vhdx -F vhdx"),
            "{stderr}"
        );
    }
    assert!(std::fs::read(&path).unwrap() == before);
    // The way that the message shows.
    let words = ["create", "-b", "demo.vhdx", "-F", "vhdx", "changes.qcow2"];
    diskfs(&demo, &words).bytes();
    diskfs(&demo, &["rm", "changes.qcow2:/etc/hostname"]).bytes();
    let listed = diskfs(&demo, &["ls", "changes.qcow2:/etc"]).text();
    assert!(!listed.contains("hostname"));
    assert!(std::fs::read(&path).unwrap() == before);
}

/// A confined process gets the backing file from its broker.
#[test]
fn backing_files_of_other_formats() {
    if !have(&["qemu-img"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let directory = demo.directory();
    qemu_img(
        directory,
        &["convert", "-O", "raw", "demo.qcow2", "base.raw"],
    );
    let words = [
        "create", "-f", "qed", "-b", "base.raw", "-F", "raw", "demo.qed",
    ];
    qemu_img(directory, &words);
    let file = "demo.qed:/etc/hostname";
    assert_eq!(diskfs_in(directory, &["cat", file]).text(), "demo\n");
    let (_, stderr) = diskfs_in(directory, &["cat", "--no-backing", file]).failure();
    assert!(stderr.contains("refusing to open backing file"), "{stderr}");
}
