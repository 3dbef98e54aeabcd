//! Packages that `tar` makes, with disks that can be read through them.

mod tools;

use std::path::Path;
use std::sync::Arc;

use diskfs_block::{BlockRead, ErrorKind, File, ImageMap, Memory, RunStorage};
use diskfs_fixtures::{have, run};
use diskfs_ova::{Ova, is_tar};
use diskfs_vmdk::{StreamWriter, Vmdk, WriteOptions, compress_grain};
use tools::{archive, head, ovf_alone, parse, seal, two_disks};

/// Returns a stream-optimised disk of 1 MiB, of which two grains have data.
fn stream() -> Vec<u8> {
    let options = WriteOptions {
        capacity_bytes: 1 << 20,
        file_name: "a disk.vmdk".to_owned(),
        content_id: 1,
        adapter_type: "lsilogic".to_owned(),
        hardware_version: 4,
    };
    let mut writer = StreamWriter::new(Vec::new(), options).unwrap();
    for grain in [0, 7] {
        let data = compress_grain(&vec![7; 64 << 10]).unwrap();
        writer.write_grain(grain, &data).unwrap();
    }
    writer.finish().unwrap()
}

fn tar(dir: &Path, format: &str, names: &[&str]) {
    let format = format!("--format={format}");
    let path = dir.to_str().unwrap();
    let args = [&["-C", path, &format, "-cf", "machine.ova"], names].concat();
    let args = args.iter().map(|it| match *it {
        "machine.ova" => dir.join(it).to_str().unwrap().to_owned(),
        it => it.to_owned(),
    });
    run("tar", args).unwrap();
}

#[test]
fn disks_are_read_through_the_archive() {
    if !have(&["tar"]) {
        return;
    }
    for format in ["ustar", "gnu", "pax", "v7", "oldgnu"] {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("machine.ovf"), two_disks()).unwrap();
        std::fs::write(
            path("machine.mf"),
            "SHA256(machine.ovf)= 00ff\nSHA256(x)= 11\n",
        )
        .unwrap();
        std::fs::write(path("a disk.vmdk"), stream()).unwrap();
        std::fs::create_dir(path("empty")).unwrap();
        std::os::unix::fs::symlink("/etc/shadow", path("link.vmdk")).unwrap();
        let names = [
            "machine.ovf",
            "machine.mf",
            "empty",
            "link.vmdk",
            "./a disk.vmdk",
        ];
        tar(dir.path(), format, &names);
        let archive: Arc<dyn BlockRead> = Arc::new(File::open(path("machine.ova")).unwrap());
        let mut start = [0; 512];
        archive.read_at(0, &mut start).unwrap();
        assert!(is_tar(&start));
        let ova = Ova::open(archive).unwrap();
        let names: Vec<_> = ova.members().iter().map(|it| &*it.name).collect();
        assert_eq!(
            names,
            ["machine.ovf", "machine.mf", "a disk.vmdk"],
            "{format}"
        );
        assert_eq!(ova.manifest().len(), 2);
        let [disk, empty] = ova.disks() else {
            panic!("two disks");
        };
        assert_eq!((&*disk.id, disk.capacity_bytes), ("vmdisk1", Some(1 << 20)));
        assert!(disk.is_vmdk());
        assert_eq!(empty.capacity_bytes, None);
        assert!(ova.device(empty).unwrap().is_none());
        let device: Arc<dyn BlockRead> = Arc::new(ova.device(disk).unwrap().unwrap());
        let vmdk = Vmdk::open(device, &[]).unwrap();
        assert_eq!(vmdk.size_bytes(), disk.capacity_bytes.unwrap());
        let run = vmdk.run_at(7 << 16, 100).unwrap();
        let RunStorage::Compressed { unit, .. } = run.storage else {
            panic!("a grain");
        };
        assert!(vmdk.decompress(unit).unwrap().iter().all(|byte| *byte == 7));
        // The iso is named and missing.
        let mut missing = disk.clone();
        missing.file = ova.envelope().files.get(1).cloned();
        let e = ova.device(&missing).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
    }
}

