//! Images that are built by hand: formats of ESXi that QEMU reads and does not write, and what only
//! the specification has.

mod tools;

use diskfs_block::{ErrorKind, ImageMap, RunStorage};
use diskfs_fixtures::{Random, have};
use diskfs_vmdk::{Access, CreateType, Descriptor, DescriptorPlace, ExtentType};
use tools::made::{Made, cowd, descriptor, put32, put64, se_sparse, sparse};
use tools::{Disk, compare, memory};

fn check(made: &Made, create_type: &str, extent_type: &str) {
    let sectors = made.disk.len() / 512;
    let line = format!("RW {sectors} {extent_type} \"disk-delta.vmdk\"");
    let text = descriptor(create_type, &line);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("disk.vmdk"), text).unwrap();
    std::fs::write(dir.path().join("disk-delta.vmdk"), &made.file).unwrap();
    let disk = Disk::open(dir.path(), "disk.vmdk");
    assert_eq!(disk.map.descriptor().create_type.name(), create_type);
    assert!(disk.bytes().unwrap() == made.disk);
    if have(&["qemu-img"]) {
        compare(dir.path(), "disk.vmdk");
    }
}

#[test]
fn cowd_extents_are_read() {
    for grain in [1, 3] {
        check(
            &cowd(grain, &mut Random::new(21)),
            "vmfsSparse",
            "VMFSSPARSE",
        );
    }
}

#[test]
fn se_sparse_extents_are_read() {
    check(&se_sparse(&mut Random::new(22)), "seSparse", "SESPARSE");
}

#[test]
fn unclean_se_sparse_extents_are_refused() {
    let mut made = se_sparse(&mut Random::new(22));
    put64(&mut made.file, 512 + 24, 1);
    let line = format!("RW {} SESPARSE \"x\"", made.disk.len() / 512);
    let text = memory(descriptor("seSparse", &line));
    let e = Disk::new(text, vec![memory(made.file)]).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("journal to replay"), "{e}");
}

#[test]
fn lone_extents_are_refused_with_advice() {
    let mut random = Random::new(23);
    for file in [cowd(1, &mut random).file, se_sparse(&mut random).file] {
        let (kind, text) = tools::error(file);
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(text.contains("open the descriptor file"), "{text}");
    }
    let mut file = sparse();
    file[512..1024].fill(0);
    assert_eq!(tools::error(file).0, ErrorKind::Unsupported);
}

#[test]
fn a_file_that_ends_in_its_last_grain_has_zeroes_from_there_on() {
    let disk = Disk::new(memory(sparse()), Vec::new()).unwrap();
    let mut expected = vec![7; 4096];
    expected.extend([0; 4096]);
    expected.extend([8; 1000]);
    expected.resize(3 * 4096, 0);
    assert!(disk.bytes().unwrap() == expected);
    assert_eq!(disk.map.run_at(5000, 1).unwrap().storage, RunStorage::Zero);
    if have(&["qemu-img"]) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("disk.vmdk"), sparse()).unwrap();
        compare(dir.path(), "disk.vmdk");
    }
}

#[test]
fn the_redundant_directory_is_used_if_the_first_one_is_broken() {
    let expected = Disk::new(memory(sparse()), Vec::new())
        .unwrap()
        .bytes()
        .unwrap();
    // An entry past the end of the file, and a directory past the end of the file.
    let breaks: [fn(&mut Vec<u8>); 2] = [
        |file| put32(file, 20 * 512, 99_999),
        |file| put64(file, 56, 1 << 40),
    ];
    for change in breaks {
        let mut file = sparse();
        change(&mut file);
        let disk = Disk::new(memory(&*file), Vec::new()).unwrap();
        assert!(disk.bytes().unwrap() == expected);
        // Without the redundant one it is an error, with the byte.
        put32(&mut file, 8, 1 | 4);
        let disk = Disk::new(memory(file), Vec::new());
        let e = disk.and_then(|it| it.bytes()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt);
    }
    let mut file = sparse();
    put32(&mut file, 20 * 512, 99_999);
    put32(&mut file, 9 * 512, 99_999);
    let e = Disk::new(memory(file), Vec::new())
        .unwrap()
        .bytes()
        .unwrap_err();
    assert_eq!(e.offset(), Some(20 * 512), "{e}");
}

