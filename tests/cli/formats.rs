//! Images of the formats that are only read.

use std::path::Path;
use std::process::Command;

use diskfs_fixtures::{HandMadeVdi, have, image};
use serde_json::Value;

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

/// The programs that compress a disk, each with the name of the file, and whether diskfs decompresses
/// it into a temporary file.
const COMPRESSED: &[(&[&str], &str, bool)] = &[
    (&["gzip", "-c"], "demo.raw.gz", true),
    (&["xz", "-c", "--block-size=1MiB"], "demo.raw.xz", false),
    (&["xz", "-c"], "demo.img.xz", true),
    (&["bzip2", "-c"], "demo.raw.bz2", true),
    (&["zstd", "-c", "-q"], "demo.zst", true),
];

/// Compresses a file of a directory by another program.
fn compress(directory: &Path, words: &[&str], plain: &str, packed: &str) {
    let to = std::fs::File::create(directory.join(packed)).unwrap();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(plain).current_dir(directory);
    assert!(command.stdout(to).status().unwrap().success(), "{words:?}");
}

#[test]
fn files_are_read_out_of_compressed_disks() {
    let demo = image("demo.qcow2");
    let directory = demo.directory();
    diskfs(&demo, &["convert", "demo.qcow2", "demo.raw"]);
    for (words, name, is_spooled) in COMPRESSED {
        if !have(&[words[0]]) {
            continue;
        }
        compress(directory, words, "demo.raw", name);
        let cat = diskfs(&demo, &["cat", &format!("{name}:/etc/hostname")]);
        assert_eq!(cat.output.stdout, b"demo\n", "{name}: {}", cat.stderr());
        let warned = cat.stderr().contains("into a temporary file");
        assert_eq!(warned, *is_spooled, "{name}: {}", cat.stderr());
        let info = diskfs(&demo, &["info", "--json", name]);
        let info: Value = serde_json::from_slice(&info.output.stdout).unwrap();
        assert_eq!(info["image"]["format"], "compressed");
        assert_eq!(info["image"]["virtual_size_bytes"], 64 << 20);
        let same = diskfs(&demo, &["compare", name, "demo.raw"]);
        assert_eq!(same.code(), Some(0), "{}", same.stderr());
        let refused = diskfs_in(directory, &["touch", &format!("{name}:/new")]);
        assert_eq!(refused.code(), Some(1), "{}", refused.stderr());
        // qemu-img takes it for a raw disk.
        let theirs = diskfs(&demo, &["qemu-img", "info", "--output=json", name]);
        let theirs: Value = serde_json::from_slice(theirs.bytes()).unwrap();
        assert_eq!(theirs["format"], "raw");
    }
}

