//! Images of several layouts, judged by the programs of the formats.

mod tools;

use std::fs;
use std::os::unix::fs::symlink;

use diskfs_fixtures::{Lvm, Part, require, require_root, run};
use tools::{PASSPHRASE, TIME, Work, open, text};

/// A plan with everything that is made natively.
fn everything(format: &str) -> String {
    format!(
        "disk: {{size: fit+5%, format: {format}}}
seed: everything
time: {TIME}
partitions:
  - {{type: bios-boot, size: 1M}}
  - name: esp
    type: esp
    filesystem: {{type: fat, label: ESP, mount: /boot/efi}}
  - lvm:
      group: vg-0
      volumes:
        - {{name: root, size: fit+10%, filesystem: {{type: ext4, label: root, mount: /}}}}
        - {{name: swap, size: 8M, filesystem: {{type: swap, label: swap}}}}
  - size: fit+1M
    luks:
      name: data
      key: {{in-clear: {PASSPHRASE}}}
      volume-key: {{file: volume.key}}
      pbkdf: {{pbkdf2: {{iterations: 1000}}}}
      filesystem: {{type: ext2, label: data, mount: /srv/data, options: noatime}}
  - {{size: rest, filesystem: {{type: exfat, label: EX, mount: /media/ex}}}}
sources:
  - {{directory: tree, owner: \"0:0\"}}
  - {{tar: more.tar.gz, to: /opt}}
  - {{text: \"hello\\n\", to: /etc/motd, mode: \"0600\", owner: \"1:2\"}}
deploy:
  - hostname: built.example.org
"
    )
}

fn make_sources(work: &Work) {
    fs::create_dir_all(work.at("tree/boot/efi/EFI")).unwrap();
    fs::create_dir_all(work.at("tree/srv/data")).unwrap();
    fs::create_dir_all(work.at("tree/etc")).unwrap();
    fs::create_dir_all(work.at("tree/media/ex")).unwrap();
    fs::write(work.at("tree/etc/motd"), "replaced").unwrap();
    fs::write(work.at("tree/etc/os-release"), "ID=debian\n").unwrap();
    fs::write(work.at("tree/etc/hostname"), "old\n").unwrap();
    fs::write(work.at("tree/boot/efi/EFI/file"), "on FAT").unwrap();
    fs::write(work.at("tree/media/ex/file"), "on exFAT").unwrap();
    fs::write(work.at("tree/srv/data/large"), vec![7; 3_000_000]).unwrap();
    fs::hard_link(
        work.at("tree/srv/data/large"),
        work.at("tree/srv/data/link"),
    )
    .unwrap();
    symlink("motd", work.at("tree/etc/link")).unwrap();
    fs::create_dir_all(work.at("more/program")).unwrap();
    fs::write(work.at("more/program/run"), "#!/bin/sh\n").unwrap();
    let (archive, from) = (work.at("more.tar.gz"), work.at("more"));
    run("tar", ["-czf", text(&archive), "-C", text(&from), "."]).unwrap();
    fs::write(work.at("volume.key"), (0..64).collect::<Vec<u8>>()).unwrap();
}

#[test]
fn everything_is_accepted_by_the_programs_of_its_format() {
    for program in [
        "tar",
        "sgdisk",
        "sfdisk",
        "e2fsck",
        "fsck.fat",
        "cryptsetup",
        "fsck.exfat",
    ] {
        if require(program).is_none() {
            return;
        }
    }
    let work = Work::new();
    make_sources(&work);
    let built = work.build(&everything("raw"), "disk.img").unwrap();
    assert_eq!(built.steps.len(), 1);
    let image = work.at("disk.img");

    let verdict = run("sgdisk", ["-v", text(&image)]).unwrap();
    assert!(verdict.contains("No problems found"), "{verdict}");
    let table = run("sfdisk", ["-J", text(&image)]).unwrap();
    let table: serde_json::Value = serde_json::from_str(&table).unwrap();
    let partitions = table["partitiontable"]["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 5);
    assert_eq!(partitions[1]["name"], "esp");
    for partition in partitions {
        assert_eq!(partition["start"].as_u64().unwrap() % 2048, 0);
    }

    for (volume, program, words) in [
        ("p2", "fsck.fat", &["-n"][..]),
        ("vg-0/root", "e2fsck", &["-fn"]),
        ("p4/luks", "e2fsck", &["-fn"]),
        ("p5", "fsck.exfat", &["-n"]),
    ] {
        let file = work.extract("disk.img", volume);
        run(program, words.iter().copied().chain([text(&file)])).unwrap();
    }
    let encrypted = work.extract("disk.img", "p4");
    fs::write(work.at("key"), PASSPHRASE).unwrap();
    let key = work.at("key");
    let words = [
        "open",
        "--test-passphrase",
        "--key-file",
        text(&key),
        text(&encrypted),
    ];
    run("cryptsetup", words).unwrap();
}

#[test]
fn the_group_is_accepted_by_lvm() {
    if require("lvm").is_none() || require_root().is_none() {
        return;
    }
    let work = Work::new();
    make_sources(&work);
    work.build(&everything("raw"), "disk.img").unwrap();
    let disk = open(&work.at("disk.img"));
    let partition = disk.volume("p3").unwrap();
    let lvm = Lvm::new(&[Part {
        image: &work.at("disk.img"),
        start_bytes: partition.start_bytes().unwrap(),
        len_bytes: Some(partition.size_bytes()),
    }])
    .unwrap();
    lvm.run("vgck vg-0").unwrap();
    let rows = lvm.report("lvs", "lv_name").unwrap();
    let names: Vec<_> = rows
        .iter()
        .map(|row| row["lv_name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["root", "swap"]);
}

#[test]
fn all_files_are_on_their_filesystems() {
    let work = Work::new();
    make_sources(&work);
    work.build(&everything("qcow2"), "disk.img").unwrap();
    let disk = open(&work.at("disk.img"));
    let read = |volume: &str, path: &str| {
        let filesystem = disk.volume(volume).unwrap().filesystem().unwrap();
        String::from_utf8(filesystem.read(path).unwrap()).unwrap()
    };
    assert_eq!(read("vg-0/root", "/etc/motd"), "hello\n");
    assert_eq!(read("vg-0/root", "/etc/link"), "hello\n");
    assert_eq!(read("vg-0/root", "/opt/program/run"), "#!/bin/sh\n");
    assert_eq!(read("vg-0/root", "/etc/hostname"), "built.example.org\n");
    assert_eq!(read("p2", "/EFI/file"), "on FAT");
    assert_eq!(read("p5", "/file"), "on exFAT");
    let data = disk.volume("p4/luks").unwrap().filesystem().unwrap();
    assert_eq!(data.metadata("/large").unwrap().links, 2);
    let root = disk.volume("vg-0/root").unwrap().filesystem().unwrap();
    let motd = root.metadata("/etc/motd").unwrap();
    assert_eq!((motd.uid, motd.gid, motd.permissions), (1, 2, 0o600));
    assert!(root.read_dir("/srv/data").unwrap().is_empty());

    // The guest's own tree follows from fstab: the UUIDs in it are those of the volumes.
    let fstab = read("vg-0/root", "/etc/fstab");
    let lines: Vec<&str> = fstab.lines().skip(1).collect();
    assert_eq!(lines.len(), 5, "{fstab}");
    assert!(lines[0].ends_with(" / ext4 defaults 0 1"), "{fstab}");
    assert!(fstab.contains(" /srv/data ext2 noatime 0 2"), "{fstab}");
    assert!(lines[4].ends_with(" none swap sw 0 0"), "{fstab}");
    let system = diskfs_disk::guest::select_system(&disk, None).unwrap();
    let guest = system.unwrap().filesystem().unwrap();
    assert_eq!(guest.read("/boot/efi/EFI/file").unwrap(), b"on FAT");
    let uuid = disk
        .volume("p4")
        .unwrap()
        .luks()
        .unwrap()
        .unwrap()
        .uuid()
        .to_owned();
    assert_eq!(
        read("vg-0/root", "/etc/crypttab"),
        format!("data UUID={uuid} none luks\n")
    );
}

#[test]
fn the_same_plan_makes_the_same_bytes() {
    let work = Work::new();
    make_sources(&work);
    for format in ["raw", "qcow2"] {
        work.build(&everything(format), "a.img").unwrap();
        work.build(&everything(format), "b.img").unwrap();
        let bytes = |name| fs::read(work.at(name)).unwrap();
        assert!(bytes("a.img") == bytes("b.img"), "{format}");
        fs::remove_file(work.at("a.img")).unwrap();
        fs::remove_file(work.at("b.img")).unwrap();
    }
    let other = everything("raw").replace("seed: everything", "seed: other");
    work.build(&everything("raw"), "a.img").unwrap();
    work.build(&other, "b.img").unwrap();
    assert!(fs::read(work.at("a.img")).unwrap() != fs::read(work.at("b.img")).unwrap());
}

#[test]
fn a_compressed_image_has_the_same_contents() {
    if require("qemu-img").is_none() {
        return;
    }
    let work = Work::new();
    make_sources(&work);
    let plan = everything("qcow2");
    let compressed = plan.replace("format: qcow2", "format: qcow2, compress: true");
    work.build(&plan, "plain.qcow2").unwrap();
    work.build(&compressed, "compressed.qcow2").unwrap();
    let (plain, packed) = (work.at("plain.qcow2"), work.at("compressed.qcow2"));
    run("qemu-img", ["check", text(&packed)]).unwrap();
    run("qemu-img", ["compare", text(&plain), text(&packed)]).unwrap();
    let size = |path| fs::metadata(path).unwrap().len();
    assert!(size(&packed) < size(&plain));
    let raw = plan.replace("format: qcow2", "format: raw, compress: true");
    let names = work.names();
    let error = work.build(&raw, "raw").unwrap_err();
    assert!(error.to_string().contains("disk.compress"), "{error}");
    assert_eq!(work.names(), names);
}

#[test]
fn other_tables_and_sector_sizes() {
    for program in ["sfdisk", "e2fsck"] {
        if require(program).is_none() {
            return;
        }
    }
    let work = Work::new();
    let root = "filesystem: {type: ext4, mount: /}";
    let rest = format!("sources: [{{text: x, to: /file}}]\ntime: {TIME}");
    let plan = format!(
        "disk: {{table: mbr, size: 64M, id: 0x1234abcd}}\npartitions: [{{size: rest, {root}}}]\n{rest}"
    );
    work.build(&plan, "mbr").unwrap();
    let table = run("sfdisk", ["-J", text(&work.at("mbr"))]).unwrap();
    let table: serde_json::Value = serde_json::from_str(&table).unwrap();
    assert_eq!(table["partitiontable"]["label"], "dos");
    assert_eq!(table["partitiontable"]["id"], "0x1234abcd");
    run("e2fsck", ["-fn", text(&work.extract("mbr", "p1"))]).unwrap();

    let plan = format!("disk: {{sector-size: 4096}}\npartitions: [{{size: rest, {root}}}]\n{rest}");
    work.build(&plan, "gpt-4k").unwrap();
    assert_eq!(
        fs::read(work.at("gpt-4k")).unwrap()[4096..4104],
        *b"EFI PART"
    );
    run("e2fsck", ["-fn", text(&work.extract("gpt-4k", "p1"))]).unwrap();
    let plan = format!("disk: {{table: none}}\npartitions: [{{{root}}}]\n{rest}");
    work.build(&plan, "none").unwrap();
    run("e2fsck", ["-fn", text(&work.at("none"))]).unwrap();
}
