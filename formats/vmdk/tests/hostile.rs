//! Malicious images: everything ends in bounded time and memory, with an error at worst.

mod tools;

use diskfs_block::{ErrorKind, ImageMap};
use diskfs_fixtures::Random;
use diskfs_vmdk::{Descriptor, DescriptorPlace, MAX_EXTENTS, StreamWriter, WriteOptions};
use tools::made::{cowd, descriptor, put32, put64, sparse, stream};
use tools::{Disk, error, memory};

#[test]
fn names_are_only_returned() {
    for name in [
        "/etc/shadow",
        "../x",
        "json:{}",
        "nbd://host/",
        "a\u{1}b",
        "",
    ] {
        let line = format!("RW 8 FLAT \"{name}\" 0");
        let text = descriptor("monolithicFlat", &line);
        let text = text.replace(
            "parentCID=ffffffff",
            &format!("parentCID=1\nparentFileNameHint=\"{name}\""),
        );
        let descriptor = Descriptor::read(&*memory(text)).unwrap();
        assert_eq!(descriptor.extent_files().unwrap(), [name]);
        assert_eq!(descriptor.parent.unwrap().file_name, name);
    }
}

#[test]
fn the_number_of_extents_is_limited() {
    let lines = |count: usize| "RW 1 ZERO\n".repeat(count);
    let parse = |text: &str| Descriptor::parse(text.as_bytes(), 0, DescriptorPlace::File);
    let most = descriptor("custom", &lines(MAX_EXTENTS));
    assert_eq!(parse(&most).unwrap().extents.len(), MAX_EXTENTS);
    let e = parse(&descriptor("custom", &lines(1_000_000))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("4096 extents"), "{e}");
    // A file of that size is not even read.
    let (kind, text) = error(descriptor("custom", &lines(1_000_000)));
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(text.contains("1 MiB"), "{text}");
}

#[test]
fn the_database_is_limited() {
    let mut text = descriptor("custom", "");
    text.extend((0..10_000).map(|number| format!("ddb.{number}=x\n")));
    let descriptor = Descriptor::read(&*memory(text)).unwrap();
    assert_eq!(descriptor.database.len(), 256);
}

#[test]
fn sizes_that_cannot_be_are_corrupt() {
    let huge = 1_u64 << 63;
    let text = descriptor("custom", &format!("RW {huge} ZERO"));
    assert_eq!(error(text).0, ErrorKind::Corrupt);
    // Each is possible, but not their sum.
    let half = huge / 512 - 1;
    let text = descriptor("custom", &format!("RW {half} ZERO\nRW {half} ZERO"));
    let (kind, text) = error(text);
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(text.contains("2^63"), "{text}");
    // A capacity whose directory the file does not have.
    for capacity in [huge, huge / 512, 1 << 50, 1 << 24] {
        let mut file = sparse();
        put64(&mut file, 12, capacity);
        assert_eq!(error(file).0, ErrorKind::Corrupt, "{capacity}");
    }
    let mut made = cowd(1, &mut Random::new(1));
    put32(&mut made.file, 12, u32::MAX);
    let text = descriptor("vmfsSparse", "RW 4294967295 VMFSSPARSE \"x\"");
    let e = Disk::new(memory(text), vec![memory(made.file)])
        .err()
        .unwrap();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(e.to_string().contains("has 3 entries"), "{e}");
}

#[test]
fn headers_that_cannot_be_are_told() {
    use ErrorKind::{Corrupt, Unsupported};
    for (at, value, kind) in [
        (4, 0, Unsupported),
        (4, 4, Unsupported),
        (8, 1 << 20, Unsupported),
        (20, 0, Corrupt),
        (20, u32::MAX, Corrupt),
        (44, 0, Corrupt),
        (44, 513, Unsupported),
        (73, 0x0d0a_0d0a, Corrupt),
        (77, 2, Unsupported),
        (28, 0x7fff_ffff, Corrupt),
        (36, u32::MAX, Corrupt),
    ] {
        let mut file = sparse();
        put32(&mut file, at, value);
        assert_eq!(error(file).0, kind, "{value:#x} at {at}");
    }
}

#[test]
fn tables_may_be_anything() {
    // The directory is its own table, and its own grain.
    let mut file = sparse();
    put32(&mut file, 20 * 512, 20);
    let disk = Disk::new(memory(&*file), Vec::new()).unwrap();
    assert_eq!(disk.bytes().unwrap()[..512], file[20 * 512..][..512]);
    // A grain past the end.
    let mut file = sparse();
    put32(&mut file, 21 * 512, u32::MAX);
    let e = Disk::new(memory(file), Vec::new())
        .unwrap()
        .bytes()
        .unwrap_err();
    assert_eq!((e.kind(), e.offset()), (ErrorKind::Corrupt, Some(21 * 512)));
    // Overlapping grains show the same bytes.
    let mut file = sparse();
    put32(&mut file, 21 * 512 + 4, 31);
    let bytes = Disk::new(memory(file), Vec::new())
        .unwrap()
        .bytes()
        .unwrap();
    assert_eq!(bytes[..4096], bytes[4096..8192]);
}