#[test]
fn what_is_wrong_with_a_compressed_disk_is_told() {
    if !have(&["gzip"]) {
        return;
    }
    let demo = image("demo.qcow2");
    let directory = demo.directory();
    compress(directory, &["gzip", "-c"], "demo.qcow2", "demo.qcow2.gz");
    let other = diskfs_in(directory, &["info", "demo.qcow2.gz"]);
    assert_eq!(other.code(), Some(4));
    assert!(
        other.stderr().contains("compressed qcow2"),
        "{}",
        other.stderr()
    );
    let whole = std::fs::read(directory.join("demo.qcow2.gz")).unwrap();
    std::fs::write(directory.join("cut.raw.gz"), &whole[..whole.len() / 2]).unwrap();
    let cut = diskfs_in(directory, &["info", "cut.raw.gz"]);
    assert_eq!(cut.code(), Some(5));
    assert!(cut.stderr().contains("truncated"), "{}", cut.stderr());
    std::fs::write(directory.join("plain.gz"), "no gzip").unwrap();
    let plain = diskfs(&demo, &["info", "--json", "plain.gz"]).json();
    assert_eq!(plain["image"]["format"], "raw");
    let said = diskfs_in(directory, &["info", "plain.gz,format=compressed"]);
    assert_eq!(said.code(), Some(5));
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

/// Makes a VMDK stream whose first and last bytes differ from those of others, as qemu-img does.
fn stream(directory: &Path, name: &str, byte: u8, size_mib: usize) {
    let mut disk = vec![0; size_mib << 20];
    disk[1 << 20..1_200_000].fill(byte);
    std::fs::write(directory.join(format!("{name}.raw")), disk).unwrap();
    let options = "subformat=streamOptimized";
    let from = format!("{name}.raw");
    let words = ["convert", "-f", "raw", "-O", "vmdk", "-o", options, &from];
    qemu_img(
        directory,
        &[&words[..], &[&format!("{name}.vmdk")]].concat(),
    );
}

/// Writes an envelope of these disks, and packs all into `machine.ova`.
fn pack(directory: &Path, disks: &[&str]) {
    let part =
        |text: &dyn Fn(&str) -> String| -> String { disks.iter().map(|it| text(it)).collect() };
    let files = part(&|it| format!("<File ovf:id='file-{it}' ovf:href='{it}.vmdk'/>"));
    let disk = |it: &str| {
        format!("<Disk ovf:diskId='id-{it}' ovf:capacity='4194304' ovf:fileRef='file-{it}'/>")
    };
    let envelope = format!(
        "<Envelope xmlns='http://schemas.dmtf.org/ovf/envelope/1' \
         xmlns:ovf='http://schemas.dmtf.org/ovf/envelope/1'><References>{files}</References>\
         <DiskSection><Info/>{}</DiskSection></Envelope>",
        part(&disk)
    );
    std::fs::write(directory.join("machine.ovf"), envelope).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--format=ustar", "-cf", "machine.ova", "machine.ovf"]);
    tar.args(disks.iter().map(|it| format!("{it}.vmdk")));
    assert!(tar.current_dir(directory).status().unwrap().success());
}

#[test]
fn a_disk_of_a_package_is_named() {
    if !have(&["qemu-img"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    stream(dir, "root", 1, 4);
    stream(dir, "data", 2, 6);
    pack(dir, &["root", "data"]);
    for package in ["machine.ova", "machine.ovf"] {
        for command in [&["info"][..], &["inspect"], &["convert", "--force"]] {
            let more: &[&str] = if command.len() > 1 { &["x.raw"] } else { &[] };
            let ran = diskfs_in(dir, &[command, &[package], more].concat());
            assert_eq!(ran.code(), Some(2), "{command:?}");
            let (_, said) = ran.failure();
            for part in ["has 2 disks: `root.vmdk`", "`data.vmdk`", ",disk=root.vmdk"] {
                assert!(said.contains(part), "{command:?}: {said}");
            }
            assert!(!dir.join("x.raw").exists());
        }
        for (name, from) in [
            ("root.vmdk", "root.raw"),
            ("data.vmdk", "data.raw"),
            ("id-data", "data.raw"),
        ] {
            let image = format!("{package},disk={name}");
            diskfs_in(dir, &["convert", "--force", &image, "out.raw"]).text();
            qemu_img(dir, &["compare", "-f", "raw", "-F", "raw", from, "out.raw"]);
            let map = diskfs_in(dir, &["compare", from, &image]);
            assert_eq!(map.code(), Some(0), "{image}");
        }
        let text = diskfs_in(dir, &["info", &format!("{package},disk=id-data")]).text();
        assert!(text.contains("root.vmdk, data.vmdk (this one)"), "{text}");
        let json = diskfs_in(
            dir,
            &["info", "--json", &format!("{package},disk=root.vmdk")],
        )
        .json();
        let disks = &json["image"]["details"]["disks"];
        assert_eq!(disks[0]["name"], "root.vmdk");
        assert_eq!(disks[0]["is_open"], true);
        assert_eq!(disks[1]["id"], "id-data");
        let other = format!("{package},disk=swap");
        let missing = diskfs_in(dir, &["ls", &other]);
        assert_eq!(missing.code(), Some(3));
        let (_, said) = missing.failure();
        assert!(
            said.contains("no such disk: `swap`; the package has `root.vmdk`"),
            "{said}"
        );
    }
    let other = diskfs_in(dir, &["info", "root.vmdk,disk=root"]);
    assert_eq!(other.code(), Some(2));
    pack(dir, &["data"]);
    diskfs_in(dir, &["compare", "data.raw", "machine.ova"]).text();
}

/// VirtualBox has the snapshots of a disk in a directory below it. The command is confined, so that
/// another process looks for the parent.
#[test]
fn the_parent_of_a_vdi_is_found_by_its_uuid() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path();
    std::fs::create_dir(directory.join("Snapshots")).unwrap();
    let mut base = HandMadeVdi::new(3, 1, 2, None);
    base.fill(0, 10);
    base.fill(1, 11);
    std::fs::write(directory.join("disk.vdi"), base.build()).unwrap();
    let mut child = HandMadeVdi::new(3, 3, 4, Some((1, 2)));
    child.fill(1, 21);
    let in_snapshots = "Snapshots/{03030303}.vdi";
    std::fs::write(directory.join(in_snapshots), child.build()).unwrap();
    let convert = ["convert", "--json", "-O", "raw", in_snapshots, "child.raw"];
    let (code, message) = diskfs_in(directory, &convert).failure();
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("--allow-backing"), "{message}");
    let allow = ["--allow-backing", "."];
    diskfs_in(directory, &[&convert[..], &allow].concat()).json();
    let raw = std::fs::read(directory.join("child.raw")).unwrap();
    let expected = [10, 21, 0].map(|fill| vec![fill; 1 << 20]).concat();
    assert!(raw == expected);

    std::fs::write(directory.join("child.vdi"), child.build()).unwrap();
    let info = diskfs_in(directory, &["info", "--json", "child.vdi"]).json();
    let uuid = "01010101-0101-0101-0101-010101010101";
    assert!(info.to_string().contains(uuid), "{info}");
    let checked = diskfs_in(directory, &["validate", "--policy", "glance", "child.vdi"]);
    let found = format!(
        "{}{}",
        checked.stderr(),
        String::from_utf8_lossy(&checked.output.stdout)
    );
    assert!(
        found.contains(&format!("has a parent: `{uuid}`")),
        "{found}"
    );
    let closed = diskfs_in(directory, &["info", "--no-backing", "child.vdi"]);
    assert_eq!(closed.failure().0, 6);
    // By the name of qemu-img, too, which refuses it.
    let words = ["qemu-img", "convert", "-O", "raw", "child.vdi", "again.raw"];
    diskfs_in(directory, &words).bytes();
    assert!(std::fs::read(directory.join("again.raw")).unwrap() == expected);
    if have(&["qemu-img"]) {
        let mut command = Command::new("qemu-img");
        let theirs = command.args(&words[1..]).current_dir(directory).output();
        assert!(!theirs.unwrap().status.success());
    }
    let stale = HandMadeVdi::new(3, 1, 9, None).build();
    std::fs::write(directory.join("disk.vdi"), stale).unwrap();
    let (code, message) = diskfs_in(directory, &["map", "child.vdi"]).failure();
    assert_eq!(code, 6, "{message}");
    assert!(message.contains("its modification UUID is"), "{message}");
}