#[test]
fn extents_are_concatenated_with_their_offsets() {
    let text = descriptor(
        "custom",
        "RW 2 FLAT \"a.bin\" 1\nRDONLY 1 ZERO\nRW 24 SPARSE \"s.vmdk\"\nRW 0 FLAT \"b.bin\" 0\n\
         RW 1 FLAT \"a.bin\" 4\nNOACCESS 1 ZERO",
    );
    let descriptor = Descriptor::read(&*memory(&*text)).unwrap();
    assert_eq!(
        descriptor.extent_files().unwrap(),
        ["a.bin", "s.vmdk", "b.bin"]
    );
    let flat: Vec<u8> = (0..10).flat_map(|it| [it; 512]).collect();
    let files = vec![memory(flat), memory(sparse()), memory([])];
    let disk = Disk::new(memory(text), files).unwrap();
    let sparse = Disk::new(memory(sparse()), Vec::new())
        .unwrap()
        .bytes()
        .unwrap();
    let mut expected = [[1; 512], [2; 512], [0; 512]].concat();
    expected.extend(sparse);
    expected.extend([4; 512]);
    expected.extend([0; 512]);
    assert!(disk.bytes().unwrap() == expected);
    let run = disk.map.run_at((2 + 1 + 24) * 512, 512).unwrap();
    let storage = RunStorage::Stored {
        file: 1,
        offset: 4 * 512,
    };
    assert_eq!(run.storage, storage);
}

#[test]
fn a_short_flat_file_is_corrupt_where_it_ends() {
    let text = descriptor("monolithicFlat", "RW 4 FLAT \"a-flat.vmdk\" 0");
    let disk = Disk::new(memory(text), vec![memory([5; 1000])]).unwrap();
    let mut part = [0; 1000];
    disk.read(0, &mut part, u64::MAX).unwrap();
    assert_eq!(part, [5; 1000]);
    let e = disk.map.run_at(1000, 1).unwrap_err();
    assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(1000)));
    assert!(e.to_string().starts_with("a-flat.vmdk: "), "{e}");
}

#[test]
fn descriptors_are_parsed() {
    let text = "\u{feff}# Disk DescriptorFile\r\nversion=3\r\nencoding=\"windows-1252\"\r\n\
        CID=fffffffe\r\nparentCID=0000abcd\r\nisNativeSnapshot=\"no\"\r\n\
        createType = \"twoGbMaxExtentFlat\" \r\nparentFileNameHint=\"dir/base disk.vmdk\"\r\n\
        RW 4192256 FLAT \"a b-f001.vmdk\" 0\r\n\r\nchangeTrackPath=\"x-ctk.vmdk\"\r\n\
        ddb.uuid = \"60 00\"\r\nddb.adapterType=\"ide\"\r\nddb.uuid = \"later\"\r\n";
    let parse = |text: &str| Descriptor::parse(text.as_bytes(), 0, DescriptorPlace::File);
    let descriptor = parse(text).unwrap();
    assert_eq!(descriptor.version, 3);
    assert_eq!(descriptor.cid, 0xffff_fffe);
    assert_eq!(descriptor.create_type, CreateType::TwoGbMaxExtentFlat);
    let parent = descriptor.parent.as_ref().unwrap();
    assert_eq!(
        (parent.cid, &*parent.file_name),
        (0xabcd, "dir/base disk.vmdk")
    );
    assert_eq!(descriptor.extents[0].extent_type, ExtentType::Flat);
    assert_eq!(descriptor.extents[0].access, Access::ReadWrite);
    assert_eq!(descriptor.adapter_type(), Some("ide"));
    assert_eq!(descriptor.uuid(), Some("60 00"));
    for (from, to, kind) in [
        ("version=3", "version=4", ErrorKind::Unsupported),
        ("version=3", "version=x", ErrorKind::Corrupt),
        ("CID=fffffffe", "", ErrorKind::Corrupt),
        ("createType", "createTyp", ErrorKind::Corrupt),
        (
            "parentCID=0000abcd",
            "parentCID=ffffffff",
            ErrorKind::Corrupt,
        ),
        ("parentFileNameHint", "x", ErrorKind::Corrupt),
        ("FLAT", "MAGIC", ErrorKind::Unsupported),
    ] {
        let e = parse(&text.replacen(from, to, 1)).unwrap_err();
        assert_eq!(e.kind(), kind, "{from} {to}: {e}");
    }
}

#[test]
fn devices_are_refused_by_name() {
    for (create_type, line, name) in [
        ("fullDevice", "RW 63 FLAT \"/dev/sda\" 0", "fullDevice"),
        (
            "partitionedDevice",
            "RW 63 FLAT \"/dev/sda\" 0",
            "partitionedDevice",
        ),
        ("vmfs", "RW 63 VMFSRDM \"x-rdm.vmdk\"", "VMFSRDM"),
        (
            "vmfsRawDeviceMap",
            "RW 63 VMFSRDM \"x-rdm.vmdk\"",
            "vmfsRawDeviceMap",
        ),
        ("custom", "RW 63 VMFSRAW \"x\"", "VMFSRAW"),
        ("custom", "NOACCESS 63 FLAT \"x\" 0", "NOACCESS"),
    ] {
        let descriptor = Descriptor::read(&*memory(descriptor(create_type, line))).unwrap();
        let e = descriptor.extent_files().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.to_string().contains(name), "{e}");
    }
}