#[test]
fn long_names_are_found() {
    if !have(&["tar"]) {
        return;
    }
    for (format, len) in [("gnu", 140), ("oldgnu", 140), ("pax", 140), ("ustar", 90)] {
        let dir = tempfile::tempdir().unwrap();
        let name = format!("{}/{}.vmdk", "d".repeat(len), "n".repeat(len));
        std::fs::create_dir(dir.path().join("d".repeat(len))).unwrap();
        std::fs::write(dir.path().join(&name), "disk").unwrap();
        std::fs::write(dir.path().join("machine.ovf"), two_disks()).unwrap();
        tar(dir.path(), format, &[&name, "machine.ovf"]);
        let path = dir.path().join("machine.ova");
        let ova = Ova::open(Arc::new(File::open(&path).unwrap())).unwrap();
        assert_eq!(ova.members()[0].name, name, "{format}");
        assert_eq!(ova.members()[0].size_bytes, 4);
    }
}

#[test]
fn large_members_are_found() {
    // More than eleven octal digits can state.
    const SIZE: u64 = (8 << 30) + 5;
    let mut binary = head("disk.vmdk", b'0', b"");
    binary[124..136].copy_from_slice(&[&[0x80, 0, 0, 0][..], &SIZE.to_be_bytes()].concat());
    seal(&mut binary);
    let record = format!("19 size={SIZE}\n");
    assert_eq!(record.len(), 19);
    let pax = [
        head("x", b'x', record.as_bytes()),
        head("disk.vmdk", b'0', b""),
    ]
    .concat();
    for large in [binary, pax] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine.ova");
        std::fs::write(&path, &large).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let end = (large.len() as u64 + SIZE).next_multiple_of(512);
        let envelope = archive("machine.ovf", two_disks().as_bytes());
        std::os::unix::fs::FileExt::write_all_at(&file, &envelope, end).unwrap();
        let ova = Ova::open(Arc::new(File::open(&path).unwrap())).unwrap();
        let [disk, envelope] = ova.members() else {
            panic!("two members: {:?}", ova.members());
        };
        assert_eq!((&*disk.name, disk.size_bytes), ("disk.vmdk", SIZE));
        assert_eq!(envelope.start, end + 512);
    }
}

#[test]
fn a_name_that_is_there_twice_says_nothing() {
    let twice = head("a disk.vmdk", b'0', b"contents").repeat(2);
    let file = [twice, archive("machine.ovf", two_disks().as_bytes())].concat();
    let ova = Ova::open(Arc::new(Memory::new(file))).unwrap();
    let e = ova.device(&ova.disks()[0]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(e.to_string().contains("several members"), "{e}");
}

#[test]
fn envelopes_are_parsed() {
    let parsed = parse(&two_disks()).unwrap();
    assert_eq!(parsed.files[0].size_bytes, Some(7));
    assert_eq!(parsed.disks[0].file_name(), Some("a%20disk.vmdk"));
    let entities = two_disks().replace("seed.iso", "a&amp;b&#x41;.iso");
    assert_eq!(parse(&entities).unwrap().files[1].href, "a&bA.iso");
    // Another prefix, a default namespace, a section of version 0.9.
    let other = two_disks()
        .replace("ovf:", "o:")
        .replace(
            "<DiskSection>",
            "<Section xsi:type=\"ovf:DiskSection_Type\">",
        )
        .replace("</DiskSection>", "</Section>");
    assert_eq!(parse(&other).unwrap(), parsed);
    // Elements elsewhere count for nothing.
    let elsewhere = two_disks().replace("<Info/>", "<Disk diskId=\"x\"/><File/>");
    assert_eq!(parse(&elsewhere).unwrap(), parsed);
}

#[test]
fn packed_files_are_refused_by_name() {
    let archive = ovf_alone(&two_disks());
    let ova = Ova::open(archive).unwrap();
    let mut disk = ova.disks()[0].clone();
    let file = disk.file.as_mut().unwrap();
    file.compression = Some("gzip".to_owned());
    let e = ova.device(&disk).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("gzip"), "{e}");
    let file = disk.file.as_mut().unwrap();
    (file.compression, file.chunk_bytes) = (None, Some(5));
    assert_eq!(
        ova.device(&disk).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}