#[test]
fn sizes_of_extents_must_agree() {
    for (sectors, is_valid) in [(24, true), (20, true), (16, false), (25, false), (1, false)] {
        let text = descriptor("custom", &format!("RW {sectors} SPARSE \"s.vmdk\""));
        let disk = Disk::new(memory(text), vec![memory(sparse())]);
        assert_eq!(disk.is_ok(), is_valid, "{sectors}");
        if let Ok(disk) = disk {
            assert_eq!(disk.map.size_bytes(), sectors * 512);
        }
    }
}

#[test]
fn the_files_must_be_those_that_are_named() {
    let text = descriptor("monolithicFlat", "RW 8 FLAT \"x\" 0");
    assert_eq!(error(text).0, ErrorKind::Invalid);
    let text = descriptor("custom", "RW 24 SPARSE \"x\"");
    let e = Disk::new(memory(text), vec![memory(b"no extent".repeat(100))])
        .err()
        .unwrap();
    assert_eq!(e.kind(), ErrorKind::Corrupt);
    assert!(e.to_string().contains("not a sparse VMDK extent"), "{e}");
}

#[test]
fn an_embedded_descriptor_of_other_files_is_refused() {
    let mut file = sparse();
    let text = descriptor(
        "monolithicSparse",
        "RW 8 FLAT \"/etc/shadow\" 0\nRW 16 ZERO",
    );
    file[512..9 * 512].fill(0);
    file[512..512 + text.len()].copy_from_slice(text.as_bytes());
    assert_eq!(error(&*file).0, ErrorKind::Unsupported);
    // Without data of its own it is a descriptor like others, as in QEMU.
    let text = text.replace("monolithicSparse", "custom");
    file[512..9 * 512].fill(0);
    file[512..512 + text.len()].copy_from_slice(text.as_bytes());
    put64(&mut file, 12, 0);
    let descriptor = Descriptor::read(&*memory(file)).unwrap();
    assert_eq!(descriptor.extent_files().unwrap(), ["/etc/shadow"]);
}

/// The byte of the marker of the first grain of [`stream`].
const MARKER: usize = 128 * 512;

#[test]
fn markers_must_agree_with_the_tables() {
    let corrupt = |change: fn(&mut Vec<u8>)| {
        let mut file = stream();
        change(&mut file);
        let disk = Disk::new(memory(file), Vec::new()).unwrap();
        let e = disk.read(0, &mut [0], u64::MAX).unwrap_err();
        assert_eq!(
            (e.kind(), e.offset()),
            (ErrorKind::Corrupt, Some(MARKER as u64)),
            "{e}"
        );
        e.to_string()
    };
    for lba in [128, 1, 1 << 40, u64::MAX] {
        let mut file = stream();
        put64(&mut file, MARKER, lba);
        let disk = Disk::new(memory(file), Vec::new()).unwrap();
        let e = disk.read(0, &mut [0], u64::MAX).unwrap_err();
        assert!(
            e.to_string().contains("grain marker of sector"),
            "{lba}: {e}"
        );
    }
    assert!(corrupt(|file| put32(file, MARKER + 8, 0)).contains("missing grain marker"));
    assert!(corrupt(|file| put32(file, MARKER + 8, u32::MAX)).contains("bytes of compressed"));
    assert!(corrupt(|file| put32(file, MARKER + 8, 20)).contains("truncated"));
    assert!(corrupt(|file| file[MARKER + 12] = 0).contains("not valid zlib data"));
}

#[test]
fn compressed_grains_must_have_their_length() {
    use std::io::Write;
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    zlib.write_all(&vec![0; 100 << 20]).unwrap();
    let bomb = zlib.finish().unwrap();
    let mut short = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    short.write_all(&[0; 1000]).unwrap();
    let short = short.finish().unwrap();
    for (data, message) in [
        (bomb, "more data than a grain"),
        (short, "1000 of 65536 bytes"),
    ] {
        let options = WriteOptions {
            capacity_bytes: 64 << 10,
            file_name: "disk.vmdk".to_owned(),
            content_id: 1,
            adapter_type: "ide".to_owned(),
            hardware_version: 4,
        };
        let mut writer = StreamWriter::new(Vec::new(), options).unwrap();
        writer.write_grain(0, &data).unwrap();
        let disk = Disk::new(memory(writer.finish().unwrap()), Vec::new()).unwrap();
        let e = disk.bytes().unwrap_err();
        assert!(e.to_string().contains(message), "{e}");
    }
}

#[test]
fn large_compressed_grains_are_refused() {
    let mut file = stream();
    let footer = file.len() - 1024;
    put64(&mut file, footer + 20, 1 << 20);
    let (kind, text) = error(file);
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(text.contains("compressed grains of"), "{text}");
}

#[test]
fn short_files_are_errors() {
    for start in [sparse(), cowd(1, &mut Random::new(1)).file, stream()] {
        for len in (0..600).step_by(7) {
            assert!(Disk::new(memory(&start[..len]), Vec::new()).is_err());
        }
    }
}
